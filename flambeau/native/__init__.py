"""Machine code: a loop IR, its interpreter, the emitter to LLVM IR, kernels, threads, a disk cache.

Knows memory, types and loops; nothing of tensors or operators. What is compiled here serves the
compiler's programs and the large tensors of eager operators alike. llvmlite is imported on first
use, never by importing this package.
"""
