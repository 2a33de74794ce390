"""Fourier transforms: three operators (complex, real to complex, complex to real) and torch.fft."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ...native.target.eager_costs import MIN_THREADED_FFT_ELEMENTS
from ...tensor import dtypes as types
from ...tensor.dtypes import HALF
from ...tensor.dtypes import dtype as Dtype
from ...tensor.layout import compute_ordered_strides
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..core.axes import canonicalize_dim
from ..core.errors import wrap_with_explanation
from ..core.operator import Array, publish
from ..core.output_layout import Layout, lay_out_again
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..core.threads import get_num_threads
from ..creation.creation import write_created, get_numpy_dtype, place
from ..view.join import cat
from ..view.slices import narrow

# The scale of a transform of n points, independent of its direction (SciPy's names depend on it).
NONE, ROOT, FULL = 0, 1, 2  # by 1, 1 / sqrt(n), 1 / n
_SCIPY_NORMS: dict[bool, tuple[Literal["backward", "ortho", "forward"], ...]] = {
    True: ("backward", "ortho", "forward"), False: ("forward", "ortho", "backward"),
}


def _count_workers(input: Array) -> int | None:
    return get_num_threads() if input.size >= MIN_THREADED_FFT_ELEMENTS else None


def compute_scale(norm: str | None, forward: bool) -> int:
    """Return the scale for a `norm`: 'backward' (None), 'ortho' or 'forward'."""
    if norm == "ortho":
        return ROOT
    if norm is None or norm == "backward":
        return NONE if forward else FULL
    if norm == "forward":
        return FULL if forward else NONE
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _complex_samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)), (1,), NONE, True), {}
    yield (rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)), (0, 1), ROOT, False), {}
    yield (rng.normal(size=5), (0,), FULL, True), {}


def _reference(x: np.ndarray, axes: tuple[int, ...], scale: int, forward: bool) -> np.ndarray:
    return (np.fft.fftn if forward else np.fft.ifftn)(
        x, axes=axes, norm=_SCIPY_NORMS[forward][scale]
    )


@opaque(linear_in="input", layout=Layout.FREE,
        name="_fft_c2c", node="FftC2CBackward0", expose=(), samples=_complex_samples,
        ref=_reference)
def complex_transform(input: Array, dim: Sequence[int], scale: int, forward: bool) -> Array:
    """Return the transform of complex (or real) numbers over the axes `dim`."""
    import scipy.fft

    if not dim:
        return input.astype(np.result_type(input.dtype, np.complex64))
    norm, workers = _SCIPY_NORMS[forward][scale], _count_workers(input)
    if len(dim) == 1:  # a third of the overhead
        transform = scipy.fft.fft if forward else scipy.fft.ifft
        y = transform(input, None, dim[0], norm, False, workers)
    else:
        transform = scipy.fft.fftn if forward else scipy.fft.ifftn
        y = transform(input, None, dim, norm, False, workers)
    return _lay_signals_innermost(y, input, _sort_by_stride(dim, input))


def _sort_by_stride(dim: Sequence[int], input: Array) -> tuple[int, ...]:
    """Sort axes from the largest to the smallest stride."""
    return tuple(sorted(dim, key=lambda d: -input.strides[d]))


def _lay_signals_innermost(y: Array, input: Array, dim: Sequence[int]) -> Array:
    """Lay out `y` with the transformed axes innermost, in the order of `dim`, as FFT libraries do.

    The other axes keep the input's order.
    """
    if y.ndim < 2 or y.__class__ is not np.ndarray:
        return y
    batch = [d for d in range(y.ndim) if d not in dim]
    outermost = [*sorted(batch, key=lambda d: -input.strides[d]), *dim]
    return lay_out_again(y, compute_ordered_strides(y.shape, outermost[::-1], 1))


@complex_transform.vjp
def _(g: Tensor, dim: Sequence[int], scale: int, forward: bool) -> Tensor:
    return complex_transform(g, dim, scale, forward)  # the transform's matrix is symmetric


def _real_samples(rng: Rng) -> Iterator[Sample]:
    for n in (4, 5):
        yield (rng.normal(size=(2, n)), (1,), NONE, True), {}
    yield (rng.normal(size=(3, 4)), (0, 1), ROOT, False), {}


def _real_reference(x: np.ndarray, axes: tuple[int, ...], scale: int, forward: bool) -> np.ndarray:
    y = _reference(x, axes, scale, forward)
    return np.take(y, np.arange(x.shape[axes[-1]] // 2 + 1), axes[-1])


@opaque(linear_in="input", layout=Layout.FREE,
        name="_fft_r2c", node="FftR2CBackward0", expose=(), samples=_real_samples,
        holomorphic=False, ref=_real_reference)
def real_transform(input: Array, dim: Sequence[int], scale: int, forward: bool) -> Array:
    """Return the transform of real numbers, with n // 2 + 1 terms along the last axis of `dim`."""
    import scipy.fft

    norm, workers = _SCIPY_NORMS[True][scale], _count_workers(input)
    if len(dim) == 1:
        y = scipy.fft.rfft(input, None, dim[0], norm, False, workers)
    else:
        y = scipy.fft.rfftn(input, None, dim, norm, False, workers)
    y = y if forward else np.conjugate(y, out=y)
    return _lay_signals_innermost(y, input, (*_sort_by_stride(dim[:-1], input), dim[-1]))


