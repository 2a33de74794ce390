"""ValueRule: which values an operator accepts. Followed calls list operators without running them,
and consult the rule to see whether the operator would have raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ValueRule:
    """Whether an operator accepts the values of some of its parameters.

    `holds` takes all arguments of the body. It returns False if a value makes the operator raise,
    True if something else does, such as a dtype, and None if only the operator itself can tell.
    `bounds` takes them, too, and yields arrays of indices that are legal if they lie between 0 and
    a size, with that size. It reads shapes only, so that the indices need no values yet.
    """

    parameters: tuple[str, ...]
    holds: Callable[..., bool] | None
    bounds: Callable[..., Iterable[tuple[Any, int]]] = lambda *args: ()


ONLY_RUNNING_TELLS = ValueRule((), None)  # for factorizations, which detect singular matrices


def are_below(index: np.ndarray, size: int) -> bool:
    """Return whether all integers of an array are from 0 to size - 1."""
    if index.dtype.kind not in "iu" or not index.size:
        return True
    unsigned = index.view(f"u{index.itemsize}")  # as unsigned, negative numbers are too large
    return bool(unsigned.item(unsigned.argmax()) < size)


def make_index_rule(parameter: str, bounds: Callable[..., Iterable[tuple[Any, int]]]) -> ValueRule:
    """Return the rule of an operator that raises exactly for indices outside of `bounds`."""
    return ValueRule((parameter,),
                     lambda *args: all(are_below(index, size) for index, size in bounds(*args)),
                     bounds)


def _bound_along_axis(input: Any, dim: int, index: Any, *_: Any) -> Iterable[tuple[Any, int]]:
    rank = len(input.shape)
    return [(index, input.shape[dim])] if rank and -rank <= dim < rank else []


INDEX_ALONG_AXIS = make_index_rule("index", _bound_along_axis)  # for (input, dim, index, ...)


def make_label_rule(names: Sequence[str], labels: str) -> ValueRule:
    """Return the rule of an operator on scores and labels.

    Classes lie along the scores' second axis, or their only one.
    """
    position = names.index(labels)
    ignored = names.index("ignore_index") if "ignore_index" in names else None

    def bounds(*args: Any) -> Iterable[tuple[Any, int]]:
        shape = args[0].shape
        return [(args[position], shape[1] if len(shape) > 1 else shape[0])] if shape else []

    def holds(*args: Any) -> bool:
        for values, size in bounds(*args):
            if not are_below(values, size) and not are_legal(args, values, size):
                return False
        return True

    def are_legal(args: tuple, values: np.ndarray, size: int) -> bool:
        inside = (values >= 0) & (values < size)
        if ignored is not None:
            inside |= values == args[ignored]
        return bool(inside.all())

    return ValueRule((labels,), holds, bounds)
