"""Elementwise maximum and minimum of two tensors, and clipping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor.dtypes import BOOL, COMPLEX, FLOATING, FLOATS
from ...tensor.overlap import Overlap
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from ..activation.rectifiers import clamp_backward
from ..core import dtype_refusals
from ..core.errors import answer_failed, build_overload_error
from ..core.inplace import assign
from ..core.operator import Array, Number, publish
from ..core.out import write_result
from ..core.promotion import round_setting
from ..core.registry import composite, pointwise, writes_by_operators
from ..core.sample_inputs import Rng, Sample, pairs
from ..native.pointwise import try_kernel
from .selection import select

_real_only = dtype_refusals.Refusal(COMPLEX, error=lambda operator, kind: RuntimeError(
    f"{operator.name} not implemented for complex tensors."))
_clamp_real = dtype_refusals.Refusal(COMPLEX, error=lambda operator, kind: NotImplementedError(
    "clamp is not supported for complex types"))


def _share(g: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The cotangent of the selected operand (`first > second`), halved if both are equal.

    NaN is neither: both operands get the whole cotangent, as in PyTorch.
    """
    return select(first == second, g * 0.5, select(first < second, 0, g))


@pointwise(ref=lambda x, y: np.where(x > y, x, y), samples=pairs, inplace=False,
           refuse=_real_only)
def maximum(input: Array, other: Array) -> Array:
    """Element-wise maximum; NaN if either element is NaN.

    >>> torch.maximum(torch.tensor([1., 5.]), torch.tensor([3., 2.]))
    tensor([3., 5.])
    """
    return np.maximum(input, other)


@maximum.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return _share(g, input, other)


@maximum.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return _share(g, other, input)


@pointwise(ref=lambda x, y: np.where(x < y, x, y), samples=pairs, inplace=False,
           refuse=_real_only)
def minimum(input: Array, other: Array) -> Array:
    """Element-wise minimum; NaN if either element is NaN.

    >>> torch.minimum(torch.tensor([1., 5.]), torch.tensor([3., 2.]))
    tensor([1., 2.])
    """
    return np.minimum(input, other)


@minimum.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return _share(g, other, input)


@minimum.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return _share(g, input, other)


def _choose(extreme: Any, is_behind: Any, input: Array, other: Array) -> Array:
    """Return the larger or smaller elements; of 0.0 and -0.0 `input`'s, as PyTorch does, where
    NumPy's answer depends on their place. In half precision PyTorch returns `other`'s."""
    if input.dtype not in FLOATS or other.dtype != input.dtype:
        return extreme(input, other)
    return np.where(np.isnan(input) | is_behind(input, other), other, input)


@pointwise(ref=lambda x, y: np.where(x > y, x, y), samples=pairs, inplace=False,
           refuse=dtype_refusals.complex_numbers)
def fmax(input: Array, other: Array) -> Array:
    """Element-wise maximum; if one element is NaN, the other.

    >>> torch.fmax(torch.tensor([1., float("nan")]), torch.tensor([3., 2.]))
    tensor([3., 2.])
    """
    return _choose(np.fmax, np.less, input, other)


@fmax.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return select((input >= other) | other.isnan(), g, 0)


@fmax.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return select((input >= other) | other.isnan(), 0, g)


@pointwise(ref=lambda x, y: np.where(x < y, x, y), samples=pairs, inplace=False,
           refuse=dtype_refusals.complex_numbers)
def fmin(input: Array, other: Array) -> Array:
    """Element-wise minimum; if one element is NaN, the other.

    >>> torch.fmin(torch.tensor([1., float("nan")]), torch.tensor([3., 2.]))
    tensor([1., 2.])
    """
    return _choose(np.fmin, np.greater, input, other)


@fmin.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return select((input <= other) | other.isnan(), g, 0)


@fmin.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return select((input <= other) | other.isnan(), 0, g)


# ------------------------------------------------------------------------------- clipping


def _numbers(rng: Rng) -> Iterator[Sample]:
    for shape in ((), (5,), (3, 4)):
        x = rng.normal(size=shape)
        yield (x,), {"min": -0.5, "max": 0.7}
        yield (x,), {"min": 0.1}
        yield (x,), {"max": 0.1}


