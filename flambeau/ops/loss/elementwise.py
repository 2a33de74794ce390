"""Elementwise losses: differences from the target, divergences, logistic and hinge margins.

Binary cross entropy is in binary_losses.py, cross entropy over classes in cross_entropy.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...autograd.tangents import skip_missing, sum_terms
from ...native.foundation.user_frames import warn
from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS
from ...tensor.capture_marks import are_nonnegative, holds
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.promotion import build_missing_kernel_error, legacy_name, result_dtype
from ...tensor.tensor import Tensor
from ..core.arguments.checks import require_bool
from ..core.autocast import Policy, make_autocasting
from ..core.errors import broadcast_mismatch
from ..core.operator import Array, Number, publish
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import Declared, composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..native.pointwise import try_kernel_with
from ..native.rows import sum_of
from ..pointwise.selection import where
from .reduction import MEAN, NONE, SUM, parse_reduction, reduce_tensor, share


def _cast_pair(input: Array, target: Array, name: str) -> tuple[Array, Array]:
    """Return both in their common dtype; NotImplementedError unless that is a real float."""
    kind = find_common_dtype(input, target)
    if not FROM_NUMPY[kind].is_floating_point:
        raise build_missing_kernel_error(f"{name}_cpu", kind)
    inside = compute_dtype(kind)
    return input.astype(inside, copy=False), target.astype(inside, copy=False)


def find_common_dtype(input: Array, target: Array) -> np.dtype:
    if input.dtype == target.dtype:
        return input.dtype
    return result_dtype((input, target)).numpy


def reduce_losses(y: Array, reduction: int, kind: np.dtype) -> Array:
    if reduction == NONE:
        return np.asarray(y, kind)
    total = np.add.reduce(y, None)
    if reduction == MEAN:
        total = total / y.size if y.size else np.nan
    return np.asarray(total, kind)


def _reduce_large(formula: Any, x: Array, t: Array, reduction: int) -> Any:
    """Compute and reduce a formula on large arrays with a kernel; None if there is none."""
    if reduction == NONE:
        return try_kernel_with(formula, (x, t), (), {}) if x.shape == t.shape else None
    total = sum_of(formula, x, t)
    return total / x.size if total is not None and reduction == MEAN else total


# ---------------------------------------------------------------- losses of input - target


def _push_difference(
    rise: Any, pair: tuple[Array, Array], tangents: tuple[Array | None, Array | None],
    reduction: int, parameter: float, kind: np.dtype,
) -> Array:
    """The tangent of a difference loss in one pass over the arrays, if a kernel supports it.

    rise: the derivative by the difference.
    """
    x = pair[0]
    input_t, target_t = (
        None if t is None else t.astype(x.dtype, copy=False) for t in tangents)

    def of_input(x: Any, t: Any, x_t: Any) -> Any:
        return rise(x - t, parameter) * x_t

    def of_target(x: Any, t: Any, t_t: Any) -> Any:
        return rise(t - x, parameter) * t_t

    def of_both(x: Any, t: Any, x_t: Any, t_t: Any) -> Any:
        return rise(x - t, parameter) * (x_t - t_t)

    formula = of_input if target_t is None else of_target if input_t is None else of_both
    operands = (*pair, *(t for t in (input_t, target_t) if t is not None))
    if x.size > MAX_NUMPY_POINTWISE_ELEMENTS and x.__class__ is np.ndarray:
        total = None
        if reduction != NONE:
            total = sum_of(formula, *operands)
            total = total / x.size if total is not None and reduction == MEAN else total
        elif all(a.shape == x.shape for a in operands):
            total = try_kernel_with(formula, operands, (), {})
        if total is not None:
            return np.asarray(total, kind)
    return reduce_losses(formula(*operands), reduction, kind)


def _differences(parameter: float) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        for number in (NONE, MEAN, SUM):
            yield (rng.normal(size=(3, 4)) * 3, rng.normal(size=(3, 4)), number, parameter), {}

    return samples


def _reference(formula: Any) -> Callable[..., Any]:
    def ref(x: np.ndarray, t: np.ndarray, reduction: int, parameter: float) -> np.ndarray:
        y = formula(x - t, parameter)
        return (y, y.mean(), y.sum())[reduction]

    return ref


def _derive_difference_loss(result: Declared, slope: Callable[..., Tensor], push: Any) -> None:
    """Declare the loss's derivatives; `push` computes tangents that need no derivative."""

    @result.vjp("input")
    def _(g: Tensor, input: Tensor, target: Tensor, reduction: str, parameter: float) -> Tensor:
        return slope(input - target, g, reduction, parameter)

    @result.vjp("target")
    def _(g: Tensor, input: Tensor, target: Tensor, reduction: str, parameter: float) -> Tensor:
        return slope(target - input, g, reduction, parameter)

    @result.jvp
    def _(
        input_t: Tensor | None, target_t: Tensor | None, y: Tensor, input: Tensor,
        target: Tensor, reduction: int, parameter: Any,
    ) -> Tensor:
        if not MODE.grad:
            return push(input, target, input_t, target_t, reduction, parameter)
        t: Any = sum_terms(input_t, skip_missing(lambda t: -t, target_t))
        t = t.to(y.dtype)
        if reduction == NONE:
            return slope(input - target, t, reduction, parameter)
        row = slope(input - target, y.new_ones(()), reduction, parameter)
        return row.reshape(-1) @ t.reshape(-1)


