"""Softmax and its logarithm, softmin, logsumexp, Gumbel's softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ...autograd.mode import MODE
from ...native.foundation.user_frames import warn
from ...native.runtime import eager_kernels as kernels
from ...native.runtime.background_jit import KernelPolicy
from ...native.runtime.eager_kernels import LOGSUMEXP_WITH_TANGENT, EagerKernel
from ...native.runtime.fast_call import FastCalls
from ...native.target.eager_costs import (
    MAX_NUMPY_ROW_ELEMENTS, MAX_SHORT_ROW_ELEMENTS, MAX_SMALL_ELEMENTS, SOFTMAX_BLOCK_ELEMENTS,
)
from ...tensor import dtypes as types
from ...tensor.dtypes import FLOAT32, FLOAT64, FROM_NUMPY, dtype as Dtype
from ...tensor.narrow_dtypes import EIGHT_BIT
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor
from ..core.axes import canonicalize_dim
from ..core.operator import Array
from ..core.promotion import compute_dtype
from ..core.registry import Declared, composite, numbers_are_operands, opaque
from ..core.sample_inputs import matrices
from ..creation.creation import public
from ..native.pointwise import try_kernel
from ..native.rows import run_over_rows
from ..native.rows import logsumexp as rows_logsumexp
from ..native.small_arrays import LOG_SOFTMAX, SOFTMAX
from ..reduction.numpy_reductions import reduce_max, reduce_sum
from ..reduction.reduce import parse_axes, spread
from ..reduction.tangent_sums import reduce_rows_with_tangents

_ndarray = np.ndarray
_FAST_DTYPES = (FLOAT32, FLOAT64)

_samples = matrices(((5,), 0), ((3, 4), 1), ((2, 3, 4), -2), ((), 0))

# ------------------------------------------------------------------- rows, computed by NumPy


@lru_cache(maxsize=64)
def _create_ones(n: int, kind: np.dtype) -> Array:
    return np.ones(n, kind)


def _reduce_max_along(x: Array, axis: int) -> Array:
    """The largest elements along an axis, which stays as one of length 1."""
    if axis == 1 and x.shape[1] <= MAX_SHORT_ROW_ELEMENTS and x.ndim == 2:
        return reduce_max(x.T.copy(), 0)[:, None]  # whole rows at a time
    return reduce_max(x, axis, None, None, True)


def _reduce_sum_along(x: Array, axis: int) -> Array:
    """The sums along an axis, which stays as one of length 1; a BLAS product for rows."""
    if axis == 1 and x.ndim == 2:
        return np.dot(x, _create_ones(x.shape[1], x.dtype))[:, None]
    return reduce_sum(x, axis, None, None, True)


def _write_softmax(x: Array, axis: int, y: Array) -> None:
    np.subtract(x, _reduce_max_along(x, axis), y)
    np.exp(y, y)
    np.divide(y, _reduce_sum_along(y, axis), y)


def _write_log_softmax(x: Array, axis: int, y: Array) -> None:
    np.subtract(x, _reduce_max_along(x, axis), y)
    total = _reduce_sum_along(np.exp(y), axis)
    np.subtract(y, np.log(total, total), y)


Formula = Callable[[Array, int, Array], None]  # writes the result for x along an axis into y

_KERNELS: dict[Formula, EagerKernel] = {
    _write_softmax: kernels.SOFTMAX,
    _write_log_softmax: kernels.LOG_SOFTMAX,
}


def _compute(formula: Formula, x: Array, axis: int) -> Array:
    """The formula's result in the dtype of x: by its kernel, or by NumPy in blocks of rows."""
    if x.size > MAX_NUMPY_ROW_ELEMENTS \
            and (y := run_over_rows(_KERNELS[formula], axis, x)) is not None:
        return y
    y = np.empty(x.shape, x.dtype)
    if axis != x.ndim - 1 or not x.flags.c_contiguous:
        formula(x, axis, y)
        return y
    n = x.shape[-1]
    rows, target = (x, y) if x.ndim == 2 else (x.reshape(-1, n), y.reshape(-1, n))
    if x.size <= SOFTMAX_BLOCK_ELEMENTS:
        formula(rows, 1, target)
        return y
    step = max(1, SOFTMAX_BLOCK_ELEMENTS // n)
    for i in range(0, len(rows), step):
        formula(rows[i : i + step], 1, target[i : i + step])
    return y


def _compute_as(
    formula: Formula, name: str, input: Array, dim: int, dtype: Dtype | None
) -> Array:
    """The formula's result for an input of any floating dtype, converted to `dtype` first."""
    axis = canonicalize_dim(dim, input.ndim)
    kind = input.dtype if dtype is None else dtype.numpy
    if not FROM_NUMPY[kind].is_floating_point or kind in EIGHT_BIT:
        kernel_name = "lastdim_kernel_impl" if axis == input.ndim - 1 else "kernel_impl"
        raise build_missing_kernel_error(f"{name}_{kernel_name}", kind)
    if input.size > MAX_NUMPY_ROW_ELEMENTS and kind == input.dtype \
            and (y := run_over_rows(_KERNELS[formula], axis, input)) is not None:
        return y
    inside = compute_dtype(kind)
    x = input if input.dtype == inside else input.astype(kind).astype(inside, copy=False)
    if not x.size:
        return np.empty(x.shape, kind)
    y = _compute(formula, x, axis) if x.ndim else _compute(formula, x[None], 0)[0]
    return np.asarray(y, kind)


# --------------------------------------------------------------------------------- operators


def _reference(x: np.ndarray, dim: int) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(dim, keepdims=True) if x.ndim else np.ones(())


@opaque(extents_follow=True, ref=_reference, samples=_samples, aliases=("special.softmax",))
def softmax(input: Array, dim: int, dtype: Dtype | None = None) -> Array:
    """exp(input) divided by its sum along an axis.

    >>> torch.softmax(torch.tensor([0., 0.]), 0)
    tensor([0.5000, 0.5000])
    """
    if dtype is None and input.dtype in _FAST_DTYPES:
        # Written out here and in log_softmax: a call would be a twentieth of a small one's time.
        n = input.ndim
        size = input.size
        if 1 < size <= MAX_SMALL_ELEMENTS and (dim == n - 1 or dim == -1) \
                and dim.__class__ is int and input.__class__ is _ndarray:
            kernel = SOFTMAX[input.dtype]
            if kernel and KernelPolicy.allowed:
                y = input.copy()
                last = y.shape[-1]
                FastCalls.call(kernel, y, size // last, last)
                return y
        if size and dim.__class__ is int and -n <= dim < n:
            return _compute(_write_softmax, input, dim if dim >= 0 else dim + n)
    return _compute_as(_write_softmax, "softmax", input, dim, dtype)


@softmax.vjp
def _(g: Tensor, y: Tensor, dim: int) -> Tensor:
    return softmax_backward(g, y, dim, None)


@softmax.jvp
def _(input_t: Tensor, y: Tensor, dim: int) -> Tensor:
    return softmax_backward(input_t.to(y.dtype), y, dim, None)  # the Jacobian is symmetric


@opaque(name="_softmax_backward_data", node="SoftmaxBackwardBackward0", expose=("torch",),
        ref=lambda g, y, dim, kind: y * (g - (g * y).sum(dim, keepdims=True)),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), rng.random(size=(3, 4)), 1, None),
                                   {})]))