def _clip(x: np.ndarray, min: Any, max: Any) -> np.ndarray:
    if min is None:
        return np.minimum(max, x)  # which leaves the sign of a zero
    y = np.maximum(min, x)
    if max is None:
        return y
    fits = y.ndim and getattr(max, "shape", ()) in ((), y.shape)
    return np.minimum(max, y, out=y if fits else None)


@pointwise(name="_clamp", node="ClampBackward1", expose=(), refuse=_clamp_real,
           ref=lambda x, min=-np.inf, max=np.inf: np.clip(x, min, max),
           samples=_numbers)
def clamp_numbers(input: Array, min: Any = None, max: Any = None) -> Array:
    """Clip input to [min, max]; NaN if a bound is NaN."""
    if input.dtype.kind != "f":
        min, max = (None if v is None else _bound(v, input.dtype) for v in (min, max))
    if input.size > MAX_NUMPY_COSTLY_ELEMENTS and input.__class__ is np.ndarray:
        body = _lower_to if min is None else _raise_to if max is None else _clip
        bounds = [np.asarray(v, input.dtype) for v in (min, max) if v is not None]
        if (y := try_kernel(body, input, *bounds)) is not None:
            return y
    return _clip(input, min, max)


def _bound(value: Any, kind: np.dtype) -> np.ndarray:
    """Convert a bound to an integer dtype; negative ones wrap in unsigned dtypes, as in C."""
    try:
        return np.asarray(value, kind)
    except OverflowError:
        if value > 0 or kind.kind == "i":
            raise RuntimeError(
                f"value cannot be converted to type {kind.name}_t without overflow"
            ) from None
        return np.asarray(value).astype(kind)


def _raise_to(x: Any, min: Any) -> Any:
    return np.maximum(min, x)


def _lower_to(x: Any, max: Any) -> Any:
    return np.minimum(max, x)


@clamp_numbers.vjp
def _(g: Tensor, input: Tensor, min: Any, max: Any) -> Tensor:
    low, high = (-np.inf if min is None else min), (np.inf if max is None else max)
    kind = input._array.dtype
    return clamp_backward(
        g, input, round_setting(low, kind), round_setting(high, kind), closed=True)


def _bounds(rng: Rng) -> Iterator[Sample]:
    for shape in ((), (5,), (3, 4)):
        x, low, gap = (rng.normal(size=shape) for _ in range(3))
        yield (x, low, low + np.abs(gap)), {}
        yield (x, low, None), {}
        yield (x, None, low), {}


def _clip_ref(x: np.ndarray, low: np.ndarray | None, high: np.ndarray | None) -> np.ndarray:
    lower, upper = np.asarray(-np.inf if low is None else low), \
        np.asarray(np.inf if high is None else high)
    return np.where(x > upper, upper, np.where(x < lower, lower, x))


@pointwise(name="_clamp_tensors", node="ClampBackward0", expose=(), refuse=_clamp_real,
           ref=_clip_ref, samples=_bounds)
def clamp_tensors(input: Array, min: Array | None, max: Array | None) -> Array:
    """Clip input between two tensors, either of which may be None."""
    return _clip(input, min, max)


@clamp_tensors.vjp("input")
def _(g: Tensor, input: Tensor, min: Tensor | None, max: Tensor | None) -> Tensor:
    if min is not None:
        g = select(input >= min, g, 0)
    return g if max is None else select(input <= max, g, 0)


@clamp_tensors.vjp("min")
def _(g: Tensor, input: Tensor, min: Tensor | None, max: Tensor | None) -> Tensor:
    wins = input < min
    return select(wins if max is None else wins & (min < max), g, 0)


@clamp_tensors.vjp("max")
def _(g: Tensor, input: Tensor, min: Tensor | None, max: Tensor | None) -> Tensor:
    wins = input > max
    return select(wins if min is None else wins | (max < min), g, 0)