def _declare_difference_loss(
    name: str, node: str, parameter: float, formula: Any
) -> Callable[..., Any]:
    """Declare an operator (input, target, reduction, parameter) of the difference alone.

    Decorates a function returning (forward, slope, rise): forward overwrites differences with
    losses; slope is the derivative times the cotangent, in operators; rise the derivative on
    arrays.
    """

    def decorate(parts: Any) -> Any:
        forward, slope, rise = parts()

        def body(input: Array, target: Array, reduction: int, parameter: float) -> Array:
            kind = find_common_dtype(input, target)
            if input.size > MAX_NUMPY_POINTWISE_ELEMENTS and input.__class__ is np.ndarray \
                    and input.dtype == target.dtype:
                y = _reduce_large(lambda a, b: forward(a - b, parameter), input, target, reduction)
                if y is not None:
                    return np.asarray(y, kind)
            x, t = _cast_pair(input, target, name)
            return reduce_losses(forward(x - t, parameter), reduction, kind)

        body.__doc__ = parts.__doc__
        result = opaque(layout=Layout.ITERATOR, name=f"_{name}_loss", node=node, expose=(),
                        ref=_reference(formula), reduces=True,
                        samples=_differences(parameter))(body)

        @opaque(layout=Layout.FREE, name=f"_{name}_loss_tangent", expose=(), reduces=True,
                differentiable=False, ref=None, samples=None)
        def push(
            input: Array, target: Array, input_t: Array | None, target_t: Array | None,
            reduction: int, parameter: float,
        ) -> Array:
            """Return the tangent of the loss, given those of input and target."""
            kind = find_common_dtype(input, target)
            return _push_difference(
                rise, _cast_pair(input, target, name), (input_t, target_t), reduction, parameter,
                kind)

        _derive_difference_loss(result, slope, push)
        return result

    return decorate


@_declare_difference_loss("mse", "MseLossBackward0", 0.0, lambda d, _: d * d)
def _mse() -> tuple[Callable[..., Any], ...]:
    """Squared differences."""

    def forward(d: np.ndarray, _: float) -> np.ndarray:
        return np.multiply(d, d, out=d) if d.ndim else d * d

    def slope(d: Tensor, g: Tensor, reduction: int, _: float) -> Tensor:
        return d * share(g, reduction, d._array.size, 2.0)

    def rise(d: np.ndarray, _: float) -> np.ndarray:
        return d + d

    return forward, slope, rise


@_declare_difference_loss("smooth_l1", "SmoothL1LossBackward0", 0.7,
                          lambda d, b: np.where(abs(d) < b, d * d / (2 * b), abs(d) - b / 2))
