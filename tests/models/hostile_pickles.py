"""Pickles that would run a command, the file torch.save makes around one, and how to tell that they ran."""

import io
import os
import pickle
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

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


def touch(path: str) -> int:
    Path(path).touch()
    return 0
