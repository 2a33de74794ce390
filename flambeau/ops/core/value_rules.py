"""ValueRule: which values an operator accepts. Followed calls list operators without running them,
and consult the rule to see whether the operator would have raised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ValueRule:
    """Whether an operator accepts the values of some of its parameters.

    `holds` takes all arguments of the body. It returns False if a value makes the operator raise,
    True if something else does, such as a dtype, and None if only the operator itself can tell.
    """

    parameters: tuple[str, ...]
    holds: Callable[..., bool] | None


ONLY_RUNNING_TELLS = ValueRule((), None)  # for factorizations, which detect singular matrices


def are_below(index: np.ndarray, size: int) -> bool:
    """Return whether all integers of an array are from 0 to size - 1."""
    if index.dtype.kind not in "iu" or not index.size:
        return True
    unsigned = index.view(f"u{index.itemsize}")  # as unsigned, negative numbers are too large
    return bool(unsigned.item(unsigned.argmax()) < size)


def _takes_index(input: np.ndarray, dim: int, index: np.ndarray, *_: Any) -> bool:
    rank = input.ndim
    if not rank or not -rank <= dim < rank:
        return True
    return are_below(index, input.shape[dim])


INDEX_ALONG_AXIS = ValueRule(("index",), _takes_index)  # for (input, dim, index, ...)


def make_label_rule(names: Sequence[str], labels: str) -> ValueRule:
    """Return the rule of an operator on scores and labels.

    Classes lie along the scores' second axis, or their only one.
    """
    position = names.index(labels)
    ignored = names.index("ignore_index") if "ignore_index" in names else None

    def holds(*args: Any) -> bool:
        values, shape = args[position], args[0].shape
        size = shape[1] if len(shape) > 1 else shape[0] if shape else 0
        if not shape or are_below(values, size):
            return True
        inside = (values >= 0) & (values < size)
        if ignored is not None:
            inside |= values == args[ignored]
        return bool(inside.all())

    return ValueRule((labels,), holds)
