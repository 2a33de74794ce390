"""Piecewise linear activations: relu, hardtanh, hardswish, leaky_relu, threshold, shrinkage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...tensor.dtypes import BOOL, COMPLEX, FROM_NUMPY, dtype as Dtype
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise, choose
from ..core.operator import Array, Number, publish
from ..core.promotion import round_setting
from ..core.registry import composite, pointwise, repeats_operators, writes_by_operators
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, real_line
from ..creation.creation import zeros_like
from .negative_slopes import refuse_backward


def _with(**options: Any) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        for args, _ in real_line(rng):
            yield args, {}
            yield args, options

    return samples


def _near_zero(rng: Rng) -> Iterator[Sample]:
    for shape in ((), (5,), (3, 4)):
        yield (rng.normal(size=shape), rng.uniform(-1, 1, shape)), {}


def _refuse_unordered(operator: Any, kind: Dtype) -> Exception:
    """Return PyTorch's error for complex numbers and bools, which cannot be clamped."""
    name = operator.node_type.__name__.removesuffix("Backward0").lower()
    if kind.is_complex:
        return NotImplementedError(f"clamp is not supported for complex types ({name})")
    if name == "relu":
        return RuntimeError("Boolean inputs not supported for relu")
    return RuntimeError(f"Bool inputs not supported for {name}")


_ordered = dtype_refusals.Refusal(BOOL, COMPLEX, error=_refuse_unordered)