def softmax_backward(
    grad_output: Array, output: Array, dim: int, input_dtype: Dtype | None
) -> Array:
    """Return the cotangent of softmax's input."""
    if not output.ndim:
        return np.zeros((), output.dtype)
    if output.size > MAX_NUMPY_ROW_ELEMENTS and input_dtype is None:
        y = run_over_rows(kernels.SOFTMAX_BACKWARD, dim, grad_output, output)
        if y is not None:
            return y
    inside = compute_dtype(output.dtype)
    y = output.astype(inside, copy=False)
    result = np.multiply(grad_output, y, dtype=inside)
    total = reduce_sum(result, dim, None, None, True)
    np.subtract(result, np.multiply(y, total), result)
    kind = output.dtype if input_dtype is None else input_dtype.numpy
    return result.astype(kind, copy=False)


@softmax_backward.vjp("grad_output")
def _(g: Tensor, output: Tensor, dim: int) -> Tensor:
    return softmax_backward(g, output, dim, None)


@softmax_backward.vjp("output")
def _(g: Tensor, grad_output: Tensor, output: Tensor, dim: int) -> Tensor:
    first = (grad_output * output).sum(dim, True)
    return g * (grad_output - first) - grad_output * (g * output).sum(dim, True)


def _log_reference(x: np.ndarray, dim: int) -> np.ndarray:
    return x - np.log(np.exp(x).sum(dim, keepdims=True)) if x.ndim else np.zeros(())


