"""Complex numbers: their parts as views, conjugates, angles, and making them of real tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS, MIN_STRIDED_COPY_BYTES
from ...tensor.dtypes import FROM_NUMPY, get_default_dtype
from ...tensor.layout import get_strides
from ...tensor.narrow_dtypes import COMPLEX32, refuse_eight_bit
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ...tensor.windows.lazy_window import LazyWindow, toggle_bits
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, pointwise, view
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, positive_pairs
from ..creation.creation import zeros_like
from ..native.pointwise import try_kernel
from ..native.row_copies import fill
from .selection import select


def complex_numbers(rng: Rng) -> Iterator[Sample]:
    """Complex numbers away from zero."""
    for (x, y), _ in positive_pairs(rng):
        yield (x + 1j * y,), {}


def _lift(g: Tensor) -> Tensor:
    return complex(g, zeros_like(g))


@view(leading=True,
      name="_real", node="RealBackward0", ref=np.real, samples=complex_numbers, expose=(),
      holomorphic=False)
def real_part(input: Array) -> Array:
    """The real parts."""
    return input["real"] if input.dtype == COMPLEX32 else input.real


@real_part.vjp
def _(g: Tensor) -> Tensor:
    return _lift(g)


@view(leading=True,
      name="_imag", node="ImagBackward0", ref=np.imag, samples=complex_numbers, expose=(),
      holomorphic=False)
def imaginary_part(input: Array) -> Array:
    """The imaginary parts."""
    return input["imag"] if input.dtype == COMPLEX32 else input.imag


@imaginary_part.vjp
def _(g: Tensor) -> Tensor:
    return complex(zeros_like(g), g)


@composite(expose=("torch",), explains=True)
def real(input: Tensor) -> Tensor:
    """Return the real parts as a view; a real tensor is returned unchanged.

    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])
    """
    return real_part(input) if input.is_complex() else input


@composite(expose=("torch",), explains=True)
def imag(input: Tensor) -> Tensor:
    """Return the imaginary parts as a view; RuntimeError for real tensors.

    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])
    """
    if not input.is_complex():
        raise RuntimeError(
            "imag is not implemented for tensors with non-complex dtypes, such as "
            f"{input.dtype}."
        )
    return imaginary_part(input)


def _set_real(self: Tensor, value: Any) -> None:
    real(self).copy_(value)


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self).copy_(value)


_methods: Any = Tensor
_methods.real = property(real, _set_real, doc="Like `real`, a view.")
_methods.imag = property(imag, _set_imag, doc="Like `imag`, a view.")


@view(leading=True,
      ref=lambda x: np.stack([x.real, x.imag], -1), samples=complex_numbers, holomorphic=False,
      expose=("torch",))
def view_as_real(input: Array) -> Array:
    """View complex numbers as (real, imaginary) pairs along a new last axis.

    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if input.dtype == COMPLEX32:
        return input[..., None].view(np.float16)
    if input.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors, not for "
                           f"{FROM_NUMPY[input.dtype]}")
    if isinstance(input, LazyWindow):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
            "tensor so you can view it as real, use self.resolve_conj(); however, be warned that "
            "the resulting tensor will NOT alias the original.")
    part = np.dtype(input.real.dtype)
    return input[..., None].view(part)


@view_as_real.vjp
def _(g: Tensor) -> Tensor:
    return view_as_complex(g.contiguous())


def _pairs_of_reals(rng: Rng) -> Iterator[Sample]:
    for shape in ((2,), (3, 2), (2, 4, 2)):
        yield (rng.normal(size=shape),), {}


@view(autocast=Policy.FULL, leading=True,
      ref=lambda x: x[..., 0] + 1j * x[..., 1], samples=_pairs_of_reals, holomorphic=False,
      expose=("torch",))
def view_as_complex(input: Array) -> Array:
    """View (real, imaginary) pairs along the last axis as complex numbers.

    >>> torch.view_as_complex(torch.tensor([[1., 2.]]))
    tensor([1.+2.j])
    """
    if input.dtype.kind != "f":
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {legacy_name(FROM_NUMPY[input.dtype])}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    *strides, last = get_strides(input)
    if last != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in strides):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    half = input.dtype == np.float16
    return input.view(COMPLEX32 if half else np.result_type(input.dtype, np.complex64))[..., 0]


@view_as_complex.vjp
def _(g: Tensor) -> Tensor:
    return view_as_real(g.resolve_conj())


def real_numbers(rng: Rng) -> Iterator[Sample]:
    """Real numbers of either sign."""
    for (x, _), _ in pairs_nonzero(rng):
        yield (x,), {}


# ------------------------------------------------------------------------------- conjugates


@pointwise(name="_conj", node="ConjPhysicalBackward0", ref=np.conj, samples=complex_numbers,
           holomorphic=False, expose=())
def conjugate(input: Array) -> Array:
    """Complex conjugate."""
    return np.conjugate(input)


@conjugate.vjp
def _(g: Tensor) -> Tensor:
    return conjugate(g)


@view(leading=True, name="_conj_view", node="ConjBackward0", ref=np.conj, samples=complex_numbers,
      holomorphic=False, expose=())
def conjugate_view(input: Array) -> Array:
    """Complex conjugate, sharing memory with the input."""
    return toggle_bits(input, True, False)


@conjugate_view.vjp
def _(g: Tensor) -> Tensor:
    return conjugate(g)


@view(leading=True,
      name="_neg_view", node="NegViewBackward0", ref=np.negative, samples=real_numbers,
      expose=("torch", "Tensor"))
