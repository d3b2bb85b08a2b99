"""A published pickle is read; a hostile one does not run, whatever its shape."""

import io
import os
import pickle
import struct
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from streamgen.errors import StreamgenError, UsageError
from streamgen.models.checkpoint import UnsafeWeightsError
from streamgen.models.doc_lora_pickle import read_pickle
from tests.golden.d2l_models import PICKLES, mended

CONFIG = b"cctx_to_lora.modeling.hypernet\nHypernetConfig\n"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def archive(path: Path, program: bytes) -> None:
    """A file as torch.save lays it out, around any pickle."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {"data.pkl": program, "version": b"3\n", "byteorder": b"little"}.items():
            file.writestr(f"archive/{name}", content)


class Runs:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def shell(mark: Path) -> bytes:
    return b"\x80\x02cposix\nsystem\n" + text(f"touch {mark}") + b"\x85R."


def shell_of_nt_style_module(mark: Path) -> bytes:
    return b"\x80\x02cos\nsystem\n" + text(f"touch {mark}") + b"\x85R."


def evaluation(mark: Path) -> bytes:
    return b"\x80\x02c__builtin__\neval\n" + text(f"open({str(mark)!r}, 'w')") + b"\x85R."


def popen(mark: Path) -> bytes:
    return b"\x80\x02csubprocess\nPopen\n(lX\x05\x00\x00\x00toucha" + text(str(mark)) + b"a\x85R."


def instance_opcode(mark: Path) -> bytes:
    return b"(S'touch " + str(mark).encode() + b"'\niposix\nsystem\n."


def object_opcode(mark: Path) -> bytes:
    return b"(csubprocess\nPopen\n(S'touch'\nS'" + str(mark).encode() + b"'\nlo."


def stack_global(mark: Path) -> bytes:
    return pickle.dumps(Runs(os.system, f"touch {mark}"), protocol=4)


def inside_a_weight(mark: Path) -> bytes:
    return pickle.dumps({"head.weight": Runs(os.system, f"touch {mark}"), "step": 1}, protocol=2)


def inside_the_fields(mark: Path) -> bytes:
    """A true dataclass whose rank is a call."""
    call = b"cposix\nsystem\n" + text(f"touch {mark}") + b"\x85R"
    return b"\x80\x02" + CONFIG + b")\x81}" + text("r") + call + b"sb."


def after_a_good_end(mark: Path) -> bytes:
    """The call comes before the value that is returned, and its result is thrown away."""
    return b"\x80\x02cposix\nsystem\n" + text(f"touch {mark}") + b"\x85R0}."


def a_pickle_in_a_storage(mark: Path) -> bytes:
    inner = io.BytesIO()
    torch.save(Runs(os.system, f"touch {mark}"), inner)
    return pickle.dumps(Runs(torch.storage._load_from_bytes, inner.getvalue()), protocol=2)


def by_a_partial(mark: Path) -> bytes:
    from functools import partial

    return pickle.dumps(Runs(partial(os.system, f"touch {mark}")), protocol=2)


RUNNABLE = [
    shell,
    shell_of_nt_style_module,
    evaluation,
    popen,
    instance_opcode,
    object_opcode,
    stack_global,
    inside_a_weight,
    after_a_good_end,
    a_pickle_in_a_storage,
    by_a_partial,
]


def ran(mark: Path) -> bool:
    """A child process may take a moment."""
    for _ in range(1000):
        if mark.exists():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("program", RUNNABLE, ids=lambda f: f.__name__)
def test_what_would_run_is_refused_and_has_not_run(program: Callable[[Path], bytes], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    archive(tmp_path / "pytorch_model.bin", program(mark))
    (tmp_path / "legacy.bin").write_bytes(program(mark))
    for name in ("pytorch_model.bin", "legacy.bin"):
        with pytest.raises(UnsafeWeightsError, match="was not read"):
            read_pickle(tmp_path / name)
    assert not mark.exists()
    pickle.loads(program(mark))  # the payload is a real one
    assert ran(mark)


@pytest.mark.parametrize(
    "program",
    [
        inside_the_fields,
        lambda mark: b"\x80\x02cctx_to_lora.modeling.hypernet\nHypernetConfig.__init__.__globals__\n.",
        lambda mark: b"\x80\x02c__builtin__\ngetattr\n" + CONFIG + text("__init__") + b"\x86R.",
        lambda mark: b"\x80\x02ctorch.hub\nload\n" + text("owner/name") + text("model") + b"\x86R.",
        lambda mark: b"\x80\x02ctorch.jit\nload\n" + text(str(mark)) + b"\x85R.",
        lambda mark: b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
        lambda mark: b"\x80\x02ctypes\nFunctionType\n.",
        lambda mark: b"\x80\x02cpeft.utils.peft_types\nsomething\n.",
        lambda mark: b"\x80\x02\x82\x01.",  # a class by number, from the extension registry
        lambda mark: b"\x80\x02" + CONFIG + b"}" + text("fields") + text("x") + b"sb.",  # BUILD on the class
        lambda mark: b"\x80\x02" + text("not a storage") + b"Q.",
    ],
)
def test_gadgets_are_refused(program: Callable[[Path], bytes], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    archive(tmp_path / "pytorch_model.bin", program(mark))
    with pytest.raises(UnsafeWeightsError, match="was not read"):
        read_pickle(tmp_path / "pytorch_model.bin")
    assert not mark.exists()


def test_what_a_program_allows_itself_elsewhere_is_not_allowed_here(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    archive(tmp_path / "pytorch_model.bin", pickle.dumps({"a": Runs(touch, str(mark))}, protocol=2))
    with torch.serialization.safe_globals([touch]):
        torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
        assert mark.exists()
        mark.unlink()
        with pytest.raises(UnsafeWeightsError, match="touch"):
            read_pickle(tmp_path / "pytorch_model.bin")
    assert not mark.exists()


def touch(path: str) -> int:
    Path(path).touch()
    return 0


def test_reading_leaves_nothing_allowed_behind(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())  # they come in any order
    read_pickle(mended(PICKLES[0], tmp_path))
    assert set(torch.serialization.get_safe_globals()) == before


def test_fields_are_data_and_never_attributes(tmp_path: Path) -> None:
    fields = b"}(" + text("__class__") + text("x") + text("__setstate__") + text("y") + b"u"
    archive(tmp_path / "model.bin", b"\x80\x02}" + text("a") + CONFIG + b")\x81" + fields + b"bs.")
    assert read_pickle(tmp_path / "model.bin") == {"a": {"__class__": "x", "__setstate__": "y"}}


def test_fields_that_are_no_dictionary_are_refused(tmp_path: Path) -> None:
    archive(tmp_path / "model.bin", b"\x80\x02}" + text("a") + CONFIG + b")\x81" + text("x") + b"bs.")
    with pytest.raises(UnsafeWeightsError, match="damaged"):
        read_pickle(tmp_path / "model.bin")


def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(tmp_path / "model.bin"))
    with pytest.raises(UnsafeWeightsError, match="was not read"):
        read_pickle(tmp_path / "model.bin")


@pytest.mark.parametrize("damage", [lambda data: data[:3000], lambda data: b"", lambda data: b"hello" * 99])
def test_a_damaged_file_is_one_sentence(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = mended(PICKLES[0], tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UnsafeWeightsError, match="damaged"):
        read_pickle(path)


def test_a_wrong_byte_in_the_pickle_is_one_sentence(tmp_path: Path) -> None:
    path = mended(PICKLES[0], tmp_path)
    data = path.read_bytes()
    place = data.index(b"hypernet_config")
    path.write_bytes(data[:place] + b"\xc7" * 8 + data[place + 8 :])
    with pytest.raises(StreamgenError):
        read_pickle(path)


def test_a_missing_file_and_a_file_of_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no .*model\.bin"):
        read_pickle(tmp_path / "model.bin")
    torch.save([torch.ones(1)], tmp_path / "model.bin")
    with pytest.raises(UsageError, match="holds a list"):
        read_pickle(tmp_path / "model.bin")


def test_dataclasses_come_as_dictionaries_and_enums_as_their_values(tmp_path: Path) -> None:
    tree = read_pickle(mended(PICKLES[0], tmp_path))
    assert tree["hypernet_config"]["lora_config"]["peft_type"] == "LORA"
    assert tree["hypernet_config"]["lora_config"]["target_modules"] == {"down_proj"}
    assert tree["hypernet_config"]["aggregator_config"]["aggregator_type"] == "perceiver"
    assert tree["ctx_encoder_args"]["quantize_ctx_encoder"] is False


def test_tensors_of_every_usual_type_are_read(tmp_path: Path) -> None:
    kinds = (torch.bfloat16, torch.float16, torch.float32, torch.int64)
    state = OrderedDict((str(kind), torch.arange(3).to(kind)) for kind in kinds)
    torch.save(state, tmp_path / "model.bin")
    found = read_pickle(tmp_path / "model.bin")
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
