"""Compiles our kernel to machine code for a GPU that need not be there; prints the shared memory it takes.

Run as a program: within a test process Triton may already be a stand-in or an interpreter.
"""

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from streamgen.attention.kernels.triton import block_sizes
from streamgen.attention.kernels.triton_paged import paged_attention

TYPES = {"bf16": 2, "fp16": 2, "fp32": 4}
POINTERS = {
    "table": "*i32",
    "used": "*i32",
    "depth": "*i32",
    "windows": "*i32",
    "sinks": "*i32",
    "tree": "*i8",
}
NUMBERS = {
    "scale": "fp32",
    "queries": "i32",
    "staged": "i32",
    "columns": "i32",
    "token_stride": "i32",
    "head_stride": "i64",
}


def shared_bytes(dtype: str, order: int, head_dim: int, capability: int) -> int:
    constants = {"H": 2, "GROUP": 4, "D": head_dim, "PAGE": 16, "ORDER": order, "UPCAST": False}
    constants |= block_sizes(rows=4096, head_dim=head_dim, itemsize=TYPES[dtype])
    kinds = dict.fromkeys(("out", "q", "k", "v"), f"*{dtype}") | POINTERS | NUMBERS
    signature = {name: kinds.get(name, "constexpr") for name in paged_attention.arg_names}
    source = ASTSource(paged_attention, signature, constexprs=constants)
    return int(triton.compile(source, target=GPUTarget("cuda", capability, 32)).metadata.shared)


if __name__ == "__main__":
    for case in sys.argv[1:]:
        dtype, order, head_dim, capability = case.split(",")
        print(case, shared_bytes(dtype, int(order), int(head_dim), int(capability)))