def negative_view(input: Array) -> Array:
    """Negation, sharing memory with the input.

    >>> torch._neg_view(torch.tensor([1.])).is_neg()
    True
    """
    return toggle_bits(input, False, True)


@negative_view.vjp
def _(g: Tensor) -> Tensor:
    return -g


@composite(expose=("torch",))
def resolve_conj(input: Tensor) -> Tensor:
    """Return the tensor itself, or a copy if it is a conjugate view.

    >>> torch.resolve_conj(torch.tensor([1 + 2j]).conj())
    tensor([1.-2.j])
    """
    return input.resolve_conj()


@composite(expose=("torch",))
def resolve_neg(input: Tensor) -> Tensor:
    """Return the tensor itself, or a copy if it is a negative view.

    >>> torch.resolve_neg(torch.tensor([1.]))
    tensor([1.])
    """
    return input.resolve_neg()


@composite(explains=True)
def conj(input: Tensor) -> Tensor:
    """Return a lazily conjugated view; a real tensor is returned unchanged.

    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    if not input.is_complex():
        return input
    lazy = input._array.dtype.kind == "c" and \
        input._array.__class__ in (np.ndarray, LazyWindow)
    return conjugate_view(input) if lazy else conjugate(input)


@composite()
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the conjugate as a new tensor; a real tensor is returned unchanged.

    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    y = conjugate(input) if input.is_complex() else input
    return y if out is None else write_result("conj_physical", y, out)


@composite(expose=("Tensor", "torch"), explains=True)
def conj_physical_(self: Tensor) -> Tensor:
    """`conj_physical` in place."""
    if not self.is_complex():
        return self
    return conjugate.operator.twin(self)


# ------------------------------------------------------------------------------- angles


def _angle(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return np.angle(x)
    if x.size > MAX_NUMPY_POINTWISE_ELEMENTS and (y := try_kernel(_real_angle, x)) is not None:
        return y
    return _real_angle(x)


def _real_angle(x: np.ndarray) -> np.ndarray:
    zero = np.where(np.isnan(x), x, x.dtype.type(0))
    return np.where(np.less(x, 0), x.dtype.type(np.pi), zero)


@opaque(layout=Layout.ITERATOR,
        leading=True, ref=np.angle, samples=complex_numbers, holomorphic=False)
def angle(input: Array) -> Array:
    """Argument of each element in radians; for reals, 0, or pi if negative.

    >>> torch.angle(torch.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])
    """
    if input.dtype.kind in "biu":
        input = input.astype(get_default_dtype().numpy)
    refuse_eight_bit(input, "angle_cpu")
    if input.dtype.kind == "V" or input.dtype.itemsize == 2:
        return _angle(input.astype(np.float32)).astype(input.dtype)
    return _angle(input)


@angle.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    if not input.is_complex():
        return zeros_like(g)
    x, y = real(input), imag(input)
    squared = x * x + y * y
    gradient = complex(g * -y / squared, g * x / squared)
    return select(squared == 0, 0, gradient)


# ------------------------------------------------------------------------------- of real tensors


def _check_parts(first: np.ndarray, second: np.ndarray, kinds_wanted: str) -> None:
    kinds = [legacy_name(FROM_NUMPY[a.dtype]) for a in (first, second)]
    if first.dtype.kind != "f" or second.dtype.kind != "f" or (
            first.dtype.itemsize < 4 and "Half" not in kinds_wanted):
        raise RuntimeError(
            f"Expected both inputs to be {kinds_wanted} tensors but got {kinds[0]} and {kinds[1]}"
        )
    if first.dtype != second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {kinds[0]} but got scalar type {kinds[1]} for second "
            "argument"
        )


@opaque(leading=True, linear_in="real + imag", layout=Layout.ITERATOR,
        ref=lambda x, y: x + 1j * y, samples=pairs_nonzero, holomorphic=False, expose=("torch",))
def complex(real: Array, imag: Array) -> Array:
    """Build complex numbers from real and imaginary parts.

    Args:
        real: The real parts, float32 or float64.

    >>> torch.complex(torch.tensor([1.]), torch.tensor([2.]))
    tensor([1.+2.j])
    """
    _check_parts(real, imag, "Half, Float or Double")
    shape = np.broadcast_shapes(real.shape, imag.shape)
    if real.dtype == np.float16:
        halves = np.empty(shape, COMPLEX32)
        halves["real"], halves["imag"] = real, imag
        return halves
    y = np.empty(shape, np.result_type(real, np.complex64))
    if y.nbytes >= MIN_STRIDED_COPY_BYTES:
        fill(y.real, real)
        fill(y.imag, imag)
    else:
        y.real, y.imag = real, imag
    return y


@complex.vjp("real")
def _(g: Tensor, real_shape: tuple[int, ...]) -> Tensor:
    return real_part(g).sum_to_size(real_shape)


@complex.vjp("imag")
def _(g: Tensor, imag_shape: tuple[int, ...]) -> Tensor:
    return imaginary_part(g).sum_to_size(imag_shape)


@composite(autocast=Policy.FULL, expose=("torch",), node="PolarBackward0")
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Build complex numbers from magnitudes and angles.

    Args:
        abs: The magnitudes, float32 or float64.

    >>> torch.polar(torch.tensor([2.]), torch.tensor([0.]))
    tensor([2.+0.j])
    """
    _check_parts(abs._array, angle._array, "Float or Double")
    y = complex(abs * angle.cos(), abs * angle.sin())
    return y if out is None else write_result("polar", y, out)
