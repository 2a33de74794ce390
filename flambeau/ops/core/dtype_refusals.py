"""Refusals: the dtypes that a pointwise operator does not compute on, as PyTorch words it.

A declaration's `refuse=` gets the operator, its operands and the dtype in which they meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...tensor.dtypes import BOOL, COMPLEX, FLOATING, INTEGER, dtype
from ...tensor.promotion import build_missing_kernel_error

if TYPE_CHECKING:
    from .operator import Operator


def build_dtype_error(operator: Operator, kind: dtype) -> NotImplementedError:
    """Return the error for a dtype that an operator does not support."""
    return build_missing_kernel_error(f"{operator.name}_cpu", kind)


class Refusal:
    """Raises an error if operands promote to one of some categories of dtypes.

    `error` makes the exception from the operator and the dtype.
    """

    __slots__ = ("categories", "error")

    def __init__(
        self, *categories: int, error: Callable[[Operator, dtype], Exception] = build_dtype_error
    ) -> None:
        self.categories, self.error = categories, error

    def __call__(self, operator: Operator, operands: tuple[Any, ...], common: dtype) -> None:
        if common.category in self.categories:
            raise self.error(operator, common)


def as_kernel(name: str) -> Callable[[Operator, dtype], Exception]:
    """Return the usual error under the name of PyTorch's kernel."""
    return lambda operator, kind: build_missing_kernel_error(name, kind)


complex_numbers = Refusal(COMPLEX)
complex_and_bool = Refusal(COMPLEX, BOOL)
bools = Refusal(BOOL)
floats = Refusal(FLOATING, COMPLEX)
all_but_integers = Refusal(FLOATING, COMPLEX, BOOL)
integers = Refusal(BOOL, INTEGER)
