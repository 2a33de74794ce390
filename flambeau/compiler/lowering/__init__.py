"""Lowering: what an operator computes, as nodes of the graph.

Most operators need no code here: their NumPy bodies run on symbols (symbolic_array.py,
rebind_numpy.py). The others, and those that trace poorly, have a hand-written lowering in the file
of their family. An operator that cannot be lowered raises NotLowered, and the program calls it
eagerly.
"""

from __future__ import annotations

from typing import Any

from ...ops.core.operator import Kind, Operator
from ..ir.graph import Node
from .operators import (
    attention, conv, gather, im2col, loss, matmul, norm, padding, pointwise, pool, recurrent,
    resampling, softmax, view,
)
from .numpy.body import run_on_symbols, unwrap
from .registry import EXPLICIT, NotLowered, Untraceable

__all__ = ["NotLowered", "is_lowered_by_hand", "lower", "writes"]

# The families with hand-written lowerings, which register themselves on import.
FAMILIES = (attention, conv, gather, im2col, loss, matmul, norm, padding, pointwise, pool,
            recurrent, resampling, softmax, view)


def lower(operator: Operator, args: tuple, kwargs: dict) -> Node | tuple[Node | None, ...]:
    """Return the nodes of an operator's results, given nodes in place of its tensors.

    `args` are in the order of the body's parameters, starred parameters as one tuple; nodes may
    also appear in lists and tuples, and for arrays inside attributes (the positions of an index).
    Return one node, or a tuple if the operator has several results (None for absent ones). An
    operator that writes to arguments (`writes`) returns a tuple: its results, then the new value of
    each of these parameters (None if absent). Indices are assumed to be within bounds. Raises
    NotLowered.
    """
    if operator.kind is Kind.COMPOSITE:
        raise NotLowered(operator, "is composed of other operators")
    try:
        result, symbols = run_on_symbols(operator, args, kwargs)
        if any(x.written for x in symbols):
            raise Untraceable("writes to an argument")
        nodes = unwrap(result)
    except Untraceable as error:
        raise NotLowered(operator, str(error)) from None
    except RecursionError:
        raise
    except Exception as error:
        raise NotLowered(operator, f"{type(error).__name__}: {error}") from error
    operands = [x._node for x in symbols]
    _set_origin(nodes if isinstance(nodes, tuple) else (nodes,), operator.name, operands)
    return nodes


def writes(operator: Operator) -> tuple[int, ...]:
    """The positions of the parameters whose memory an operator writes to."""
    return operator.written_positions


def is_lowered_by_hand(operator: Operator) -> bool:
    """Whether an operator has a hand-written lowering."""
    return operator in EXPLICIT


def _set_origin(roots: tuple, name: str, inputs: list[Node]) -> None:
    """Set the origin of new nodes, for error messages and reports."""
    known = {id(node) for node in inputs}
    stack = [node for node in roots if node is not None]
    while stack:
        node = stack.pop()
        if id(node) in known or node.origin:  # then its inputs have origins too
            continue
        known.add(id(node))
        node.origin = name
        stack.extend(node.inputs)