def _max_with_zero(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    return np.maximum(0, x, out=out)


@pointwise(name="relu_only", node="ReluBackward0", ref=lambda x: x * (x > 0), samples=real_line,
           ufunc=_max_with_zero, refuse=_ordered, expose=())
def rectify(input: Array) -> Array:
    """Apply the rectified linear unit, max(input, 0).

    >>> torch.relu(torch.tensor([-1., 0., 2.]))
    tensor([0., 0., 2.])
    """
    return np.maximum(0, input)  # -0.0 stays


@rectify.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return threshold_backward(g, y, 0)


@pointwise(expose=("aten",),
           ref=lambda g, x, threshold: np.where(x <= threshold, 0, g),
           samples=lambda rng: ((a, {"threshold": 0.1}) for a, _ in pairs_nonzero(rng)),
           inplace=False)
def threshold_backward(grad: Array, input: Array, threshold: float) -> Array:
    """Return 0 where input <= threshold, else grad; where input is NaN, grad, as in PyTorch."""
    return blockwise(
        lambda g, x: choose(np.logical_not(np.less_equal(x, threshold)), g, 0), grad, input
    )


@threshold_backward.vjp("grad")
def _(g: Tensor, input: Tensor, threshold: float) -> Tensor:
    return threshold_backward(g, input, threshold)


@threshold_backward.vjp("input")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


@repeats_operators()
@composite(expose=("nn.functional",))
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply the rectified linear unit, max(input, 0).

    >>> torch.nn.functional.relu(torch.tensor([-1., 2.]))
    tensor([0., 2.])
    """
    return rectify.operator.twin(input) if inplace else rectify(input)


publish(rectify, ("relu",), ("torch", "Tensor"))


def _publish_twin(function: Any, name: str, spaces: tuple[str, ...]) -> None:
    """Publish an operator's in-place twin as `name`_."""
    twin = function.operator.twin
    twin.__doc__ = f"`{name}` in place."
    publish(twin, (f"{name}_",), spaces)


_publish_twin(rectify, "relu", ("torch", "Tensor", "nn.functional"))


# ------------------------------------------------------------------------------- clipped


@pointwise(name="_hardtanh", node="HardtanhBackward0", refuse=_ordered, expose=(),
           ref=lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
           samples=_with(min_val=-0.5, max_val=2.0))
def hardtanh_operator(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """Return min(max(input, min_val), max_val)."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype.kind == "u" and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    low, high = np.asarray(min_val).astype(input.dtype), np.asarray(max_val).astype(input.dtype)
    return np.minimum(high, np.maximum(low, input))


@hardtanh_operator.vjp
def _(g: Tensor, input: Tensor, min_val: float, max_val: float) -> Tensor:
    return hardtanh_backward(g, input, min_val, max_val)


def _open_samples(rng: Rng) -> Iterator[Sample]:
    for args, _ in pairs_nonzero(rng):
        yield args, {"low": -1, "high": 0.9}


@pointwise(ref=lambda g, x, low, high: g * ~((x <= low) | (x >= high)), expose=(), inplace=False,
           samples=_open_samples)
def hardtanh_backward(grad: Array, input: Array, low: float, high: float) -> Array:
    """Return grad, but 0 where input <= low or input >= high: NaN passes."""
    return blockwise(lambda g, x: choose((x <= low) | (x >= high), 0, g), grad, input)


@hardtanh_backward.vjp("grad")
def _(g: Tensor, input: Tensor, low: float, high: float) -> Tensor:
    return hardtanh_backward(g, input, low, high)


@hardtanh_backward.vjp("input")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


def _clamp_samples(rng: Rng) -> Iterator[Sample]:
    for args, options in _open_samples(rng):
        yield args, options
        yield args, {**options, "closed": True}


@pointwise(ref=lambda g, x, low, high, closed=False: g * ((x > low) & (x < high)), expose=(),
           inplace=False, samples=_clamp_samples)
def clamp_backward(
    grad: Array, input: Array, low: float, high: float, closed: bool = False
) -> Array:
    """Return grad where low < input < high, else 0; `closed` includes the bounds."""
    if closed:
        return blockwise(lambda g, x: choose((x >= low) & (x <= high), g, 0), grad, input)
    return blockwise(lambda g, x: choose((x > low) & (x < high), g, 0), grad, input)


@clamp_backward.vjp("grad")
def _(g: Tensor, input: Tensor, low: float, high: float, closed: bool) -> Tensor:
    return clamp_backward(g, input, low, high, closed)


@clamp_backward.vjp("input")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


@composite(expose=("nn.functional",))
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Clip the input to [min_val, max_val]; raise ValueError if min_val > max_val.

    >>> torch.nn.functional.hardtanh(torch.tensor([-2., 0.5, 3.]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:  # the operator's error would be a RuntimeError
        raise ValueError("min_val cannot be greater than max_val")
    call = hardtanh_operator.operator.twin if inplace else hardtanh_operator
    return call(input, min_val, max_val)


_publish_twin(hardtanh_operator, "hardtanh", ("nn.functional",))


@composite(expose=("nn.functional",))
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply ReLU capped at 6, min(max(input, 0), 6).

    >>> torch.nn.functional.relu6(torch.tensor([-1., 7.]))
    tensor([0., 6.])
    """
    return hardtanh(input, 0, 6, inplace)


@pointwise(name="_hardsigmoid", node="HardsigmoidBackward0", expose=(),
           refuse=dtype_refusals.integers,
           ref=lambda x: np.clip(x / 6 + 0.5, 0, 1), samples=real_line)
def hardsigmoid_operator(input: Array) -> Array:
    """Return min(max(input + 3, 0), 6) / 6."""
    return blockwise(lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6, input)


@hardsigmoid_operator.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return clamp_backward(g, input, -3, 3) / 6


@composite(expose=("nn.functional",))
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply a piecewise-linear sigmoid, min(max(input + 3, 0), 6) / 6.

    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4., 0., 4.]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return hardsigmoid_operator.operator.twin(input) if inplace else hardsigmoid_operator(input)


@pointwise(name="_hardswish", node="HardswishBackward0", refuse=dtype_refusals.integers, expose=(),
           ref=lambda x: x * np.clip(x / 6 + 0.5, 0, 1), samples=real_line)
def hardswish_operator(input: Array) -> Array:
    """Return input * min(max(input + 3, 0), 6) / 6."""
    return blockwise(lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6, input)


@hardswish_operator.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return hardswish_backward(g, input)


def _hardswish_slope(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    slope = choose(x < 3, x / 3 + 0.5, np.ones((), x.dtype))
    return grad * choose(x <= -3, 0, slope)


@pointwise(ref=lambda g, x: g * np.clip(x / 3 + 0.5, 0, 1) * (x > -3), samples=_near_zero,
           expose=("aten",), inplace=False)
def hardswish_backward(grad: Array, input: Array) -> Array:
    """Return the cotangent of hardswish's input.

    Its slope is 0 up to -3, linear in between, and 1 from 3 on.
    """
    return blockwise(_hardswish_slope, grad, input)


@hardswish_backward.vjp("grad")
def _(g: Tensor, input: Tensor) -> Tensor:
    return hardswish_backward(g, input)


@hardswish_backward.vjp("input")
def _(g: Tensor, grad: Tensor, input: Tensor) -> Tensor:
    return clamp_backward(g * grad, input, -3, 3) / 3


@composite(expose=("nn.functional",))
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply hard swish, input * hardsigmoid(input) (Howard 2019).

    >>> torch.nn.functional.hardswish(torch.tensor([-4., 1., 4.]))
    tensor([-0.0000,  0.6667,  4.0000])
    """
    return hardswish_operator.operator.twin(input) if inplace else hardswish_operator(input)


# ------------------------------------------------------------------------------- leaky


def _scale_negatives(x: np.ndarray, negative_slope: float) -> np.ndarray:
    if 0 <= negative_slope <= 1:
        return np.maximum(x, x * negative_slope)
    return choose(x > 0, x, x * negative_slope)


@pointwise(name="_leaky_relu", node="LeakyReluBackward0", expose=(), refuse=dtype_refusals.integers,
           ref=lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
           samples=_with(negative_slope=-0.3))
def leaky_relu_operator(input: Array, negative_slope: float = 0.01) -> Array:
    """Return input where it is positive, else negative_slope * input."""
    return blockwise(lambda x: _scale_negatives(x, negative_slope), input)


@leaky_relu_operator.vjp
def _(g: Tensor, input: Tensor, negative_slope: float) -> Tensor:
    return leaky_relu_backward(g, input, negative_slope)


@pointwise(ref=lambda g, x, negative_slope: np.where(x > 0, g, g * negative_slope), expose=(),
           samples=lambda rng: ((a, {"negative_slope": 0.2}) for a, _ in pairs_nonzero(rng)),
           inplace=False)
def leaky_relu_backward(grad: Array, input: Array, negative_slope: float) -> Array:
    """Return grad where input > 0, else negative_slope * grad."""
    return blockwise(lambda g, x: choose(x > 0, g, g * negative_slope), grad, input)


@leaky_relu_backward.vjp("grad")
def _(g: Tensor, input: Tensor, negative_slope: float) -> Tensor:
    return leaky_relu_backward(g, input, negative_slope)


@leaky_relu_backward.vjp("input")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


@composite(expose=("nn.functional",))
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Apply the leaky ReLU: input where it is positive, else negative_slope * input.

    >>> torch.nn.functional.leaky_relu(torch.tensor([-1., 2.]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return leaky_relu_(input, negative_slope) if inplace else leaky_relu_operator(
        input, negative_slope)


@writes_by_operators
@composite(expose=("nn.functional",))
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    y = leaky_relu_operator.operator.twin(input, negative_slope)
    return refuse_backward(y, negative_slope, "leaky_relu") if negative_slope < 0 else y


# ------------------------------------------------------------------------------- thresholds


def _threshold_samples(rng: Rng) -> Iterator[Sample]:
    for args, _ in real_line(rng):
        yield args, {"threshold": 0.3, "value": 2.0}


@pointwise(name="_threshold", node="ThresholdBackward0", expose=(), samples=_threshold_samples,
           ref=lambda x, threshold, value: np.where(x > threshold, x, value),
           refuse=dtype_refusals.complex_and_bool)
def threshold_operator(input: Array, threshold: Number, value: Number) -> Array:
    """Return input where it exceeds `threshold`, else `value`.

    >>> torch.threshold(torch.tensor([0., 1., 2.]), 1., 9.)
    tensor([9., 9., 2.])
    """
    # Comparing <= is false for NaN, so NaN stays NaN.
    return choose(np.less_equal(input, threshold), np.asarray(value).astype(input.dtype), input)


@threshold_operator.vjp
def _(g: Tensor, input: Tensor, threshold: Number) -> Tensor:
    return threshold_backward(g, input, threshold)


@composite(expose=("nn.functional",))
def threshold(input: Tensor, threshold: Number, value: Number, inplace: bool = False) -> Tensor:
    """Return input where it exceeds `threshold`, else `value`.

    >>> torch.nn.functional.threshold(torch.tensor([0.5, 2.]), 1, 0)
    tensor([0., 2.])
    """
    call = threshold_operator.operator.twin if inplace else threshold_operator
    return call(input, threshold, value)


publish(threshold_operator, ("threshold",), ("torch",))
_publish_twin(threshold_operator, "threshold", ("torch", "nn.functional"))


@pointwise(ref=lambda x, lambd=0.5: x * (np.abs(x) > lambd), samples=_with(lambd=1.0),
           expose=("torch", "Tensor", "nn.functional"), inplace=False,
           refuse=dtype_refusals.integers, rounds_settings=True)
def hardshrink(input: Array, lambd: Number = 0.5) -> Array:
    """Return input where |input| > lambd, else 0.

    >>> torch.nn.functional.hardshrink(torch.tensor([-1., 0.3, 2.]))
    tensor([-1.,  0.,  2.])
    """
    return choose(~(np.abs(input) <= lambd), input, 0)


@hardshrink.vjp
def _(g: Tensor, input: Tensor, lambd: Number) -> Tensor:
    bound = round_setting(lambd, input._array.dtype)
    return g - clamp_backward(g, input, -bound, bound, closed=True)


@pointwise(ref=lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0),
           samples=_with(lambd=1.0), expose=("nn.functional",), inplace=False,
           refuse=dtype_refusals.integers)
def softshrink(input: Array, lambd: float = 0.5) -> Array:
    """Shrink the input toward 0 by lambd: sign(input) * max(|input| - lambd, 0).

    Raises RuntimeError if lambd is negative.

    >>> torch.nn.functional.softshrink(torch.tensor([-1., 0.3, 2.]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    if not 0 <= lambd <= float(np.finfo(np.float32).max):
        kind = legacy_name(FROM_NUMPY[input.dtype])
        raise RuntimeError(
            f"lambda must be in range [0, 3.40282e+38] for input dtype {kind}, but found {lambd}"
        )
    return input - np.minimum(np.maximum(input, -lambd), lambd)


@softshrink.vjp
def _(g: Tensor, input: Tensor, lambd: float) -> Tensor:
    bound = round_setting(lambd, input._array.dtype)
    return g - clamp_backward(g, input, -bound, bound, closed=True)
