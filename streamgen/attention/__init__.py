"""Attention kernels behind one contract; the only package that imports kernel packages."""

from streamgen.attention.check import checked as checked
from streamgen.attention.contract import Attend as Attend
from streamgen.attention.contract import Kernel as Kernel
from streamgen.attention.contract import KernelError as KernelError
from streamgen.attention.contract import Need as Need
from streamgen.attention.registry import choose as choose
from streamgen.attention.registry import kernels as kernels
from streamgen.attention.report import KernelReport as KernelReport
from streamgen.attention.report import describe_kernels as describe_kernels
