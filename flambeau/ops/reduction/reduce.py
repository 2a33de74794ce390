"""Reductions over axes: sums, means, extremes, norms and counts."""

from __future__ import annotations

import builtins
import math
from contextlib import nullcontext

import numpy as np

from ...native.target.eager_costs import MAX_COUNTED_ROW_ELEMENTS, MAX_NUMPY_SUM_ELEMENTS
from ...tensor import dtypes as types
from ...tensor.dtypes import FLOATS, FROM_NUMPY, HALF
from ...tensor.tensor import Tensor, wrap
from ..core.autocast import Policy
from ..core.axes import canonical_dim, canonical_dims, means_all_axes
from ..core.number_cache import number
from ..core.out import write_result
from ..core.registry import Array, composite, opaque
from ..core.return_types import return_type
from ..core.sample_inputs import reductions
from ..native.pointwise import large
from ..native.rows import position, reduce_axes
from ..view.join import cat
from .chosen_elements import choose, put_back


def sum_dtype(input: Array, dtype) -> np.dtype:
    """The dtype of a sum: the one asked for, int64 for integers, else the input's."""
    if dtype is not None:
        return dtype.numpy
    return types.int64.numpy if input.dtype.kind in "biu" else input.dtype


def axes_of(dim, ndim: int) -> tuple[int, ...] | None:
    """NumPy's axis for a `dim`: None for all axes."""
    if dim is None or means_all_axes(dim):
        return None
    return canonical_dims(dim, ndim)


def _large(ufunc, input: Array, dim, keepdim, dtype=None) -> Array | None:
    """A large array reduced in machine code, or None; float32 for half precision."""
    if dtype is not None:
        return None
    return reduce_axes(ufunc, input, axes_of(dim, input.ndim), keepdim)


@opaque(extents_follow=True, linear_in="input", samples=reductions,
        ref=lambda x, dim=None, keepdim=False: x.sum(dim, keepdims=keepdim))
def sum(input: Array, dim=None, keepdim=False, *, dtype=None) -> Array:
    """Sum over the axes `dim`, all of them by default.

    >>> torch.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])
    """
    if input.size > MAX_NUMPY_SUM_ELEMENTS \
            and (y := _large(np.add, input, dim, keepdim, dtype)) is not None:
        return round_to(y, sum_dtype(input, None))
    if dim is None and dtype is None and input.dtype.kind == "f" and input.itemsize > 2:
        return np.add.reduce(input, None, out=..., keepdims=keepdim)  # out=...: an array, always
    kind = sum_dtype(input, dtype)
    inside = types.float32.numpy if FROM_NUMPY[kind] in HALF else kind
    y = np.add.reduce(input, axes_of(dim, input.ndim), inside, None, keepdim)
    return y if inside == kind else np.asarray(y).astype(kind)


@sum.vjp
def _(g, input_shape, dim, keepdim):
    return spread(g, input_shape, dim, keepdim)


def spread(g, shape, dim, keepdim):
    """A reduction's cotangent at the shape of its input, as a view."""
    if g.__class__ is Tensor and not g._tracked and not g._array.ndim:
        # Not to be differentiated, nor to be seen by a class: no operator is needed.
        return wrap(np.ndarray(shape, g._array.dtype, g._array, 0, (0,) * len(shape)))
    if not keepdim and dim is not None and shape and dim != () and dim != []:
        axes = canonical_dims(dim, len(shape))
        g = g.reshape([1 if i in axes else n for i, n in enumerate(shape)])
    return g.expand(shape)


