"""Working memory of a kernel that is being emitted: what it takes, it gives back at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from ..llvm.scratch_abi import GIVE, TAKE
from ..llvm.builder import POINTER, Builder


@contextmanager
def borrow_scratch(b: Builder, tid: ir.Value) -> Iterator[ir.Value]:
    """Emits the body of the with statement between taking a slot and giving it back."""
    taken = b.external(TAKE, POINTER, [tid])
    yield taken
    b.external(GIVE, ir.VoidType(), [taken])