@opaque(extents_follow=True, ref=_log_reference, samples=_samples, aliases=("special.log_softmax",))
def log_softmax(input: Array, dim: int, dtype: Dtype | None = None) -> Array:
    """Compute log(softmax(input)) along an axis without underflow.

    >>> torch.log_softmax(torch.tensor([0., 0.]), 0)
    tensor([-0.6931, -0.6931])
    """
    if dtype is None and input.dtype in _FAST_DTYPES:
        n = input.ndim
        size = input.size
        if 1 < size <= MAX_SMALL_ELEMENTS and (dim == n - 1 or dim == -1) \
                and dim.__class__ is int and input.__class__ is _ndarray:
            kernel = LOG_SOFTMAX[input.dtype]
            if kernel and KernelPolicy.allowed:
                y = input.copy()
                last = y.shape[-1]
                FastCalls.call(kernel, y, size // last, last)
                return y
        if size and dim.__class__ is int and -n <= dim < n:
            return _compute(_write_log_softmax, input, dim if dim >= 0 else dim + n)
    return _compute_as(_write_log_softmax, "log_softmax", input, dim, dtype)


@log_softmax.vjp
def _(g: Tensor, y: Tensor, dim: int) -> Tensor:
    return log_softmax_backward(g, y, dim, None)


@log_softmax.jvp
def _(input_t: Tensor, y: Tensor, dim: int) -> Tensor:
    return push_log_softmax(input_t.to(y.dtype), y, dim)


def push_log_softmax(t: Tensor, y: Tensor, dim: int) -> Tensor:
    """Return the tangent of log_softmax's result y, given that of its input."""
    return t - (t * y.exp()).sum(dim, True) if MODE.grad else _log_softmax_tangent(t, y, dim)


@opaque(name="_log_softmax_tangent", expose=(), differentiable=False, ref=None, samples=None)
def _log_softmax_tangent(input_t: Array, output: Array, dim: int) -> Array:
    """The same on arrays."""
    if not output.ndim:
        return np.zeros((), output.dtype)
    if output.size > MAX_NUMPY_ROW_ELEMENTS:
        y = run_over_rows(kernels.LOG_SOFTMAX_TANGENT, dim, input_t, output)
        if y is not None:
            return y
    inside = compute_dtype(output.dtype)
    total = reduce_sum(input_t * np.exp(output, dtype=inside), dim, None, None, True)
    return np.subtract(input_t, total, dtype=inside).astype(output.dtype, copy=False)


@opaque(name="_log_softmax_backward_data", node="LogSoftmaxBackwardBackward0", expose=("torch",),
        ref=lambda g, y, dim, kind: g - np.exp(y) * g.sum(dim, keepdims=True),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), 1, None),
                                   {})]))
def log_softmax_backward(
    grad_output: Array, output: Array, dim: int, input_dtype: Dtype | None
) -> Array:
    """Return the cotangent of log_softmax's input."""
    if not output.ndim:
        return np.zeros((), output.dtype)
    if output.size > MAX_NUMPY_ROW_ELEMENTS and input_dtype is None:
        y = run_over_rows(kernels.LOG_SOFTMAX_BACKWARD, dim, grad_output, output)
        if y is not None:
            return y
    inside = compute_dtype(output.dtype)
    result = np.exp(output, dtype=inside)
    np.multiply(result, reduce_sum(grad_output, dim, inside, None, True), result)
    np.subtract(grad_output, result, result)
    kind = output.dtype if input_dtype is None else input_dtype.numpy
    return result.astype(kind, copy=False)


@log_softmax_backward.vjp("grad_output")
def _(g: Tensor, output: Tensor, dim: int) -> Tensor:
    return g - (g * output.exp()).sum(dim, True)


@log_softmax_backward.vjp("output")
def _(g: Tensor, grad_output: Tensor, output: Tensor, dim: int) -> Tensor:
    return -g * output.exp() * grad_output.sum(dim, True)


def _compute_shifted_exp(x: Array, top: Array) -> Array:
    return np.exp(x - top)


@opaque(extents_follow=True, kernel="max_values_cpu",
        ref=lambda x, dim, keepdim=False: np.log(np.exp(x).sum(dim, keepdims=keepdim)),
        samples=matrices(((5,), 0), ((3, 4), 1), ((2, 3, 4), (0, -1), True)),
        aliases=("special.logsumexp",))