def _smooth_l1() -> tuple[Callable[..., Any], ...]:
    """Squared differences below beta, absolute differences above."""

    def forward(d: np.ndarray, beta: float) -> np.ndarray:
        z = np.abs(d)
        return np.where(z < beta, 0.5 / beta * z * z, z - 0.5 * beta)

    def slope(d: Tensor, g: Tensor, reduction: int, beta: float) -> Tensor:
        return (d / beta).clamp(-1, 1) * share(g, reduction, d._array.size)

    def rise(d: np.ndarray, beta: float) -> np.ndarray:
        return np.minimum(np.maximum(d / beta, -1), 1)

    return forward, slope, rise


@_declare_difference_loss("huber", "HuberLossBackward0", 1.3,
                          lambda d, b: np.where(abs(d) <= b, d * d / 2, b * (abs(d) - b / 2)))
def _huber() -> tuple[Callable[..., Any], ...]:
    """Half the squared differences below delta, linear above."""

    def forward(d: np.ndarray, delta: float) -> np.ndarray:
        z = np.abs(d)
        return np.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))

    def slope(d: Tensor, g: Tensor, reduction: int, delta: float) -> Tensor:
        return d.clamp(-delta, delta) * share(g, reduction, d._array.size)

    def rise(d: np.ndarray, delta: float) -> np.ndarray:
        return np.minimum(np.maximum(d, -delta), delta)

    return forward, slope, rise


def _match(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcast both to one shape, with a warning if they differ."""
    if input._array.shape == target.shape:
        return input, target
    warn(
        f"Using a target size ({target.size()}) that is different to the input size "
        f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
    )
    try:
        shape = np.broadcast_shapes(input._array.shape, target._array.shape)
    except ValueError:

        raise RuntimeError(
            broadcast_mismatch([input._array.shape, target._array.shape])
        ) from None
    return input.expand(shape), target.expand(shape)


def _weigh(losses: Tensor, weight: Tensor, input: Tensor, reduction: str, mean: Any) -> Tensor:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    y = losses * weight
    if reduction == "none":
        return y
    if reduction == "sum":
        return y.sum()
    if reduction == "mean":
        return mean(y)
    raise ValueError(
        f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'."
    )


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """Compute the mean squared error, (input - target) ** 2.

    >>> torch.nn.functional.mse_loss(torch.tensor([1., 3.]), torch.tensor([0., 0.]))
    tensor(5.)
    """
    input, target = _match(input, target)
    if weight is not None:
        return _weigh(_mse(input, target, NONE, 0.0), weight, input, reduction,
                      lambda y: y.sum() / weight.sum())
    return _mse(input, target, parse_reduction(reduction, size_average, reduce), 0.0)


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """Compute the mean absolute error, |input - target|.

    >>> torch.nn.functional.l1_loss(torch.tensor([1., 3.]), torch.tensor([0., 0.]))
    tensor(2.)
    """
    input, target = _match(input, target)
    losses = (input - target).abs()
    if weight is not None:
        return _weigh(losses, weight, input, reduction, lambda y: y.sum() / weight.sum())
    return reduce_tensor(losses, parse_reduction(reduction, size_average, reduce))


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Compute a loss that is quadratic for errors below `beta` and linear above.

    With d = |input - target|: d ** 2 / (2 * beta) below, d - beta / 2 above.

    >>> x = torch.tensor([0.5, 4.])
    >>> torch.nn.functional.smooth_l1_loss(x, torch.zeros(2), reduction="none")
    tensor([0.1250, 3.5000])
    """
    input, target = _match(input, target)
    number = parse_reduction(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return reduce_tensor((input - target).abs(), number)
    return _smooth_l1(input, target, number, beta)


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None
) -> Tensor:
    """Compute a loss that is quadratic for errors below `delta` and linear above.

    With d = |input - target|: d ** 2 / 2 below, delta * (d - delta / 2) above.

    >>> torch.nn.functional.huber_loss(torch.tensor([1., 4.]), torch.zeros(2), "none", delta=2.)
    tensor([0.5000, 6.0000])
    """
    input, target = _match(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is not None:
        return _weigh(_huber(input, target, NONE, delta), weight, input, reduction,
                      lambda y: y.mean())
    return _huber(input, target, parse_reduction(reduction), delta)


# ------------------------------------------------------------------------ other divergences


def _kl_div(input: Tensor, target: Tensor, number: int | str, log_target: bool) -> Tensor:
    if not (input.is_floating_point() and target.is_floating_point()):
        kind = "Integral" if not input.is_complex() else "Complex"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    if log_target:
        y = target.exp() * (target - input)
    else:
        y = target.xlogy(target) - target * input
    return reduce_tensor(y, number)


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: int | str = "mean", log_target: bool = False
) -> Tensor:
    """Compute the Kullback-Leibler divergence, target * (log(target) - input).

    `input` holds log probabilities. reduction="batchmean" divides the sum by the batch size, which
    matches the mathematical definition.

    Args:
        input: Log probabilities.
        target: Probabilities, or their logarithms with `log_target`.
        reduction: 'batchmean', 'mean' or 'sum' of the losses, or 'none' for each of them.

    >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
    >>> torch.nn.functional.kl_div(q.log(), p, reduction="batchmean")
    tensor(0.1438)
    """
    if reduction == "mean" and size_average is None and reduce is None:
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release.",
        )
    by_batch = reduction == "batchmean"
    require_bool("kl_div", "log_target", log_target)
    number = parse_reduction("sum" if by_batch else reduction, size_average, reduce)
    y = _kl_div(input, target, number, log_target)
    return y / input.size()[0] if by_batch and input.dim() else y