def _clamp_of(input: Tensor, min: Any, max: Any, name: str) -> Any:
    """Return (operator, cast input, bounds) for a call of clamp."""
    if min is None and max is None:
        raise RuntimeError(f"torch.{name}: At least one of 'min' or 'max' must not be None")
    bounds = [v for v in (min, max) if v is not None]
    if any(isinstance(v, (np.ndarray, str, list, tuple)) for v in bounds):
        raise build_overload_error(name, ("input", "min"), (input, *bounds))
    if any(isinstance(v, Tensor) for v in bounds):
        if not all(isinstance(v, Tensor) for v in bounds):
            # A 0-d tensor next to a number is treated as a number.
            if all(v.dim() == 0 and not v.requires_grad for v in bounds if isinstance(v, Tensor)):
                low, high = (v.item() if isinstance(v, Tensor) else v for v in (min, max))
                return _clamp_of(input, low, high, name)
            raise TypeError(
                f"{name}() received an invalid combination of arguments: min and max must both be "
                f"tensors or both be numbers, got {type(min).__name__} and {type(max).__name__}"
            )
        return clamp_tensors, input, min, max
    if input.dtype.category != FLOATING:
        if input.dtype.category == BOOL and all(isinstance(v, bool) for v in bounds):
            raise NotImplementedError(f"\"{name}_scalar_cpu\" not implemented for 'Bool'")
        kind = result_dtype((input, *bounds))
        input = input if kind is input.dtype else input.to(kind)
    return clamp_numbers, input, min, max


def _clamp_in_place(self: Tensor, call: Any, cast: Tensor, *bounds: Any) -> Tensor:
    if cast is self:
        return call.operator.twin(self, *bounds)
    return assign(self, call(cast, *bounds), "clamp_")


def _is_plain(input: Tensor, min: Any, max: Any) -> bool:
    """Whether the bounds are numbers with which the input keeps its dtype."""
    kind, low, high = input._array.dtype.kind, min.__class__, max.__class__
    if kind == "f":
        return (low is float or low is int) and (max is None or high is float or high is int)
    return kind in "iu" and low is int and (max is None or high is int)


@composite()
def clamp(
    input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None, *,
    out: Tensor | None = None
) -> Tensor:
    """Clip input to [min, max]; the bounds are numbers or tensors, and either may be omitted.

    >>> torch.clamp(torch.tensor([-1., 0.5, 2.]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    try:
        if _is_plain(input, min, max):
            y = clamp_numbers(input, min, max)
        else:
            call, *operands = _clamp_of(input, min, max, "clamp")
            y = call(*operands)
    except AttributeError as error:
        return answer_failed(error, "clamp", clamp, (input, min, max))
    if out is None:
        return y
    tensors = tuple([x for x in (input, min, max) if isinstance(x, Tensor)])
    name = "clamp" if len(tensors) == 1 else "clamp.Tensor"  # whose results are cast
    return write_result(name, y, out, tensors, Overlap.SAME)


@writes_by_operators
@composite(expose=("Tensor", "torch"))
def clamp_(
    self: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor:
    """`clamp` in place."""
    try:
        if _is_plain(self, min, max):
            return clamp_numbers.operator.twin(self, min, max)
        return _clamp_in_place(self, *_clamp_of(self, min, max, "clamp"))
    except AttributeError as error:
        return answer_failed(error, "clamp_", clamp_, (self, min, max))


@composite(node=("ClampMinBackward0", "ClampMinBackward1"),
           overload=lambda input, min, **_: isinstance(min, Tensor))
def clamp_min(input: Tensor, min: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Element-wise maximum of input and min, a number or a tensor.

    >>> torch.clamp_min(torch.tensor([-1., 2.]), 0)
    tensor([0., 2.])
    """
    return clamp(input, min, out=out)


@writes_by_operators
@composite(expose=("Tensor", "torch"))
def clamp_min_(self: Tensor, min: Tensor | Number) -> Tensor:
    """`clamp_min` in place."""
    return clamp_(self, min)


@composite(node=("ClampMaxBackward0", "ClampMaxBackward1"),
           overload=lambda input, max, **_: isinstance(max, Tensor))
def clamp_max(input: Tensor, max: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Element-wise minimum of input and max, a number or a tensor.

    >>> torch.clamp_max(torch.tensor([-1., 2.]), 0)
    tensor([-1.,  0.])
    """
    return clamp(input, None, max, out=out)


@writes_by_operators
@composite(expose=("Tensor", "torch"))
def clamp_max_(self: Tensor, max: Tensor | Number) -> Tensor:
    """`clamp_max` in place."""
    return clamp_(self, None, max)


publish(clamp, ("clip",), ("torch", "Tensor"))
publish(clamp_, ("clip_",), ("torch", "Tensor"))
