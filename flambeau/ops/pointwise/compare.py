"""Comparison: element by element, of kinds of numbers, and of whole tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...native.foundation.public_names import c_class_name
from ...tensor.dtypes import COMPLEX, FROM_NUMPY, get_default_dtype
from ...tensor.meta import refuse_unknown_values
from ...tensor.narrow_dtypes import COMPLEX32, refuse_eight_bit, widen
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, wrap
from ..core import dtype_refusals
from ..core.dispatch import make_python_operator
from ..core.operator import Array, Number, Promotion
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import answers_from_values, composite, opaque, pointwise
from ..core.sample_inputs import Rng, Sample


def ties(rng: Rng) -> Iterator[Sample]:
    """Two operands that broadcast, with few distinct values, so that some are equal."""
    for left, right in (((5,), (5,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3,))):
        yield (rng.integers(-1, 2, left) * 1.0, rng.integers(-1, 2, right) * 1.0), {}


def unusual(rng: Rng) -> Iterator[Sample]:
    """Number among which are infinities, NaN and zeros of both signs."""
    yield (np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]),), {}
    yield (np.array(np.nan),), {}
    yield (rng.normal(size=(2, 3)),), {}


# ------------------------------------------------------------------------------ element by element


@pointwise(ref=lambda x, y: x == y, samples=ties, ufunc=np.equal,
           promotion=Promotion.PREDICATE, differentiable=False, flat_in_place=True,
           node="EqBackward1", reads_bool_bytes=True)
def eq(input: Array, other: Array | Number) -> Array:
    """Test element by element whether input == other.

    >>> torch.eq(torch.tensor([1, 2]), torch.tensor([1, 3]))
    tensor([ True, False])
    """
    return np.equal(input, other)


@pointwise(ref=lambda x, y: x != y, samples=ties, ufunc=np.not_equal,
           promotion=Promotion.PREDICATE, differentiable=False, flat_in_place=True,
           node="NeBackward1", reads_bool_bytes=True, aliases=("not_equal",))
def ne(input: Array, other: Array | Number) -> Array:
    """Test element by element whether input != other.

    >>> torch.ne(torch.tensor([1, 2]), 1)
    tensor([False,  True])
    """
    return np.not_equal(input, other)


@pointwise(ref=lambda x, y: x < y, samples=ties, ufunc=np.less,
           promotion=Promotion.PREDICATE, differentiable=False, flat_in_place=True,
           node="LtBackward1", reads_bool_bytes=True, aliases=("less",),
           refuse=dtype_refusals.complex_numbers)
def lt(input: Array, other: Array | Number) -> Array:
    """Test element by element whether input < other.

    >>> torch.tensor([1, 2]) < 2
    tensor([ True, False])
    """
    return np.less(input, other)


@pointwise(ref=lambda x, y: x <= y, samples=ties, ufunc=np.less_equal,
           promotion=Promotion.PREDICATE, differentiable=False, flat_in_place=True,
           node="LeBackward1", reads_bool_bytes=True, aliases=("less_equal",),
           refuse=dtype_refusals.complex_numbers)
def le(input: Array, other: Array | Number) -> Array:
    """Test element by element whether input <= other.

    >>> torch.tensor([1, 2, 3]) <= 2
    tensor([ True,  True, False])
    """
    return np.less_equal(input, other)


@pointwise(ref=lambda x, y: x > y, samples=ties, ufunc=np.greater,
           promotion=Promotion.PREDICATE, differentiable=False, flat_in_place=True,
           node="GtBackward1", reads_bool_bytes=True, aliases=("greater",),
           refuse=dtype_refusals.complex_numbers)
def gt(input: Array, other: Array | Number) -> Array:
    """Test element by element whether input > other.

    >>> torch.tensor([1, 2]) > 1
    tensor([False,  True])
    """
    return np.greater(input, other)


@pointwise(ref=lambda x, y: x >= y, samples=ties, ufunc=np.greater_equal,
           promotion=Promotion.PREDICATE, differentiable=False, flat_in_place=True,
           node="GeBackward1", reads_bool_bytes=True, aliases=("greater_equal",),
           refuse=dtype_refusals.complex_numbers)
def ge(input: Array, other: Array | Number) -> Array:
    """Test element by element whether input >= other.

    >>> torch.tensor([1, 2, 3]) >= 2
    tensor([False,  True,  True])
    """
    return np.greater_equal(input, other)


# ------------------------------------------------------------------------------ kinds of numbers


@pointwise(ref=lambda x: x != x, samples=unusual, promotion=Promotion.PREDICATE,
           differentiable=False, inplace=False)
def isnan(input: Array) -> Array:
    """Test each element for NaN.

    >>> torch.isnan(torch.tensor([1., float("nan")]))
    tensor([False,  True])
    """
    return np.isnan(input)


@pointwise(ref=lambda x: np.abs(x) == np.inf, samples=unusual, promotion=Promotion.PREDICATE,
           differentiable=False, inplace=False)
def isinf(input: Array) -> Array:
    """Test each element for infinity, in its real or imaginary part.

    >>> torch.isinf(torch.tensor([1., float("inf"), -float("inf")]))
    tensor([False,  True,  True])
    """
    return np.isinf(input)


@pointwise(ref=lambda x: np.abs(x) < np.inf, samples=unusual, promotion=Promotion.PREDICATE,
           differentiable=False, inplace=False)
def isfinite(input: Array) -> Array:
    """Test whether each element is finite, neither infinite nor NaN.

    >>> torch.isfinite(torch.tensor([1., float("inf")]))
    tensor([ True, False])
    """
    return np.isfinite(input)


_no_complex = dtype_refusals.Refusal(
    COMPLEX,
    error=lambda operator, kind: RuntimeError(f"{operator.name} does not support complex inputs."),
)


@pointwise(ref=lambda x: x == np.inf, samples=unusual, promotion=Promotion.PREDICATE,
           differentiable=False, inplace=False, refuse=_no_complex)
def isposinf(input: Array) -> Array:
    """Test each element for +infinity; RuntimeError for complex input.

    >>> torch.isposinf(torch.tensor([1., float("inf"), -float("inf")]))
    tensor([False,  True, False])
    """
    return np.equal(input, np.inf)


@pointwise(ref=lambda x: x == -np.inf, samples=unusual, promotion=Promotion.PREDICATE,
           differentiable=False, inplace=False, refuse=_no_complex)
def isneginf(input: Array) -> Array:
    """Test each element for -infinity; RuntimeError for complex input.

    >>> torch.isneginf(torch.tensor([1., float("inf"), -float("inf")]))
    tensor([False, False,  True])
    """
    return np.equal(input, -np.inf)


@pointwise(ref=lambda x: np.imag(x) == 0, samples=unusual, promotion=Promotion.PREDICATE,
           differentiable=False, inplace=False)
def isreal(input: Array) -> Array:
    """Test whether the imaginary part of each element is zero.

    >>> torch.isreal(torch.tensor([1 + 1j, 2 + 0j]))
    tensor([False,  True])
    """
    return np.isreal(input)


# ------------------------------------------------------------------------------ whole tensors


def _close(input: np.ndarray, other: np.ndarray, rtol: float, atol: float,
           equal_nan: bool) -> np.ndarray:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    if input.dtype != other.dtype:
        names = (legacy_name(FROM_NUMPY[a.dtype]) for a in (input, other))
        raise RuntimeError("{} did not match {}".format(*names))
    if input.dtype == COMPLEX32:
        input, other = widen(input), widen(other)
    if input.dtype.kind == "V":
        input, other = input.astype(np.float32), other.astype(np.float32)
    y = np.equal(input, other)
    if equal_nan and input.dtype.kind in "fc":
        y = y | (np.isnan(input) & np.isnan(other))
    if rtol == 0 and atol == 0:
        return y
    if input.dtype.kind in "biu":
        inside = get_default_dtype().numpy  # as in PyTorch, so large integers are rounded
        input, other = input.astype(inside), other.astype(inside)
    allowed = atol + np.abs(rtol * other)
    difference = np.abs(input - other)
    return y | (np.isfinite(difference) & (difference <= allowed))


@opaque(leading=True, layout=Layout.ITERATOR, ref=np.isclose, samples=ties, differentiable=False)
def isclose(
    input: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Array:
    """Test element by element whether |input - other| <= atol + rtol * |other|.

    >>> torch.isclose(torch.tensor([1., 2.]), torch.tensor([1., 2.1]))
    tensor([ True, False])
    """
    if rtol or atol:
        refuse_eight_bit(input, "mul_cpu_reduced_float")
    return _close(input, other, rtol, atol, equal_nan)


@answers_from_values
@composite()
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Return True if all elements of both tensors are close, as in `isclose`.

    >>> torch.allclose(torch.tensor([1., 2.]), torch.tensor([1., 2. + 1e-7]))
    True
    """
    close = isclose(input, other, rtol, atol, equal_nan)
    if isinstance(input, Tensor) and input.is_meta:
        input.item()  # raises PyTorch's error
    return bool(close._array.all() if close.__class__ is Tensor else close.all())


