"""Published Doc-to-LoRA checkpoints are pickles; here they are read and nothing in them runs.

They hold tensors and the dataclasses of the training code. torch's own reader of weights builds the tensors,
and inert stand-ins, which only keep what they are given, take the place of the dataclasses by name. A file
that asks for anything else is refused before any of it is unpickled. What is looked through is what torch
loads: the same open file, and the pickle that torch's own reader of archives finds in it.
"""

import pickle
import pickletools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn, Self

import torch

from streamgen.errors import UsageError
from streamgen.models.checkpoint import UnsafeWeightsError

# What tensors are made of in a pickle of torch.save.
WEIGHTS = re.compile(
    r"collections\.OrderedDict|(__builtin__|builtins)\.set|torch\._utils\._rebuild_(tensor_v2|parameter)"
    r"|torch\.(storage\.)?\w+Storage|torch\.(bfloat16|float16|float32|float64|int64|device|Size)"
)
OTHER_WAYS = {"INST", "OBJ", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4", "NEWOBJ_EX"}
ARCHIVE = b"PK\x03\x04"  # by these bytes torch.load tells an archive from the bare pickles of before
TRUST = "ask for a safetensors file, or convert it where you trust it"


class Facts:
    """Stands in for a dataclass: its fields are data, its name is the one in the file."""

    values: tuple[object, ...]
    fields: dict[str, Any]

    def __new__(cls, *values: object) -> Self:
        """A pickle may make an instance without __init__, and with no fields after it."""
        made = super().__new__(cls)
        made.values, made.fields = values, {}
        return made

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise pickle.UnpicklingError(f"the fields of {type(self).__name__} are no dictionary")
        self.fields = dict(state)


class HypernetConfig(Facts):
    """ctx_to_lora: sizes and switches of the hypernetwork."""


class AggregatorConfig(Facts):
    """ctx_to_lora: sizes of the Perceiver."""


class CtxEncoderArguments(Facts):
    """ctx_to_lora: which model reads the document, and how."""


class LoraConfig(Facts):
    """peft: rank, strength and target modules."""


class LoraRuntimeConfig(Facts):
    """peft: says nothing about the weights."""


class Choice(Facts):
    """An enum value of peft or of ctx_to_lora."""


STAND_INS: dict[str, type[Facts]] = {
    "ctx_to_lora.modeling.hypernet.HypernetConfig": HypernetConfig,
    "ctx_to_lora.modeling.aggregator.AggregatorConfig": AggregatorConfig,
    "ctx_to_lora.modeling.aggregator.AGGREGATOR_TYPE": Choice,
    "ctx_to_lora.pooling.POOL_FN": Choice,
    "ctx_to_lora.modeling.ctx_encoder.CTX_ENCODER_TYPE": Choice,
    "ctx_to_lora.configs.CtxEncoderArguments": CtxEncoderArguments,
    "peft.tuners.lora.config.LoraConfig": LoraConfig,
    "peft.tuners.lora.config.LoraRuntimeConfig": LoraRuntimeConfig,
    "peft.utils.peft_types.PeftType": Choice,
    "peft.utils.peft_types.TaskType": Choice,
}


def read_pickle(path: Path) -> dict[str, Any]:
    """Tensors and facts of a published file; dataclasses come as dictionaries of their fields."""
    if not path.is_file():
        raise UsageError(f"There is no {path}; give the pytorch_model.bin of a Doc-to-LoRA checkpoint.")
    with path.open("rb") as file:
        _refuse_strangers(path, file)
        file.seek(0)
        try:
            with torch.serialization.safe_globals([(cls, name) for name, cls in STAND_INS.items()]):
                tree = torch.load(file, map_location="cpu", weights_only=True, mmap=False)
        except Exception as error:  # a pickle is a program, and a damaged or hostile one may fail in any way
            _refuse(path, error)
    if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree):
        raise UsageError(f"{path} holds a {type(tree).__name__} and no named weights; give a checkpoint.")
    return {name: plain(value) for name, value in tree.items()}


def plain(value: Any) -> Any:
    """The same facts without stand-ins."""
    if isinstance(value, Choice):
        return value.values[0] if value.values else None
    if isinstance(value, Facts):
        return {name: plain(field) for name, field in value.fields.items()}
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, list | tuple | set):
        return type(value)(plain(item) for item in value)
    return value


def _refuse_strangers(path: Path, file: IO[bytes]) -> None:
    """Read which names the pickle asks for, without building anything.

    torch's reader refuses strangers too, but lets in what other code of this process has allowed.
    """
    try:
        asked = set(_names(_program(file)))
    except Exception as error:  # as above
        _refuse(path, error)
    strangers = sorted(name for name in asked if name not in STAND_INS and not WEIGHTS.fullmatch(name))
    if strangers:
        raise UnsafeWeightsError(
            f"{path} asks for {', '.join(strangers)}, which is no part of a Doc-to-LoRA checkpoint and could "
            f"run code; it was not read. If you expected weights, {TRUST}."
        )


def _program(file: IO[bytes]) -> bytes:
    """The one pickle of an archive of torch.save, as torch.load finds it."""
    if file.read(len(ARCHIVE)) != ARCHIVE:
        raise pickle.UnpicklingError("it does not begin as an archive of torch.save does")
    file.seek(0)
    reader = torch._C.PyTorchFileReader(file)
    pickles = [name for name in reader.get_all_records() if name.casefold().endswith(".pkl")]
    if pickles != ["data.pkl"]:
        raise pickle.UnpicklingError(f"it holds the pickles {pickles} where data.pkl alone belongs")
    return reader.get_record("data.pkl")


def _names(program: bytes) -> Iterator[str]:
    """Module and name of every global; other ways to reach one stand for themselves."""
    for opcode, argument, _ in pickletools.genops(program):
        if opcode.name == "GLOBAL":
            yield str(argument).replace(" ", ".")
        elif opcode.name in OTHER_WAYS:
            yield f"something by {opcode.name}"


def _refuse(path: Path, error: Exception) -> NoReturn:
    raise UnsafeWeightsError(
        f"{path} is damaged, or holds more than tensors and settings; it was not read. If you expected "
        f"weights, {TRUST}."
    ) from error