def logsumexp(input: Array, dim: int | Sequence[int], keepdim: bool = False) -> Array:
    """Compute the log of the sum of exponentials over the axes `dim`, without overflow.

    Args:
        dim (int or tuple of ints): The axes to reduce; negative numbers count from the last.

    >>> torch.logsumexp(torch.tensor([0., 0.]), 0)
    tensor(0.6931)
    """
    kind = input.dtype
    if kind.kind in "biu":
        kind = types.get_default_dtype().numpy
    inside = compute_dtype(kind)
    axes = parse_axes(dim, input.ndim) if input.ndim else None
    if input.size > MAX_NUMPY_ROW_ELEMENTS and axes == (input.ndim - 1,) \
            and (y := rows_logsumexp(input, keepdim)) is not None:
        return np.asarray(y, kind)
    x = input.astype(inside, copy=False)
    if x.size:
        top = np.asarray(reduce_max(x.real, axes, None, None, True))
        top[~np.isfinite(top)] = 0
        powers = try_kernel(
            _compute_shifted_exp, x, top
        ) if x.size > MAX_NUMPY_ROW_ELEMENTS else None
        powers = _compute_shifted_exp(x, top) if powers is None else powers
        y = np.log(reduce_sum(powers, axes, None, None, True)) + top
    else:
        y = np.log(reduce_sum(x, axes, None, None, True))
    if not keepdim and x.ndim:
        y = y.squeeze(axes)
    return np.asarray(y, kind)


@logsumexp.vjp
def _(g: Tensor, input: Tensor, y: Tensor, dim: int | Sequence[int], keepdim: bool) -> Tensor:
    shape = input.shape
    return spread(g, shape, dim, keepdim) * (input - spread(y, shape, dim, keepdim)).exp()


@logsumexp.jvp
def _(input_t: Tensor, input: Tensor, y: Tensor, dim: int | Sequence[int], keepdim: bool) -> Tensor:
    if input.__class__ is Tensor and dim.__class__ is int and input.is_floating_point():
        weights = softmax(input, dim)
    else:
        weights = (input - spread(y, input.shape, dim, keepdim)).exp()
    return (input_t * weights).sum(dim, keepdim)


@logsumexp.value_and_jvp
def _(
    input: Array, input_t: Array | None, dim: int | Sequence[int], keepdim: bool
) -> tuple[Array, Array] | None:
    return reduce_rows_with_tangents(
        LOGSUMEXP_WITH_TANGENT, input, input_t, parse_axes(dim, input.ndim), keepdim)


def implicit_dim(name: str, ndim: int) -> int:
    """Return the axis that PyTorch assumes without `dim`, and warn as PyTorch does."""
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
    )
    return 0 if ndim in (0, 1, 3) else 1


def _publish_functional(name: str, operator: Declared, sign: int, doc: str) -> None:
    """Publish softmax, log_softmax or softmin of torch.nn.functional."""

    def function(
        input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None
    ) -> Tensor:
        if dim is None:
            dim = implicit_dim(name, input.dim())
        return operator(input if sign > 0 else -input, dim, dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    public(spaces=("nn.functional",))(function)


_publish_functional("softmax", softmax, 1, """exp(input) divided by its sum along an axis.

    >>> torch.nn.functional.softmax(torch.tensor([0., 0., 1.]), dim=0)
    tensor([0.2119, 0.2119, 0.5761])
    """)
_publish_functional("log_softmax", log_softmax, 1, """Logarithm of softmax, without overflow.

    >>> torch.nn.functional.log_softmax(torch.tensor([0., 1000.]), dim=0)
    tensor([-1000.,     0.])
    """)
_publish_functional("softmin", softmax, -1, """Softmax of -input.

    >>> torch.nn.functional.softmin(torch.tensor([0., 0., 1.]), dim=0)
    tensor([0.4223, 0.4223, 0.1554])
    """)


@numbers_are_operands
@composite(expose=("nn.functional",), explains=True)
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Sample from the Gumbel-softmax distribution, softmax((logits + noise) / tau).

    `hard`: return one-hot vectors, with the gradients of the soft samples. Jang et al., 2016.

    >>> y = torch.nn.functional.gumbel_softmax(torch.zeros(5, 3), hard=True)
    >>> y.sum(1)
    tensor([1., 1., 1., 1., 1.])
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -logits.detach().clone().exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    maxima = soft.detach().argmax(dim, True)
    hard_sample = logits.new_zeros(logits.shape).scatter(dim, maxima, value=1.0)
    return hard_sample - soft.detach() + soft


@composite(expose=("torch",))
def _safe_softmax(input: Tensor, dim: int, dtype: Dtype | None = None) -> Tensor:
    """Compute a softmax that returns 0 instead of NaN for rows that are all -inf.

    >>> torch._safe_softmax(torch.tensor([[-torch.inf, -torch.inf], [0., 0.]]), 1)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    masked = (input == -math.inf).all(dim, True)
    return softmax(input.masked_fill(masked, 0), dim, dtype).masked_fill(masked, 0)
