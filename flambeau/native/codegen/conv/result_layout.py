"""How the results of a convolution of run-time sizes lie: tests that run with the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llvmlite import ir

from ...loop_ir.ir import Contract, Index, Statement, Store


def are_equal(b: ir.IRBuilder, *pairs: tuple[ir.Value, ir.Value]) -> ir.Value:
    """Whether the numbers of each pair are the same."""
    equal = ir.Constant(ir.IntType(1), 1)
    for x, y in pairs:
        equal = b.and_(equal, b.icmp_signed("==", x, y))
    return equal


def get_only_store(contract: Contract) -> Store:
    """Return the only statement of the epilogue."""
    (store,) = contract.body
    assert isinstance(store, Store)
    return store


def store_along(contract: Contract, index: Index) -> Sequence[Statement]:
    """The epilogue for results that are neighbors in memory along an index."""
    store = get_only_store(contract)
    terms = tuple((i, 1 if i is index else stride) for i, stride in store.at.terms)
    return [replace(store, at=replace(store.at, terms=terms))]