@real_transform.vjp
def _(
    g: Tensor, input_shape: tuple[int, ...], dim: Sequence[int], scale: int, forward: bool
) -> Tensor:
    full = resize(g, dim[-1:], (input_shape[dim[-1]],))
    return complex_transform(full, dim, scale, not forward).real


def _half_samples(rng: Rng) -> Iterator[Sample]:
    for n in (4, 5):
        yield (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)), (1,), FULL, False, n), {}


@opaque(linear_in="input", layout=Layout.FREE,
        name="_fft_c2r", node="FftC2RBackward0", expose=(), samples=_half_samples,
        holomorphic=False, ref=lambda x, dim, scale, forward, n: np.fft.irfft(x, n))
def half_transform(
    input: Array, dim: Sequence[int], scale: int, forward: bool, length: int
) -> Array:
    """Return the real transform of a Hermitian signal given by its first length // 2 + 1 terms."""
    import scipy.fft

    x = np.conjugate(input) if forward else input
    norm, workers = _SCIPY_NORMS[False][scale], _count_workers(input)
    if len(dim) == 1:
        y = scipy.fft.irfft(x, length, dim[0], norm, False, workers)
    else:
        lengths = [*(input.shape[d] for d in dim[:-1]), length]
        y = scipy.fft.irfftn(x, lengths, dim, norm, False, workers)
    return _lay_signals_innermost(y, input, (*_sort_by_stride(dim[:-1], input), dim[-1]))


@half_transform.vjp
def _(g: Tensor, dim: Sequence[int], scale: int, forward: bool, length: int) -> Tensor:
    y = real_transform(g, dim, scale, not forward)
    last, count = dim[-1], y.shape[dim[-1]]
    twice = length - count  # terms from the second on that also represent their mirror images
    if twice <= 0:
        return y
    parts = [narrow(y, last, 0, 1), narrow(y, last, 1, twice) * 2,
             narrow(y, last, 1 + twice, count - 1 - twice)]
    return cat(parts, last)


@opaque(linear_in="input",
        layout=Layout.FREE, name="_fft_resized", expose=(), samples=None, ref=None)
def _resize(input: Array, dim: Sequence[int], lengths: Any) -> Array:
    """Truncate axes to lengths, or pad them with zeros."""
    shape, window = list(input.shape), [slice(None)] * input.ndim
    for d, n in zip(dim, lengths, strict=True):
        window[d] = slice(0, min(n, shape[d]))
        shape[d] = n
    y = np.zeros(shape, input.dtype)
    y[tuple(window)] = input[tuple(window)]
    return y


@_resize.vjp
def _(g: Tensor, input_shape: tuple[int, ...], dim: Sequence[int]) -> Tensor:
    return _resize(g, dim, tuple(input_shape[d] for d in dim))


