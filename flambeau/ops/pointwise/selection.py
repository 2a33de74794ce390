"""Selection: each element from one of two tensors, by a condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.foundation.public_names import c_class_name
from ...native.foundation.user_frames import add_notes, warn
from ...native.target.eager_costs import MIN_BIT_BLEND_ELEMENTS
from ...tensor.dtypes import FLOATS, FROM_NUMPY
from ...tensor.promotion import legacy_name, result_dtype
from ...tensor.tensor import Tensor, wrap
from ..core.cache_blocking import choose
from ..core.errors import Overriding, advise_on_array, answer_failed
from ..core.operator import Array, Number, Promotion
from ..core.registry import composite, pointwise
from ..core.sample_inputs import Rng, Sample
from ..core.scalar_conversion import convert_scalar, number


def _choices(rng: Rng) -> Iterator[Sample]:
    for shape, left, right in (((5,), (5,), (5,)), ((3, 1), (4,), ()), ((), (3,), (2, 3))):
        yield (rng.random(shape) < 0.5, rng.normal(size=left), rng.normal(size=right)), {}


@pointwise(name="_where", node="WhereBackward0", ref=np.where, samples=_choices, expose=(),
           inplace=False, promotion=Promotion.NONE)
def select(condition: Array, input: Array | Number, other: Array | Number) -> Array:
    """Choose input where the condition holds, else other; either may be a number."""
    if condition.dtype.kind != "b":
        condition = _as_condition(condition)
    dtypes: Any = getattr(input, "dtype", None), getattr(other, "dtype", None)
    if isinstance(other, (int, float)) and _sets_dtype(input):
        other = number(other, dtypes[0])
    elif isinstance(input, (int, float)) and _sets_dtype(other):
        input = number(input, dtypes[1])
    elif dtypes[0] is None or dtypes[0] is not dtypes[1]:
        kind = result_dtype((input, other)).numpy
        input, other = _cast(input, kind), _cast(other, kind)
    values: Any = (condition, input, other)
    return np.where(*values) if condition.size <= MIN_BIT_BLEND_ELEMENTS else choose(*values)


@select.vjp("input")
def _(g: Tensor, condition: Tensor) -> Tensor:
    return select(condition, g, 0)


@select.vjp("other")
def _(g: Tensor, condition: Tensor) -> Tensor:
    return select(condition, 0, g)


def _cast(x: Any, kind: np.dtype) -> np.ndarray:
    return x.astype(kind, copy=False) if isinstance(x, np.ndarray) else np.asarray(x, kind)


def _sets_dtype(x: Any) -> bool:
    """Whether a number takes on an operand's dtype: floats with axes, or a kernel's element."""
    return (isinstance(x, Array) and x.ndim > 0 or hasattr(type(x), "chosen")) and x.dtype in FLOATS


def _as_condition(condition: np.ndarray) -> np.ndarray:
    if condition.dtype != np.uint8:
        kind = legacy_name(FROM_NUMPY[condition.dtype])
        raise add_notes(
            RuntimeError("where expected condition to be a boolean tensor, but got a tensor with "
                         f"dtype {kind}"),
            "For what is not 0: condition.bool(); or a comparison, such as condition > 0.",
        )
    warn(
        "where received a uint8 condition tensor. This behavior is deprecated and will be removed "
        "in a future version of PyTorch. Use a boolean condition instead.",
        UserWarning,
    )
    return condition.astype(bool)


@composite(expose=("torch",))
def where(
    condition: Tensor, input: Tensor | None = None, other: Tensor | Number | None = None, *,
    out: Tensor | None = None, self: Tensor | None = None
) -> Tensor:
    """Choose input where condition holds, else other; with condition alone, find True indices.

    `input` and `other` broadcast and may be numbers.

    Args:
        input (Tensor or number): What to take where `condition` holds.
        other (Tensor or number): What to take elsewhere.
        self (Tensor or number): PyTorch's other name of `input`.

    >>> torch.where(torch.tensor([True, False]), torch.tensor([1., 2.]), 0)
    tensor([1., 0.])
    """
    input = self if input is None else input
    if input is None and other is None:
        try:
            return condition.nonzero(as_tuple=True)
        except AttributeError as error:
            return answer_failed(error, "where", where, (condition,))
    try:
        return select(
            condition, _convert_operand(input, other), _convert_operand(other, input), out=out
        )
    except TypeError:
        if Overriding.notice((condition, input, other), {}):
            return where(condition, input, other)
        raise


@composite(name="Tensor.where", expose=())
def _method(self: Tensor, condition: Tensor, other: Tensor) -> Tensor:
    """Choose self where condition is True, else other.

    >>> torch.tensor([1, 2]).where(torch.tensor([True, False]), torch.tensor(0))
    tensor([1, 0])
    """
    return select(condition, self, _convert_operand(other, self))


Tensor.where = _method


def _convert_operand(x: Any, beside: Any) -> Any:
    """Convert an operand of `select`; a Python integer takes the dtype of an integer tensor next to
    it."""
    if x.__class__ is int and isinstance(beside, Tensor) and beside._array.dtype.kind in "iu":
        return wrap(convert_scalar(x, beside._array.dtype))
    if isinstance(x, (Tensor, bool, int, float, complex, np.generic)):
        return x
    raise add_notes(
        TypeError(f"where(): argument 'input' must be Tensor or Number, not {c_class_name(x)}"),
        advise_on_array(x))
