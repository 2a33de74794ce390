"""torch._decomp: tables of the operators that run_decompositions takes apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..export.decompositions import default_decompositions
from ..ops.core.aten import Packet

__all__ = ["core_aten_decompositions", "decomposition_table", "get_decompositions"]

decomposition_table: dict[Any, Callable] = default_decompositions()


def core_aten_decompositions() -> dict[Any, Callable]:
    """A table of all operators that are taken apart.

    >>> from flambeau._decomp import core_aten_decompositions
    >>> torch.ops.aten.linear.default in core_aten_decompositions()
    True
    """
    return default_decompositions()


def get_decompositions(aten_ops: Iterable[Any], type: str = "post_autograd") -> dict[Any, Callable]:
    """The part of the table for these operators; a packet stands for all its overloads."""
    requested = set(aten_ops)
    packets = {op for op in requested if isinstance(op, Packet)}
    return {op: f for op, f in decomposition_table.items()
            if op in requested or op.overloadpacket in packets}
