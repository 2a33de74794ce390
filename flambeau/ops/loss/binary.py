"""Binary cross entropy, of probabilities and of logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.foundation.user_frames import add_notes
from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.promotion import build_missing_kernel_error, legacy_name
from ...tensor.random.distributions import is_within_unit
from ...tensor.tensor import Tensor
from ..core.autocast import Policy, make_autocasting
from ..core.operator import Array, publish
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..core.value_rules import ValueRule
from ..native.pointwise import try_kernel
from .elementwise import find_common_dtype, reduce_losses
from .reduction import MEAN, NONE, SUM, parse_reduction, reduce_tensor, share


def _probabilities(rng: Rng) -> Iterator[Sample]:
    for number in (NONE, MEAN, SUM):
        yield (rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0.1, 0.9, (3, 4)), None, number), {}
    weight = rng.uniform(0.5, 2, (3, 4))
    yield (rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0.1, 0.9, (3, 4)), weight, MEAN), {}


def _advise_on_dtype(input: Array, target: Array) -> str | None:
    """What to do about a target whose dtype does not fit."""
    if input.dtype.kind in "iub" and target.dtype.kind == "f":
        return "The input is integers, the target floats: are they swapped? loss(input, target)"
    if target.dtype.kind in "iub":
        return f"The target is {FROM_NUMPY[target.dtype]}: pass target.float()."
    return None


def _advise_on_range(name: str, values: Array) -> str:
    """What to do about values that are no probabilities."""
    text = f"They run from {values.min():.4g} to {values.max():.4g}."
    if name == "input":
        text += " For outputs without a sigmoid there is binary_cross_entropy_with_logits."
    return text


def _advise_on_shapes(input: Tensor, target: Tensor) -> str | None:
    """What to do about an axis of length 1 that one of two has."""
    shapes = tuple(input.shape), tuple(target.shape)
    if shapes[0] == (*shapes[1], 1):
        return "The target lacks the last axis: target.unsqueeze(1), or input.squeeze(1)."
    if shapes[1] == (*shapes[0], 1):
        return "The target has an axis of length 1 too many: target.squeeze(1)."
    return None


def _bce_reference(
    x: np.ndarray, t: np.ndarray, weight: np.ndarray | None, reduction: int
) -> np.ndarray:
    y = -(t * np.log(x) + (1 - t) * np.log(1 - x)) * (1 if weight is None else weight)
    return (y, y.mean(), y.sum())[reduction]


def _are_probabilities(input: Array, target: Array, *_: Any) -> bool:
    return input.dtype != target.dtype or bool(is_within_unit(input) and is_within_unit(target))


@opaque(layout=Layout.ITERATOR, reduces=True,
        name="_binary_cross_entropy", node="BinaryCrossEntropyBackward0", expose=(),
        constant_inputs=("weight",),
        ref=_bce_reference, samples=_probabilities,
        values=ValueRule(("input", "target"), _are_probabilities))
def _bce(input: Array, target: Array, weight: Array | None, reduction: int) -> Array:
    """-(target log(input) + (1 - target) log(1 - input)), logarithms kept above -100."""
    if target.dtype != input.dtype:
        kinds = [legacy_name(FROM_NUMPY[a.dtype]) for a in (target, input)]
        raise add_notes(RuntimeError(f"Found dtype {kinds[0]} but expected {kinds[1]}"),
                        _advise_on_dtype(input, target))
    if not FROM_NUMPY[input.dtype].is_floating_point:
        raise build_missing_kernel_error("binary_cross_entropy", input.dtype)
    for name, a in (("input", input), ("target", target)):
        if not is_within_unit(a):
            raise add_notes(RuntimeError(f"all elements of {name} should be between 0 and 1"),
                            _advise_on_range(name, a))
    inside = compute_dtype(input.dtype)
    x, t = input.astype(inside, copy=False), target.astype(inside, copy=False)
    y = (t - 1) * np.maximum(np.log1p(-x), -100) - t * np.maximum(np.log(x), -100)
    return reduce_losses(y if weight is None else y * weight, reduction, input.dtype)


@_bce.vjp("input")
def _(g: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    slope = (input - target) / (input * (1 - input)).clamp_min(1e-12)
    slope = slope if weight is None else slope * weight
    return slope * share(g, reduction, input._array.size)


@_bce.vjp("target")
def _(g: Tensor, input: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    slope = (1 - input).log() - input.log()
    slope = slope if weight is None else slope * weight
    return slope * share(g, reduction, input._array.size)


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Compute the binary cross entropy of probabilities and targets in [0, 1].

    Raises RuntimeError for values out of range.

    Args:
        input: Probabilities, in [0, 1].
        target: The targets, in [0, 1], of the shape of `input`.

    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.]))
    tensor(0.6931)
    """
    number = parse_reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise add_notes(ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        ), _advise_on_shapes(input, target))
    if weight is not None:
        weight = weight.expand(np.broadcast_shapes(target._array.shape, weight._array.shape))
    return _bce(input, target, weight, number)


def _logits(rng: Rng) -> Iterator[Sample]:
    for number in (NONE, MEAN, SUM):
        yield (rng.normal(size=(3, 4)) * 3, rng.random((3, 4)), None, None, number), {}
    yield (rng.normal(size=(3, 4)), rng.random((3, 4)), rng.random(4), rng.random(4), MEAN), {}


def _logits_reference(
    x: np.ndarray, t: np.ndarray, weight: np.ndarray | None, pos_weight: np.ndarray | None,
    reduction: int
) -> np.ndarray:
    p = 1 / (1 + np.exp(-x))
    y = -((1 if pos_weight is None else pos_weight) * t * np.log(p) + (1 - t) * np.log(1 - p))
    y = y * (1 if weight is None else weight)
    return (y, y.mean(), y.sum())[reduction]


