"""Scratch memory of a kernel, taken at its start and returned at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from ..llvm.builder import POINTER, Builder
from ..llvm.scratch_abi import GIVE, TAKE


@contextmanager
def borrow_scratch(b: Builder, tid: ir.Value) -> Iterator[ir.Value]:
    """Take a scratch slot for the `with` block and return it afterwards."""
    block = b.external(TAKE, POINTER, [tid])
    yield block
    b.external(GIVE, ir.VoidType(), [block])
