"""Just enough of Triton to run our kernel as plain Python over torch tensors where it is not installed."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

KERNEL = "streamgen.attention.kernels.triton_paged"
PROGRAM = [0, 0, 0]


class Pointer:
    """The address of a tensor's elements: base + offsets."""

    def __init__(self, base: Tensor, offset: Any = 0) -> None:
        self.base, self.offset = base, offset
        self.dtype = SimpleNamespace(element_ty=base.dtype)

    def __add__(self, offset: Any) -> "Pointer":
        return Pointer(self.base, self.offset + offset)

    @property
    def memory(self) -> Tensor:
        """The elements as they lie in memory, from the first to the last."""
        last = sum(
            (size - 1) * stride for size, stride in zip(self.base.shape, self.base.stride(), strict=True)
        )
        return self.base.as_strided((last + 1,), (1,))


def load(pointer: Pointer, mask: Tensor | None = None, other: float = 0) -> Tensor:
    offset = torch.as_tensor(pointer.offset)
    if mask is None:
        return pointer.memory[offset]
    mask, offset = torch.broadcast_tensors(mask, offset)
    assert bool((offset[mask] < len(pointer.memory)).all()) and bool((offset[mask] >= 0).all()), (
        "out of bounds"
    )
    read = pointer.memory[torch.where(mask, offset, 0)]
    return torch.where(mask, read, torch.as_tensor(other, dtype=read.dtype))


def store(pointer: Pointer, value: Tensor, mask: Tensor) -> None:
    mask, offset, value = torch.broadcast_tensors(mask, torch.as_tensor(pointer.offset), value)
    pointer.memory[offset[mask]] = value[mask]


def dot(a: Tensor, b: Tensor, input_precision: str = "tf32") -> Tensor:
    assert a.dtype == b.dtype and input_precision == "ieee"
    return a.float() @ b.float()


class Launcher:
    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*args: Any, **options: Any) -> None:
            # Addresses are Pointers inside a kernel; numbers stay numbers.
            inside = [Pointer(arg) if isinstance(arg, Tensor) else arg for arg in args]
            for place in itertools.product(*[range(size) for size in grid]):
                PROGRAM[:] = place
                self.function(*inside, **options)

        return launch


def language() -> ModuleType:
    module = ModuleType("triton.language")
    operations = {
        "constexpr": int,
        "float32": torch.float32,
        "int64": torch.int64,
        "program_id": lambda axis: torch.tensor(PROGRAM[axis]),
        "arange": torch.arange,
        "full": lambda shape, value, dtype: torch.full(shape, value, dtype=dtype),
        "zeros": lambda shape, dtype: torch.zeros(shape, dtype=dtype),
        "trans": lambda x: x.T,
        "max": lambda x, axis: x.amax(axis),
        "sum": lambda x, axis: x.sum(axis),
        "maximum": torch.maximum,
        "exp": torch.exp,
        "where": lambda mask, a, b: torch.where(
            mask, torch.as_tensor(a), torch.as_tensor(b, dtype=getattr(a, "dtype", None))
        ),
        "load": load,
        "store": store,
        "dot": dot,
    }
    for name, operation in operations.items():
        setattr(module, name, operation)
    return module


@contextmanager
def installed() -> Iterator[None]:
    """Put the stand-in where Triton would be, for as long as the block lasts."""
    names = ("triton", "triton.language", "triton.runtime", KERNEL)
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    triton, runtime = ModuleType("triton"), ModuleType("triton.runtime")
    triton.__spec__ = ModuleSpec("triton", None)
    triton.jit = Launcher  # type: ignore[attr-defined]
    triton.language, triton.runtime = language(), runtime  # type: ignore[attr-defined]
    runtime.JITFunction = type("JITFunction", (), {})  # type: ignore[attr-defined]
    sys.modules |= {"triton": triton, "triton.language": triton.language, "triton.runtime": runtime}
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
