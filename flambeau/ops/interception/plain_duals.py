"""Split an operator's arguments in forward mode's plain case, where pushing tangents is cheap.

Plain means: one level, arrays in memory, nothing recorded, no tangents of tangents. One pass over
the arguments then suffices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...autograd.tangents import LEVELS, get_primal
from ...autograd.tape import requires
from ...tensor.tensor import Tensor

Split = tuple[list[Any], list[Tensor | None], bool]


def split_plain(args: Sequence[Any], kwargs: dict[str, Any], level: int) -> Split | None:
    """Return the arguments without tangents, their tangents, and whether there is one.

    None if this is not the plain case.
    """
    if LEVELS.has_late:
        return None
    primals = list(args)
    tangents: list[Tensor | None] = [None] * len(args)
    is_dual = False
    for i, x in enumerate(args):
        if isinstance(x, Tensor):
            if x._array.__class__ is not np.ndarray or _is_recorded(x):
                return None
            carried = x.__dict__.get("_tangents")
            if not carried or level not in carried:
                continue
            tangent = carried[level][1]
            if tangent._array.__class__ is not np.ndarray or "_tangents" in tangent.__dict__ \
                    or _is_recorded(tangent):
                return None
            primals[i], tangents[i], is_dual = get_primal(x, level), tangent, True
        elif isinstance(x, (tuple, list, dict)) and _holds_tensor(x):
            return None
    for x in kwargs.values():
        if isinstance(x, Tensor) or isinstance(x, (tuple, list, dict)) and _holds_tensor(x):
            return None
    return primals, tangents, is_dual


def _holds_tensor(values: Any) -> bool:
    """Return whether there is a tensor in nested containers; most hold a few plain numbers."""
    for x in values.values() if isinstance(values, dict) else values:
        if x.__class__ is int:
            continue
        if isinstance(x, Tensor) or isinstance(x, (tuple, list, dict)) and _holds_tensor(x):
            return True
    return False


def _is_recorded(x: Tensor) -> bool:
    return x._tracked and MODE.grad and requires(x)