def _torch_kl_div(
    input: Tensor, target: Tensor, reduction: int | str = NONE, *, log_target: bool = False
) -> Tensor:
    """Compute the Kullback-Leibler divergence, with the reduction as a number.

    Args:
        input: Log probabilities.
        target: Probabilities, or their logarithms with `log_target`.
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.

    >>> p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    >>> torch.kl_div(q.log(), p, reduction=2)
    tensor(0.1438)
    """
    return _kl_div(input, target, reduction, log_target)


publish(make_autocasting("kl_div", _torch_kl_div, Policy.FULL), ("kl_div",), ("torch",))


def _poisson(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: Number | Tensor, reduction: int
) -> Tensor:
    """Compute the Poisson negative log likelihood, with the reduction as a number.

    Args:
        input: The logarithms of the rates, or the rates.
        target: The counts.
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.

    >>> torch.poisson_nll_loss(torch.zeros(2), torch.ones(2), True, False, 1e-8, 1)
    tensor(1.)
    """
    if log_input:
        y = input.exp() - target * input
    else:
        y = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        y = y + stirling.masked_fill(target <= 1, 0)
    return reduce_tensor(y, reduction)


publish(make_autocasting("poisson_nll_loss", _poisson, Policy.FULL), ("poisson_nll_loss",),
        ("torch",))


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
    reduction: int | str = "mean"
) -> Tensor:
    """Compute the negative log likelihood of counts under a Poisson distribution.

    `full` adds Stirling's approximation of log(target!) for targets above 1.

    Args:
        input: The logarithms of the rates, or the rates.
        target: The counts.
        eps: A small number that is added to rates before their logarithm is taken.

    >>> torch.nn.functional.poisson_nll_loss(torch.zeros(2), torch.ones(2))
    tensor(1.)
    """
    number = parse_reduction(reduction, size_average, reduce)
    return _poisson(input, target, log_input, full, eps, number)