def resize(x: Tensor, dim: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Truncate or zero-pad axes to the given lengths; return `x` itself if nothing changes."""
    shape = x._array.shape
    if all(shape[d] == n for d, n in zip(dim, lengths, strict=True)):
        return x
    return _resize(x, tuple(dim), tuple(lengths))


# ------------------------------------------------------------------------------ arguments


def _convert_to_floating(x: Tensor, name: str, real: bool) -> Tensor:
    """Convert the input to floating point or complex; RuntimeError for half precision."""
    kind = x.dtype
    if real and kind.is_complex:
        words = "real-valued" if name.endswith("n") else "real"
        raise RuntimeError(f"{name} expects a {words} input tensor, but got {legacy_name(kind)}")
    if kind in HALF:
        raise RuntimeError(f"Unsupported dtype {legacy_name(kind)}")
    if kind.is_floating_point or kind.is_complex:
        return x
    return x.to(types.get_default_dtype())


def _check_dim(x: Tensor, dim: int) -> int:
    if not x._array.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return canonicalize_dim(dim, x._array.ndim)


def _check_lengths(lengths: Sequence[int]) -> None:
    for n in lengths:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _check_dims(x: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """Return the axes to transform, and the requested lengths (None: unchanged)."""
    rank = x._array.ndim
    s = None if s is None else [s] if isinstance(s, int) else list(s)
    dim = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dim is not None:
        if dim and not rank:
            raise IndexError(f"Dimension specified as {dim[0]} but tensor has no dimensions")
        axes = tuple(canonicalize_dim(d, rank) for d in dim)
        if len(set(axes)) != len(axes):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(s) != len(axes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif s is not None:
        if len(s) > rank:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {rank} dimensions."
            )
        axes = tuple(range(rank - len(s), rank))
    else:
        axes = tuple(range(rank))
    lengths: list[int | None] = [None] * len(axes) if s is None else [
        None if n == -1 else n for n in s]
    return axes, lengths


def _fill(x: Tensor, axes: Sequence[int], lengths: Sequence[int | None]) -> list[int]:
    return [x._array.shape[d] if n is None else n for d, n in zip(axes, lengths, strict=True)]


# ---------------------------------------------------------------------------- transforms


def _transform(x: Tensor, axes: tuple, lengths: list, norm: Any, forward: bool, out: Any) -> Tensor:
    sizes = _fill(x, axes, lengths)
    _check_lengths(sizes)
    scale = compute_scale(norm, forward)
    return complex_transform(resize(x, axes, sizes), axes, scale, forward, out=out)


def _transform_real(
    x: Tensor, axes: tuple, lengths: list, norm: Any, forward: bool, out: Any
) -> Tensor:
    sizes = _fill(x, axes, lengths)
    _check_lengths(sizes)
    scale = compute_scale(norm, forward)
    return real_transform(resize(x, axes, sizes), axes, scale, forward, out=out)


def _transform_half(
    x: Tensor, axes: tuple, lengths: list, norm: Any, forward: bool, out: Any
) -> Tensor:
    sizes = _fill(x, axes, lengths)
    last = lengths[-1]
    length = 2 * (x._array.shape[axes[-1]] - 1) if last is None else last
    _check_lengths([*sizes[:-1], length])
    sizes[-1] = length // 2 + 1
    x = resize(x if x.is_complex() else x.to(_find_complex_dtype(x)), axes, sizes)
    return half_transform(x, axes, compute_scale(norm, forward), forward, length, out=out)


def _find_complex_dtype(x: Tensor) -> Dtype:
    return types.FROM_NUMPY[np.result_type(x._array.dtype, np.complex64)]


# name: (the transform, forward, whether the input must be real, a description, an example)
_KINDS: dict[str, tuple[Callable, bool, bool, str, tuple[str, str]]] = {
    "fft": (_transform, True, False, "The discrete Fourier transform",
            ("1., 2.", "3., -1.")),
    "ifft": (_transform, False, False, "The inverse of the discrete Fourier transform",
             ("3., -1.", "1., 2.")),
    "rfft": (_transform_real, True, True, "The transform of real numbers, its first half",
             ("1., 2.", "3., -1.")),
    "irfft": (_transform_half, False, False, "The inverse of rfft",
              ("3., -1.", "1., 2.")),
    "hfft": (_transform_half, True, False, "The real transform of Hermitian numbers' first half",
             ("3., -1.", "2., 4.")),
    "ihfft": (_transform_real, False, True, "The inverse of hfft",
              ("2., 4.", "3., -1.")),
}


def _declare(
    name: str, compute: Callable, forward: bool, real: bool, doc: str, example: tuple[str, str]
) -> None:
    def along_axis(
        input: Tensor, n: Any = None, dim: int = -1, norm: Any = None, *, out: Any = None
    ) -> Tensor:
        x = _convert_to_floating(input, name, real)
        return compute(x, (_check_dim(x, dim),), [n], norm, forward, out)

    def transform_axes(
        input: Tensor, s: Any = None, dim: Sequence[int] | None = None, norm: Any = None, *,
        out: Any = None
    ) -> Tensor:
        x = _convert_to_floating(input, name + "n", real)
        axes, lengths = _check_dims(x, s, dim)
        if not axes and compute is not _transform:
            raise RuntimeError(f"{name}n must transform at least one axis")
        return compute(x, axes, lengths, norm, forward, out)

    def two(
        input: Tensor, s: Any = None, dim: Sequence[int] = (-2, -1), norm: Any = None, *,
        out: Any = None
    ) -> Tensor:
        return transform_axes(input, s, dim, norm, out=out)

    for function, ending, extent_text in ((along_axis, "", "along an axis"),
                                          (two, "2", "over two axes"),
                                          (transform_axes, "n", "over many axes")):
        function.__name__ = function.__qualname__ = f"fft_{name}{ending}"
        x, y = (f"[[{row}]]" if ending else f"[{row}]" for row in example)
        function.__doc__ = f"""{doc}, {extent_text}.

    Lengths are cut or filled up with zeros; `norm` is 'backward' (1/n in the inverse), 'ortho' or
    'forward'.

    >>> y = torch.fft.{name}{ending}(torch.tensor({x}))
    >>> y.dtype, torch.allclose(y, torch.tensor({y}, dtype=y.dtype))
    (torch.{"float32" if compute is _transform_half else "complex64"}, True)
    """
        publish(composite(expose=(), explains=True)(function), (name + ending,), ("fft",))


for _name, _kind in _KINDS.items():
    _declare(_name, *_kind)


# ---------------------------------------------------------------------------- frequencies


def _attach_frequencies(name: str, count: Callable[[int], Array], doc: str) -> None:
    def function(
        n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Dtype | None = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False,
    ) -> Tensor:
        kind = get_numpy_dtype(dtype)
        if kind.kind in "biu":
            raise RuntimeError(f"{name} requires a floating point or complex dtype")
        array = (count(n) * (1.0 / (n * d) if n else 0.0)).astype(kind)
        if out is not None:
            return write_created(out, array, counted=True)
        return place(array, device, requires_grad)

    function.__name__ = function.__qualname__ = f"fft_{name}"
    function.__doc__ = doc
    publish(wrap_with_explanation(f"fft_{name}", function), (name,), ("fft",))


_attach_frequencies("fftfreq", lambda n: (np.arange(n) + n // 2) % max(n, 1) - n // 2,
                    """The frequencies of fft's n terms, for samples d apart.

    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """)
_attach_frequencies("rfftfreq", lambda n: np.arange(n // 2 + 1),
                    """The frequencies of rfft's terms, for n samples d apart.

    >>> torch.fft.rfftfreq(4, d=0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """)


def _shift_axes(x: Tensor, dim: Any, sign: int) -> Tensor:
    rank = x._array.ndim
    axes = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if not axes:
        return x.clone()
    lengths = [x.shape[canonicalize_dim(d, rank)] for d in axes]
    return x.roll([n // 2 if sign > 0 else (n + 1) // 2 for n in lengths], axes)


@composite(expose=("fft",), explains=True)
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Shift the zero-frequency term to the center, so that frequencies ascend.

    >>> torch.fft.fftshift(torch.arange(4))
    tensor([2, 3, 0, 1])
    """
    return _shift_axes(input, dim, 1)


@composite(expose=("fft",), explains=True)
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Undo fftshift.

    >>> torch.fft.ifftshift(torch.arange(4))
    tensor([2, 3, 0, 1])
    """
    return _shift_axes(input, dim, -1)
