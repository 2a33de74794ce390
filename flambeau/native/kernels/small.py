"""Kernels for arrays so small that what counts is how few arguments a call has."""

from __future__ import annotations

from ..loops import Fold, Kernel, Load, Type
from .rows import Rows, _exp, _log
from .value import Value


def softmax(type: Type) -> Kernel:
    """x in place: exp(x) over its sum along each row."""
    r = Rows(type)
    y = r.buffer("x")
    x = Value(Load(y, r.whole))
    shifted = _exp(x - r.fold(Fold.MAXIMUM, x))
    total = r.fold(Fold.SUM, shifted)  # apart from the store, behind which x is another one
    r.sweep(stores=[(y, shifted * (1 / total))])
    return r.kernel("small_softmax")


def log_softmax(type: Type) -> Kernel:
    """x in place: less the logarithm of the sum of exp(x) along each row."""
    r = Rows(type)
    y = r.buffer("x")
    x = Value(Load(y, r.whole))
    shifted = x - r.fold(Fold.MAXIMUM, x)
    total = r.fold(Fold.SUM, _exp(shifted))
    r.sweep(stores=[(y, shifted - _log(total))])
    return r.kernel("small_log_softmax")