def _expand_variance(input: Tensor, var: Any) -> Tensor:
    """Return the variance in a shape that broadcasts with the input; ValueError otherwise."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * input.new_ones(input.size())
    elif not holds(var, are_nonnegative):
        raise ValueError("var has negative entry/entries")
    if var.size() == input.size():
        return var
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    if input.dim() == var.dim():
        other = [n for m, n in zip(input.size(), var.size(), strict=True) if m != n]
        if sum(other) == 1:
            return var
    raise ValueError("var is of incorrect size")


@composite(expose=("nn.functional",), explains=True)
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool | None = False,
    eps: float | None = 1e-6, reduction: str | None = "mean"
) -> Tensor:
    """Compute the negative log likelihood of targets under normal distributions N(input, var).

    `var` has the shape of `input`, or length 1 along the last axis. It is clamped to at least
    `eps` without affecting its gradient.

    Args:
        input: The means.
        eps: The least variance that counts.

    >>> torch.nn.functional.gaussian_nll_loss(torch.zeros(2), torch.tensor([1., 3.]), torch.ones(2))
    tensor(2.5000)
    """
    var = _expand_variance(input, var)
    number = parse_reduction(reduction) if reduction in ("none", "mean", "sum") else None
    if number is None:
        raise ValueError(f"{reduction} is not valid")
    clamped = var + (var.detach().clamp(min=eps) - var.detach())
    y = 0.5 * (clamped.log() + (input - target) ** 2 / clamped)
    if full:
        y = y + 0.5 * math.log(2 * math.pi)
    return reduce_tensor(y, number)


@opaque(reduces=True,
        layout=Layout.ITERATOR, name="_soft_margin_loss", node="SoftMarginLossBackward0", expose=(),
        ref=lambda x, t, r: [f(np.log(1 + np.exp(-t * x))) for f in (np.array, np.mean, np.sum)][r],
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), r), {})
                                  for r in range(3)]))
def _soft_margin(input: Array, target: Array, reduction: int) -> Array:
    """log(1 + exp(-target * input))."""
    if not FROM_NUMPY[input.dtype].is_floating_point:
        raise RuntimeError(
            "result type Float can't be cast to the desired output type "
            f"{legacy_name(FROM_NUMPY[input.dtype])}"
        )
    kind = find_common_dtype(input, target)
    y = -(target.astype(compute_dtype(kind), copy=False) * input)
    return reduce_losses(np.log1p(np.exp(y)), reduction, kind)


@_soft_margin.vjp("input")
def _(g: Tensor, input: Tensor, target: Tensor, reduction: int) -> Tensor:
    y = (-target * (-(target * input)).sigmoid()) * share(g, reduction, input._array.size)
    return y.sum_to_size(input.shape)


@_soft_margin.vjp("target")
def _(g: Tensor, input: Tensor, target: Tensor, reduction: int) -> Tensor:
    y = (-input * (-(target * input)).sigmoid()) * share(g, reduction, input._array.size)
    return y.sum_to_size(target.shape)


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean"
) -> Tensor:
    """Compute the logistic loss, log(1 + exp(-target * input)), for labels 1 or -1.

    Args:
        input: Scores.
        target: 1 or -1 for each of them.

    >>> torch.nn.functional.soft_margin_loss(torch.zeros(2), torch.tensor([1., -1.]))
    tensor(0.6931)
    """
    return _soft_margin(input, target, parse_reduction(reduction, size_average, reduce))


def _hinge_embedding(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int | str = NONE
) -> Tensor:
    """Return the hinge embedding loss, with the reduction as a number.

    Each loss is input where the target is 1, max(0, margin - input) where it is -1.

    Args:
        input: Distances.
        target: 1 or -1 for each of them.
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.

    >>> torch.hinge_embedding_loss(torch.tensor([0.25]), torch.tensor([-1.]), reduction=1)
    tensor(0.7500)
    """
    hinge = (margin - input).clamp_min(0)
    y = where(target != 1, hinge, 0) + where(target != -1, input, 0)
    return reduce_tensor(y, reduction)


publish(make_autocasting("hinge_embedding_loss", _hinge_embedding, Policy.FULL),
        ("hinge_embedding_loss",), ("torch",))


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: int | str = "mean"
) -> Tensor:
    """Return the distance of pairs with target 1, max(0, margin - distance) with target -1.

    Args:
        input: Distances.
        target: 1 or -1 for each of them.

    >>> torch.nn.functional.hinge_embedding_loss(torch.tensor([0.25]), torch.tensor([-1]))
    tensor(0.7500)
    """
    number = parse_reduction(reduction, size_average, reduce)
    return _hinge_embedding(input, target, margin, number)