@answers_from_values
@composite()
def equal(input: Tensor, other: Tensor) -> bool:
    """Return True if both tensors have the same shape and elements.

    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if not isinstance(other, Tensor):
        raise TypeError(
            f"equal(): argument 'other' (position 2) must be Tensor, not {c_class_name(other)}"
        )
    a, b = input._array, other._array
    if a.shape != b.shape:
        return False
    refuse_unknown_values(input, "equal.default")
    refuse_eight_bit(a, "equal_notnan_cpu")
    return (a is b and a.dtype.kind in "biu") or bool(np.equal(a, b).all())


@composite(expose=("torch",))
def isin(
    elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False,
    out: Tensor | None = None
) -> Tensor:
    """Test whether each of `elements` occurs in `test_elements`; either may be a number.

    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 3]))
    tensor([False,  True,  True])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): one of elements and test_elements must be a Tensor")
    a, b = (x._array if isinstance(x, Tensor) else np.asarray(x) for x in (elements, test_elements))
    for x in (a, b):
        if x.dtype.kind in "cb":
            raise RuntimeError(
                "Unsupported input type encountered for isin(): "
                f"{legacy_name(FROM_NUMPY[x.dtype])}"
            )
    y = wrap(np.isin(a, b, assume_unique=assume_unique, invert=invert))
    return y if out is None else write_result("isin", y, out)


for _name, _operator in (("eq", eq), ("ne", ne), ("lt", lt), ("le", le), ("gt", gt), ("ge", ge)):
    _name = f"__{_name}__"
    setattr(Tensor, _name, make_python_operator(_operator.operator, _name, _name == "__eq__"))