def _negative_log_sigmoid(x: Array) -> Array:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0)


def _logit_entropy(x: Array, t: Array) -> Array:
    return _negative_log_sigmoid(x) + (1 - t) * x


@opaque(layout=Layout.ITERATOR, reduces=True,
        name="_binary_cross_entropy_with_logits", node="BinaryCrossEntropyWithLogitsBackward0",
        expose=(), ref=_logits_reference, samples=_logits)
def _bce_logits(
    input: Array, target: Array, weight: Array | None, pos_weight: Array | None, reduction: int
) -> Array:
    """Binary cross entropy of sigmoid(input), without overflow.

    Args:
        input: Logits.
        target: The targets, in [0, 1], of the shape of `input`.
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.
    """
    if not FROM_NUMPY[input.dtype].is_floating_point:
        raise build_missing_kernel_error("log_sigmoid_cpu", input.dtype)
    if not FROM_NUMPY[target.dtype].is_floating_point:
        kinds = [legacy_name(FROM_NUMPY[a.dtype]) for a in (input, target)]
        raise add_notes(RuntimeError(
            f"result type {kinds[0]} can't be cast to the desired output type {kinds[1]}"
        ), _advise_on_dtype(input, target))
    inside = compute_dtype(find_common_dtype(input, target))
    x, t = input.astype(inside, copy=False), target.astype(inside, copy=False)
    if pos_weight is None:
        is_large = x.size > MAX_NUMPY_POINTWISE_ELEMENTS and x.shape == t.shape
        y = try_kernel(_logit_entropy, x, t) if is_large else None
        y = _logit_entropy(x, t) if y is None else y
    else:
        positive_weight = (pos_weight.astype(inside, copy=False) - 1) * t + 1
        y = _negative_log_sigmoid(x) * positive_weight + (1 - t) * x
    return reduce_losses(y if weight is None else y * weight, reduction, target.dtype)


@_bce_logits.vjp("input")
def _(
    g: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None,
    reduction: int
) -> Tensor:
    if pos_weight is None:
        slope = input.sigmoid() - target
    else:
        positive = pos_weight * target
        slope = (positive + 1 - target) * input.sigmoid() - positive
    slope = slope if weight is None else slope * weight
    return slope * share(g, reduction, input._array.size)


@_bce_logits.vjp("target")
def _(
    g: Tensor, input: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    slope = -input
    if pos_weight is not None:
        slope = slope + (pos_weight - 1) * _softplus(-input)
    slope = slope if weight is None else slope * weight
    return slope * share(g, reduction, input._array.size)


@_bce_logits.vjp("weight")
def _(
    g: Tensor, input: Tensor, target: Tensor, pos_weight: Tensor | None,
    weight_shape: tuple[int, ...], reduction: int
) -> Tensor:
    losses = _bce_logits(input, target, None, pos_weight, NONE)
    return (losses * share(g, reduction, input._array.size)).sum_to_size(weight_shape)


@_bce_logits.vjp("pos_weight")
def _(
    g: Tensor, input: Tensor, target: Tensor, weight: Tensor | None,
    pos_weight_shape: tuple[int, ...], reduction: int
) -> Tensor:
    slope = target * _softplus(-input)
    slope = slope if weight is None else slope * weight
    return (slope * share(g, reduction, input._array.size)).sum_to_size(pos_weight_shape)


def _softplus(x: Tensor) -> Tensor:
    return x.clamp_min(0) + (-x.abs()).exp().log1p()


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: int | str = "mean", pos_weight: Tensor | None = None
) -> Tensor:
    """Compute the binary cross entropy of sigmoid(input) and targets in [0, 1], stably.

    Args:
        input: Logits.
        target: The targets, in [0, 1], of the shape of `input`.

    >>> f = torch.nn.functional.binary_cross_entropy_with_logits
    >>> f(torch.tensor([0.]), torch.tensor([1.]))
    tensor(0.6931)
    """
    number = parse_reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise add_notes(ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        ), _advise_on_shapes(input, target))
    return _bce_logits(input, target, weight, pos_weight, number)


def _torch_bce_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int | str = NONE
) -> Tensor:
    """Compute the binary cross entropy of sigmoid(input), with the reduction as a number.

    The number is 0 for "none", 1 for "mean", 2 for "sum".

    >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.ones(2), None, None, 1)
    tensor(0.6931)
    """
    return _bce_logits(input, target, weight, pos_weight, reduction)


publish(make_autocasting("binary_cross_entropy_with_logits", _torch_bce_logits, Policy.FULL),
        ("binary_cross_entropy_with_logits",), ("torch",))


@composite(expose=("nn.functional",), explains=True)
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Compute the binary cross entropy with logits, averaged over classes along the last axis.

    Args:
        input: Logits, (n, classes) or (classes,).
        target: 0 or 1 for each of them.

    >>> labels = torch.tensor([[1., 0., 1.]])
    >>> torch.nn.functional.multilabel_soft_margin_loss(torch.zeros(1, 3), labels)
    tensor(0.6931)
    """
    number = parse_reduction(reduction, size_average, reduce)
    shape = np.broadcast_shapes(input._array.shape, target._array.shape)
    y = _bce_logits(input.expand(shape), target.to(input.dtype).expand(shape), None, None, NONE)
    if weight is not None:
        y = y * weight
    return reduce_tensor(y.sum(-1) / input.size(-1), number)