@composite(explains=True)
def sum_to_size(input, *size):
    """The tensor summed over the axes along which `size` was expanded to its shape.

    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    shape = input._array.shape
    if not size:
        return sum(input)
    if shape == tuple(size):
        return input
    new = len(shape) - len(size)
    axes = list(range(new)) + [
        i + new for i, n in enumerate(size) if n == 1 and shape[i + new] != 1
    ]
    if new < 0 or builtins.any(n not in (1, m) for n, m in zip(size, shape[new:], strict=True)):
        raise RuntimeError(
            f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}."
        )
    if len(axes) == new:  # memory of its own, not a view: a leaf may keep it as its gradient
        return sum(input, axes)
    y = sum(input, axes, True) if axes else input
    return y.reshape(size) if new else y


def _floating(input: Array, dtype, name: str) -> np.dtype:
    """The dtype of a mean-like result; RuntimeError for integers that nobody asked to convert."""
    kind = FROM_NUMPY[input.dtype] if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"{name}(): could not infer output dtype. {which} dtype must be either a floating "
            f"point or complex dtype. Got: {_legacy(kind)}"
        )
    return input.dtype if dtype is None else dtype.numpy


def _legacy(kind) -> str:
    from ...tensor.promotion import legacy_name

    return legacy_name(kind)


def inside_dtype(kind: np.dtype) -> np.dtype:
    """The dtype in which a reduction to `kind` is worked out."""
    return types.float32.numpy if FROM_NUMPY[kind] in HALF else kind


def round_to(y, kind: np.dtype) -> Array:
    """A result in its own dtype."""
    y = np.asarray(y)
    return y if y.dtype == kind else y.astype(kind)


def count_along(shape, dim) -> int:
    """How many elements are reduced to one."""
    n = 1
    for i in canonical_dims(dim, len(shape)) if not means_all_axes(dim) else range(len(shape)):
        n *= shape[i]
    return n


@opaque(extents_follow=True, linear_in="input", samples=reductions, node="MeanBackward0",
        ref=lambda x, dim=None, keepdim=False: np.mean(x, dim, keepdims=keepdim))
def mean(input: Array, dim=None, keepdim=False, *, dtype=None) -> Array:
    """Mean over the axes `dim`, all of them by default.

    >>> torch.tensor([1., 2., 6.]).mean()
    tensor(3.)
    """
    if dtype is None and 0 < input.size <= MAX_COUNTED_ROW_ELEMENTS and input.dtype in FLOATS \
            and input.__class__ is Array:
        axes = None if dim is None else axes_of(dim, input.ndim)
        y = np.add.reduce(input, axes, out=..., keepdims=keepdim)
        return np.divide(y, number(input.size // y.size, input.dtype), out=...)
    kind = _floating(input, dtype, "mean")
    inside = inside_dtype(kind)
    y = None
    if input.size > MAX_COUNTED_ROW_ELEMENTS:
        y = _large(np.add, input, dim, keepdim, dtype)
    if y is None:
        y = np.add.reduce(input, axes_of(dim, input.ndim), inside, None, keepdim)
    y = np.divide(y, inside.type(count_along(input.shape, dim)))
    return round_to(y, kind)


@mean.vjp
def _(g, input_shape, dim, keepdim):
    return spread(g / count_along(input_shape, dim), input_shape, dim, keepdim)


@opaque(name="_nansum", expose=(), node="NansumBackward0", samples=reductions,
        ref=lambda x, dim=None, keepdim=False: np.nansum(x, dim, keepdims=keepdim))
def _nansum(input: Array, dim=None, keepdim=False, dtype=None) -> Array:
    """Sum, NaN counting as zero."""
    kind, axes = sum_dtype(input, dtype), axes_of(dim, input.ndim)
    if input.size > MAX_COUNTED_ROW_ELEMENTS and kind == input.dtype \
            and (y := reduce_axes(np.add, input, axes, keepdim, "known")) is not None:
        return round_to(y, kind)
    y = np.add.reduce(np.where(np.isnan(input), input.dtype.type(0), input),
                      axes, inside_dtype(kind), None, keepdim)
    return round_to(y, kind)


@_nansum.vjp
def _(g, input, dim, keepdim):
    return spread(g, input.shape, dim, keepdim) * input.isnan().logical_not()


@composite(numpy_names=True)
def nansum(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """Sum over the axes `dim`, NaN counting as zero.

    >>> torch.nansum(torch.tensor([1., float("nan"), 3.]))
    tensor(4.)
    """
    if input.dtype.is_complex:
        raise RuntimeError("nansum does not support complex inputs")
    if not input.dtype.is_floating_point:
        return sum(input, dim, keepdim, dtype=dtype, out=out)
    return _nansum(input, dim, keepdim, dtype, out=out)


@composite(numpy_names=True)
def nanmean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """Mean over the axes `dim` of what is not NaN.

    >>> torch.nanmean(torch.tensor([1., float("nan"), 3.]))
    tensor(2.)
    """
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{_legacy(input.dtype)}"
        )
    count = input.isnan().logical_not().sum(dim, keepdim)
    total = _nansum(input, dim, keepdim, dtype)
    y = total / count
    return y if out is None else write_result("nanmean", y, out)


# ----------------------------------------------------------------------------- extremes


def needs_elements(input: Array, dim, name: str) -> None:
    axes = canonical_dims(dim, input.ndim) if dim is not None and dim != () else ()
    for axis in axes:
        if input.ndim and input.shape[axis] == 0:
            raise IndexError(
                f"{name}(): Expected reduction dim {axis} to have non-zero size."
            )
    if input.size == 0 and not axes:
        raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() "
                           "== 0. Specify the reduction dim with the 'dim' argument.")


def _share_of_extremes(g, input, y, dim, keepdim):
    """The cotangent, divided evenly among the elements that are equal to the extreme."""
    shape = input.shape
    at = input == spread(y, shape, dim, keepdim)
    at = at | (input.isnan() if input.is_floating_point() else at)
    share = at.to(g.dtype)
    count = share.sum(None if means_all_axes(dim) else dim, True)
    return spread(g, shape, dim, keepdim) * share / count


def _extreme(name: str, ufunc: np.ufunc, doc: str):
    def body(input: Array, dim=(), keepdim=False) -> Array:
        if not input.size:
            needs_elements(input, dim, name)
        if input.size > MAX_COUNTED_ROW_ELEMENTS \
                and (y := _large(ufunc, input, dim, keepdim)) is not None:
            return round_to(y, input.dtype)
        return np.asarray(ufunc.reduce(input, axes_of(dim, input.ndim), None, None, keepdim))

    body.__name__, body.__doc__ = name, doc
    result = opaque(ref=lambda x, dim=(), keepdim=False: ufunc.reduce(
        x, None if dim == () else dim, keepdims=keepdim), samples=reductions,
        extents_follow=True)(body)

    @result.vjp
    def _(g, input, y, dim, keepdim):
        return _share_of_extremes(g, input, y, dim, keepdim)

    return result


amax = _extreme("amax", np.maximum, """Largest elements over the axes `dim`; ties share a gradient.

    >>> torch.amax(torch.tensor([[1, 5], [7, 3]]), dim=(0, 1)), torch.amax(torch.eye(2), 0)
    (tensor(7), tensor([1., 1.]))
    """)
amin = _extreme("amin", np.minimum, """Smallest elements over the axes `dim`; ties share a gradient.

    >>> torch.amin(torch.tensor([[1, 5], [7, 3]]), dim=(0, 1)), torch.amin(torch.eye(2), 0)
    (tensor(1), tensor([0., 0.]))
    """)


def _all_extreme(name: str, ufunc: np.ufunc):
    largest = ufunc is np.maximum

    def body(input: Array) -> Array:
        if input.size == 0:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                "the reduction dim with the 'dim' argument."
            )
        if input.size > MAX_COUNTED_ROW_ELEMENTS \
                and (y := _large(ufunc, input, None, False)) is not None:
            return round_to(y, input.dtype)
        if input.size <= MAX_COUNTED_ROW_ELEMENTS and input.__class__ is Array \
                and input.dtype.kind != "V":
            at = input.argmax() if largest else input.argmin()
            return input.reshape(-1)[at, ...].copy()  # sooner than ufunc.reduce
        return np.asarray(ufunc.reduce(input, None))

    body.__name__, body.__doc__ = f"_{name}_all", f"The {name} of all elements."
    result = opaque(name=f"_{name}_all", node=name.capitalize() + "Backward1", expose=(),
                    ref=lambda x: ufunc.reduce(x, None),
                    samples=lambda rng: iter([((rng.normal(size=(3, 4)),), {})]))(body)

    @result.vjp
    def _(g, input, y):
        return _share_of_extremes(g, input, y, None, False)

    return result


max_all, min_all = _all_extreme("max", np.maximum), _all_extreme("min", np.minimum)


def _first(input: Array, dim, largest: bool) -> Array:
    """The index of the first extreme along an axis; NaN counts as extreme."""
    if input.dtype.kind == "c":
        raise RuntimeError("argmax/argmin are not implemented for complex dtypes")
    find = np.argmax if largest else np.argmin
    if input.size > MAX_COUNTED_ROW_ELEMENTS \
            and dim is not None and (y := position(find, input, dim)) is not None:
        return y
    if input.__class__ is np.ndarray:  # its method does the same, sooner
        return input.argmax(dim) if largest else input.argmin(dim)
    return find(input, dim)


def _choose(x: Array, where: Array, at: int) -> Array:
    """The elements of these numbers along an axis, one for each place."""
    if x.__class__ is not np.ndarray or not x.flags.c_contiguous:
        return np.take_along_axis(x, np.expand_dims(where, at), at).squeeze(at)
    if x.ndim == 1:
        return np.asarray(x.take(where))
    if not x.size:
        return np.empty(where.shape, x.dtype)
    n, inner = x.shape[at], math.prod(x.shape[at + 1 :])
    rows = np.arange(0, x.size, n * inner)[:, None]
    if inner == 1:
        places = where.reshape(-1, 1) + rows
    else:
        places = where.reshape(-1, inner) * inner + (rows + np.arange(inner))
    return x.take(places.reshape(where.shape))


def _extreme_along(name: str, largest: bool):
    result = return_type(name, "values", "indices")

    def body(input: Array, dim, keepdim=False) -> tuple[Array, Array]:
        if not input.ndim:
            canonical_dims(dim, 0)
            return input.copy(), np.zeros((), np.int64)
        if not input.size:
            needs_elements(input, dim, name)
        at = canonical_dim(dim, input.ndim)
        where = np.asarray(_first(input, at, largest))
        values = _choose(input, where, at)
        return (np.expand_dims(values, at), np.expand_dims(where, at)) if keepdim else \
            (values, where)

    body.__name__, body.__doc__ = f"_{name}_dim", f"The {name} along an axis, and where it is."
    new = opaque(name=f"_{name}_dim", node=name.capitalize() + "Backward0", expose=(),
                 result_type=result, constant_outputs=(1,),
                 ref=lambda x, dim: (np.max if largest else np.min)(x, dim),
                 samples=lambda rng: iter([((rng.normal(size=(3, 4)), 1), {})]))(body)

    new.vjp(put_back)
    new.jvp(choose)

    return new


max_along, min_along = _extreme_along("max", True), _extreme_along("min", False)


def _overload(name: str, whole, along, elementwise: str, doc: str):
    def function(input, dim=None, keepdim=False, *, other=None, out=None, **named):
        if "axis" in named:
            dim = named.pop("axis")
        if "keepdims" in named:
            keepdim = named.pop("keepdims")
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        if isinstance(dim, Tensor) or other is not None:
            y = getattr(input, elementwise)(dim if other is None else other)
            return y if out is None else write_result(elementwise, y, out)
        if dim is None:
            y = whole(input)
            return y if out is None else write_result(f"{name}_all", y, out)
        return along(input, dim, keepdim, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composite()(function)


max = _overload("max", max_all, max_along, "maximum", """The largest element, or of two tensors.

    max(input), max(input, dim, keepdim=False) with the first one's indices, max(input, other)
    element by element. RuntimeError for an empty tensor without `dim`.

    >>> torch.max(torch.tensor([1, 5, 3])), torch.max(torch.tensor([1, 5]), torch.tensor([3]))
    (tensor(5), tensor([3, 5]))
    >>> torch.max(torch.tensor([[1, 5], [7, 3]]), dim=1).indices
    tensor([1, 0])
    """)
min = _overload("min", min_all, min_along, "minimum", """The smallest element, or of two tensors.

    min(input), min(input, dim, keepdim=False) with the first one's indices, min(input, other)
    element by element. RuntimeError for an empty tensor without `dim`.

    >>> torch.min(torch.tensor([1, 5, 3])), torch.min(torch.tensor([1, 5]), torch.tensor([3]))
    (tensor(1), tensor([1, 3]))
    >>> torch.min(torch.tensor([[1, 5], [7, 3]]), dim=1).indices
    tensor([0, 1])
    """)


def _arg(name: str, largest: bool):
    def body(input: Array, dim=None, keepdim=False) -> Array:
        if dim is None:
            if not input.size:
                raise IndexError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                    "Specify the reduction dim with the 'dim' argument."
                )
            y = np.asarray(_first(input, None, largest))
            return y.reshape((1,) * input.ndim) if keepdim else y
        if not input.size:
            needs_elements(input, dim, name)
        at = canonical_dim(dim, input.ndim)
        if not input.ndim:
            return np.zeros((), np.int64)
        y = np.asarray(_first(input, at, largest))
        return np.expand_dims(y, at) if keepdim else y

    body.__name__ = name
    body.__doc__ = f"""The index of the {"largest" if largest else "smallest"} element, the first.

    Without `dim` it counts through the flattened tensor.

    >>> torch.{name}(torch.tensor([[1, 5], [7, 3]])), torch.{name}(torch.tensor([1, 5, 5]))
    (tensor({2 if largest else 0}), tensor({1 if largest else 0}))
    """
    return opaque(differentiable=False, ref=lambda x, dim=None: getattr(np, name)(x, dim),
                  samples=lambda rng: iter([((rng.normal(size=(3, 4)),), {}),
                                            ((rng.normal(size=(3, 4)), 1), {})]))(body)


argmax, argmin = _arg("argmax", True), _arg("argmin", False)

_aminmax = return_type("aminmax", "min", "max")


@composite(explains=True)
def aminmax(input, *, dim=None, keepdim=False, out=None):
    """The smallest and the largest element, of all or along an axis.

    >>> torch.aminmax(torch.tensor([[3, 1], [5, 2]]), dim=1)
    torch.return_types.aminmax(
    min=tensor([1, 2]),
    max=tensor([3, 5]))
    """
    if dim is None and not input._array.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if dim is not None and input._array.ndim and not input.size(dim):
        raise IndexError(f"aminmax: Expected reduction dim {dim} to have non-zero size.")
    result = _aminmax(amin(input, () if dim is None else dim, keepdim),
                      amax(input, () if dim is None else dim, keepdim))
    if out is None:
        return result
    return write_result("aminmax", result, out, (input,))


# ------------------------------------------------------------------------------- logical


def _logical(name: str, ufunc: np.ufunc):
    def body(input: Array, dim=None, keepdim=False) -> Array:
        if dim is None and not keepdim and input.dtype.kind == "b" and input.size \
                and input.__class__ is Array:
            first = input.argmax() if ufunc is np.logical_or else input.argmin()
            return np.array(input.item(first))  # which decides; ufunc.reduce takes twice as long
        kind = np.uint8 if input.dtype == np.uint8 else np.bool_
        y = ufunc.reduce(input.astype(np.bool_), axes_of(dim, input.ndim), keepdims=keepdim)
        return np.asarray(y).astype(kind)

    body.__name__ = name
    body.__doc__ = f"""Whether {name} of the elements {"is" if name == "any" else "are"} true.

    Of an empty tensor: {name == "all"}. uint8 stays uint8, as in PyTorch.

    >>> torch.{name}(torch.tensor([[True, False], [True, True]]), dim=1)
    tensor([{"True, True" if name == "any" else "False,  True"}])
    """
    return opaque(differentiable=False, ref=lambda x, dim=None: getattr(np, name)(x, dim),
                  samples=lambda rng: iter([((rng.integers(0, 2, (3, 4)) > 0,), {}),
                                            ((rng.integers(0, 2, (3, 4)) > 0, 0), {})]))(body)


any, all = _logical("any", np.logical_or), _logical("all", np.logical_and)


@opaque(differentiable=False, ref=lambda x, dim=None: np.count_nonzero(x, dim),
        samples=lambda rng: iter([((rng.integers(0, 2, (3, 4)),), {}),
                                  ((rng.integers(0, 2, (3, 4)),), {"dim": 1})]))
def count_nonzero(input: Array, dim=None) -> Array:
    """How many elements are not zero.

    >>> torch.count_nonzero(torch.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """
    if input.size > MAX_COUNTED_ROW_ELEMENTS and (known := large(_not_zero, input)) is not None:
        input = known
    return np.asarray(np.count_nonzero(input, axes_of(dim, input.ndim)), np.int64)


def _not_zero(x: Array) -> Array:
    return x != 0


# -------------------------------------------------------------------------------- products


@opaque(autocast=Policy.FULL,
        ref=lambda x, dim=None, keepdim=False: np.prod(x, dim, keepdims=keepdim),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)),), {}),
                                  ((rng.normal(size=(3, 4)), 1), {})]))
def prod(input: Array, dim=None, keepdim=False, *, dtype=None) -> Array:
    """Product of the elements, of all or along an axis.

    >>> torch.prod(torch.tensor([[1, 2], [3, 4]]), dim=1)
    tensor([ 2, 12])
    """
    if input.size > MAX_COUNTED_ROW_ELEMENTS \
            and (y := _large(np.multiply, input, dim, keepdim, dtype)) is not None:
        return round_to(y, sum_dtype(input, None))
    kind = sum_dtype(input, dtype)
    axis = None if dim is None else canonical_dim(dim, input.ndim) if input.ndim else None
    y = np.multiply.reduce(input, axis, inside_dtype(kind), None, keepdim)
    return round_to(y, kind)


@prod.vjp
def _(g, input, dim, keepdim):
    if dim is None:
        return (g * others(input.reshape(-1), 0)).reshape(input.shape)
    return spread(g, input.shape, dim, keepdim) * (
        others(input, dim) if input.dim() else input.new_ones(())
    )


def others(x: Tensor, dim: int) -> Tensor:
    """The product of the other elements along an axis, zeros or not."""
    ones = x.narrow(dim, 0, 1) * 0 + 1
    n = x.shape[dim]
    before = cat([ones, x.narrow(dim, 0, n - 1)], dim).cumprod(dim) if n else x
    after = cat([ones, x.flip(dim).narrow(dim, 0, n - 1)], dim).cumprod(dim).flip(dim) if n else x
    return before * after


# ------------------------------------------------------------------------------ variances


def _correction(unbiased, correction) -> float:
    if correction is not None:
        return correction
    return 1 if unbiased is None or unbiased else 0


@opaque(name="_var", node="VarBackward0", expose=(),
        ref=lambda x, dim, keepdim, correction: np.var(
            x, None if dim is None else dim, keepdims=keepdim, ddof=correction),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), None, False, 1), {}),
                                  ((rng.normal(size=(3, 4)), 1, True, 0), {})]))
def _var(input: Array, dim, keepdim, correction) -> Array:
    """Variance with `correction` taken off the count."""
    kind = _floating(input, None, "var")
    axes = axes_of(dim, input.ndim)
    inside = inside_dtype(kind)
    x = input if input.dtype == inside else input.astype(inside)
    n = count_along(input.shape, dim)
    if x.size > MAX_COUNTED_ROW_ELEMENTS and n > correction \
            and (y := _large_var(x, axes, keepdim, n)) is not None:
        return round_to(y / y.dtype.type(n - correction), kind)
    with _QUIET if n > correction else np.errstate(all="ignore"):  # which takes 2 us
        d = x - np.add.reduce(x, axes, None, None, True) / number(n, inside)
        square = (d * d.conj()).real if d.dtype.kind == "c" else np.multiply(
            d, d, out=d if input.ndim else None)
        y = np.add.reduce(square, axes, None, None, keepdim)
        y = y / number(builtins.max(n - correction, 0), y.dtype)
    return round_to(y, kind if kind.kind != "c" else y.dtype)


def _large_var(x: Array, axes: tuple[int, ...] | None, keepdim: bool, n: int) -> Array | None:
    """The sums of squared distances from the mean, by kernels; None without them."""
    if x.__class__ is not np.ndarray or x.dtype.kind != "f":
        return None
    mean = reduce_axes(np.add, x, axes, True)
    if mean is None:
        return None
    mean /= n
    squares = large(_distance, x, mean.reshape(()) if axes is None else mean)
    return None if squares is None else reduce_axes(np.add, squares, axes, keepdim)


def _distance(x: Array, mean: Array) -> Array:
    """Squared, from the mean."""
    apart = x - mean
    return apart * apart


_QUIET = nullcontext()  # nothing is divided by zero


@_var.vjp
def _(g, input, dim, keepdim, correction):
    n = count_along(input.shape, dim)
    axes = None if means_all_axes(dim) else dim
    scale = 2 / (n - correction) if n > correction else math.nan
    return spread(g, input.shape, dim, keepdim) * ((input - input.mean(axes, True)) * scale)


def _var_arguments(name, dim, unbiased, correction):
    if isinstance(dim, bool):
        if unbiased is not None and not isinstance(unbiased, bool):
            raise TypeError(f"{name}() received an invalid combination of arguments")
        dim, unbiased = None, dim
    return dim, _correction(unbiased, correction)


@composite(numpy_names=True)
def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    """Variance over the axes `dim`; the count less `correction` (1) divides.

    >>> torch.var(torch.tensor([1., 3.])), torch.var(torch.tensor([1., 3.]), correction=0)
    (tensor(2.), tensor(1.))
    """
    dim, less = _var_arguments("var", dim, unbiased, correction)
    return _var(input, dim, keepdim, less, out=out)


@composite(numpy_names=True)
def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    """Standard deviation over the axes `dim`; the count less `correction` (1) divides.

    >>> torch.std(torch.tensor([1., 3.])), torch.std(torch.tensor([1., 3.]), correction=0)
    (tensor(1.4142), tensor(1.))
    """
    dim, less = _var_arguments("std", dim, unbiased, correction)
    y = _std(input, dim, keepdim, less)
    return y if out is None else write_result("std", y, out)


@opaque(name="_std", node="StdBackward0", expose=(),
        ref=lambda x, dim, keepdim, correction: np.std(
            x, None if dim is None else dim, keepdims=keepdim, ddof=correction),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), None, False, 1), {}),
                                  ((rng.normal(size=(3, 4)), 1, True, 0), {})]))
def _std(input: Array, dim, keepdim, correction) -> Array:
    """Square root of the variance."""
    y = _var.operator.body(input, dim, keepdim, correction)
    return np.asarray(np.sqrt(y)).astype(y.dtype, copy=False)  # never below zero


@_std.vjp
def _(g, input, y, dim, keepdim, correction):
    n = count_along(input.shape, dim)
    axes = None if means_all_axes(dim) else dim
    scale = 1 / (n - correction) if n > correction else math.nan
    share = (g / y).masked_fill(y == 0, 0)
    return spread(share, input.shape, dim, keepdim) * ((input - input.mean(axes, True)) * scale)


@composite(expose=("torch",), numpy_names=True)
def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance and mean over the axes `dim`.

    >>> torch.var_mean(torch.tensor([[1., 3.], [2., 2.]]), dim=1)
    (tensor([2., 0.]), tensor([2., 2.]))
    """
    dim, less = _var_arguments("var_mean", dim, unbiased, correction)
    return _var(input, dim, keepdim, less), mean(input, dim, keepdim)


@composite(expose=("torch",), numpy_names=True)
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation and mean over the axes `dim`.

    >>> torch.std_mean(torch.tensor([[1., 3.], [2., 2.]]), dim=1)
    (tensor([1.4142, 0.0000]), tensor([2., 2.]))
    """
    dim, less = _var_arguments("std_mean", dim, unbiased, correction)
    return _std(input, dim, keepdim, less), mean(input, dim, keepdim)
