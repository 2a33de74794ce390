"""Cross entropy and negative log likelihood: classes by index or by probability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.foundation.user_frames import add_notes
from ...native.runtime.background_jit import KernelPolicy
from ...native.runtime.fast_call import FastCalls
from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS, MAX_SMALL_ELEMENTS
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.promotion import build_missing_kernel_error, legacy_name
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..activation.softmax import log_softmax, log_softmax_backward, push_log_softmax
from ..core.arguments.checks import require_int
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque, repeats_operators
from ..core.sample_inputs import Rng, Sample
from ..indexing.gather import are_all_below
from ..native.pointwise import try_kernel
from ..native.small_arrays import CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD
from .batched_rows import batch_fused, batch_likelihood, join_rows, shares_of
from .reduction import MEAN, NONE, parse_reduction

_INT64 = np.dtype(np.int64)
_ndarray = np.ndarray


# ---------------------------------------------------------------- classes given by their index


def _locate(target: Array, classes: int, ignore_index: float) -> tuple[Array, Array | None]:
    """Return class indices that are safe to look up, and which rows count (None: all)."""
    t = target if target.dtype is _INT64 else target.astype(np.int64)
    if not t.size:
        return t, None
    inside = not 0 <= ignore_index < classes
    if inside and are_all_below(t, classes):
        return t, None
    valid = t != ignore_index
    t = np.where(valid, t, 0)
    is_invalid = t.view(np.uint64) >= classes
    if is_invalid.any():
        labels = target if target.dtype is _INT64 else target.astype(np.int64)
        raise add_notes(IndexError(f"Target {t[is_invalid].flat[0]} is out of bounds."),
                        _advise_on_labels(labels, is_invalid, classes))
    return t, valid


def _weigh_rows(t: Array, valid: Array | None, weight: Array | None) -> Array | None:
    """Return the weight of each row's loss; None if all are 1."""
    if weight is None:
        return None if valid is None else valid.astype(np.float32)
    return weight[t] if valid is None else np.where(valid, weight[t], 0)


def _sum_factors(t: Array, factors: Array | None) -> float:
    return t.size if factors is None else np.add.reduce(factors, None)


def _pick(x: Array, t: Array) -> Array:
    """Return the entry of each row's class; classes lie along axis 1, or 0 for a single row."""
    if x.ndim == 2:
        return x[np.arange(len(t)), t]
    if x.ndim == 1:
        return x[t]
    return np.take_along_axis(x, t[:, None], 1)[:, 0]


def _count_classes(shape: tuple[int, ...]) -> int:
    return shape[0] if len(shape) == 1 else shape[1]


def _reduce_likelihood(
    x: Array, target: np.ndarray, weight: np.ndarray | None, reduction: int, ignore_index: float,
    kind: np.dtype
) -> Array:
    """Return minus the rows' entries at their targets, weighted and reduced."""
    t, valid = _locate(target, _count_classes(x.shape), ignore_index)
    selected, factors = _pick(x, t), _weigh_rows(t, valid, weight)
    if factors is not None:
        selected = np.where(factors == 0, 0, selected * factors) if valid is not None \
            else selected * factors
    if reduction == NONE:
        return np.negative(selected).astype(kind, copy=False)
    y = -np.add.reduce(selected, None)
    if reduction == MEAN:
        total = _sum_factors(t, factors)
        if not total:
            return np.array(np.nan, kind)
        y = y / selected.dtype.type(total)
    return np.asarray(y, kind)


def _compute_coefficients(
    g: Array, target: np.ndarray, weight: np.ndarray | None, reduction: int, ignore_index: float,
    classes: int, kind: np.dtype
) -> tuple:
    """Return class indices, and each row's cotangent: an array like the target, or one number."""
    t, valid = _locate(target, classes, ignore_index)
    factors = _weigh_rows(t, valid, weight)
    if reduction == MEAN:
        total = _sum_factors(t, factors)
        g = g / kind.type(total) if total else g * 0
    g = g.astype(kind, copy=False)
    return t, g if factors is None else (g * factors).astype(kind, copy=False)


def _likelihoods(rng: Rng) -> Iterator[Sample]:
    for number, ignore in ((0, -100), (1, -100), (2, 1)):
        yield (rng.normal(size=(3, 4)), rng.integers(0, 4, 3), None, number, ignore), {}
    yield (rng.normal(size=(2, 4, 3)), rng.integers(0, 4, (2, 3)), None, 1, -100), {}
    yield (rng.normal(size=4), np.asarray(2), None, 1, -100), {}


def _nll_reference(
    x: np.ndarray, target: np.ndarray, weight: None, reduction: int, ignore_index: int
) -> np.ndarray:
    rows = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1]) if x.ndim > 1 else x[None]
    valid = target.reshape(-1) != ignore_index
    y = np.array([-r[t] if k else 0 for r, t, k in zip(rows, target.reshape(-1), valid)])  # noqa: B905
    if reduction == 0:
        return y.reshape(target.shape)
    return y.sum() / valid.sum() if reduction == 1 else y.sum()


def _cross_reference(x: np.ndarray, *rest: Any) -> tuple[np.ndarray, np.ndarray]:
    axis = 1 if x.ndim > 1 else 0
    y = x - np.log(np.exp(x).sum(axis, keepdims=True))
    return _nll_reference(y, *rest), y


def _declare_likelihood(name: str, node: str) -> Any:
    @opaque(linear_in="input", name=name, node=node, expose=(), ref=_nll_reference,
            samples=_likelihoods, labels="target", constant_inputs=("weight",),
            torch_kernel=f"nll_loss{'2d' * name.endswith('2d')}_forward")
    def body(
        input: Array, target: Array, weight: Array | None, reduction: int, ignore_index: float
    ) -> Array:
        """Return minus the input's entries at the targets, weighted and reduced."""
        inside = compute_dtype(input.dtype)
        x = input.astype(inside, copy=False)
        return _reduce_likelihood(x, target, weight, reduction, ignore_index, input.dtype)

    batch_likelihood(body)

    @body.vjp("input")
    def _(
        g: Tensor, input_shape: tuple[int, ...], target: Tensor, weight: Tensor | None,
        reduction: int, ignore_index: float
    ) -> Tensor:
        return _placed(g, target, weight, input_shape, reduction, ignore_index)

    return body


_nll_loss = _declare_likelihood("_nll_loss", "NllLossBackward0")
_nll_loss2d = _declare_likelihood("_nll_loss2d", "NllLoss2DBackward0")


@opaque(linear_in="g",
        layout=Layout.FREE, name="_nll_loss_backward", expose=(), ref=None, samples=None)
def _placed(
    g: Array, target: Array, weight: Array | None, shape: Any, reduction: int, ignore_index: float
) -> Array:
    """Scatter the rows' negated cotangents to their targets; zeros elsewhere."""
    t, c = _compute_coefficients(
        g, target, weight, reduction, ignore_index, _count_classes(shape), g.dtype
    )
    result = np.zeros(shape, g.dtype)
    if len(shape) == 2:
        result[np.arange(len(t)), t] = -c
    elif len(shape) == 1:
        result[t] = -c
    else:
        np.put_along_axis(result, t[:, None], -(c[:, None] if c.ndim else c), 1)
    return result


@_placed.batch
def _(
    batch: Batch, g: Tensor, target: Tensor, weight: Tensor | None, shape: Any, reduction: int,
    ignore_index: float
) -> Any:
    if batch.holds(weight):
        return NotImplemented
    share, t = shares_of(batch, g, target, weight, reduction, ignore_index)
    rows = (batch.size, *shape) if len(shape) == 1 else (batch.size * shape[0], *shape[1:])
    y = _placed(share, t, weight, rows, NONE, ignore_index)
    return y.reshape(batch.size, *shape)


@_placed.vjp("g")
def _(
    g: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: float
) -> Tensor:
    operator = _nll_loss if g.dim() < 3 else _nll_loss2d
    return operator(g, target, weight, reduction, ignore_index)


def _compute_small(
    x: Array, target: Array, reduction: int, ignore_index: float
) -> tuple[Array, Array] | None:
    """Compute (loss, log probabilities) of a few rows with a kernel; None if a target is not a
    class or if a class is ignored."""
    if x.ndim != 2 or x.__class__ is not _ndarray or not target.flags.c_contiguous:
        return None
    if 0 <= ignore_index < x.shape[1]:
        return None
    kernel = CROSS_ENTROPY[reduction == MEAN][x.dtype]
    if not kernel or not KernelPolicy.allowed or target.dtype is not _INT64:
        return None
    y, loss = x.copy(), np.empty((), x.dtype)
    FastCalls.call(kernel, y, target, loss, *y.shape)
    number = loss.item()
    return (loss, y) if number == number else None


def _fuse(name: str, node: str) -> Any:
    """Declare log_softmax and the likelihood as one operator: (loss, log probabilities)."""

    @opaque(name=name, node=node, expose=(), ref=_cross_reference, samples=_likelihoods,
            labels="target", constant_inputs=("weight",),
            torch_kernel=f"nll_loss{'2d' * name.endswith('2d')}_forward")
    def body(
        input: Array, target: Array, weight: Array | None, reduction: int, ignore_index: float
    ) -> tuple[Array, Array]:
        """Return the cross entropy for classes by index, and the log probabilities."""
        if 1 < input.size <= MAX_SMALL_ELEMENTS and weight is None and reduction != NONE:
            result = _compute_small(input, target, reduction, ignore_index)
            if result is not None:
                return result
        y = log_softmax.operator.body(input, 0 if input.ndim == 1 else 1)
        return _reduce_likelihood(y, target, weight, reduction, ignore_index, input.dtype), y

    batch_fused(body)

    @body.vjp("input")
    def _(
        gs: tuple[Tensor, Tensor], ys: tuple[Tensor, ...], target: Tensor, weight: Tensor | None,
        reduction: int, ignore_index: float
    ) -> Tensor:
        loss, logs = gs
        match = None
        if loss is not None:
            match = _slope(loss, ys[1], target, weight, reduction, ignore_index)
        if logs is not None:  # the first derivative reads the log probabilities
            more = log_softmax_backward(logs, ys[1], 0 if logs.dim() == 1 else 1, None)
            match = more if match is None else match + more
        return match

    @body.jvp
    def _(
        input_t: Tensor, ys: tuple[Tensor, ...], target: Tensor, weight: Tensor | None,
        reduction: Any, ignore_index: Any
    ) -> tuple[Tensor | None, ...]:
        likelihood = _nll_loss if input_t.dim() < 3 else _nll_loss2d
        dim = 0 if input_t.dim() == 1 else 1
        logs_t = push_log_softmax(input_t, ys[1], dim)
        return likelihood(logs_t, target, weight, reduction, ignore_index), logs_t

    return body


_cross_entropy = _fuse("_cross_entropy", "NllLossBackward0")
_cross_entropy2d = _fuse("_cross_entropy2d", "NllLoss2DBackward0")


def _share_out(logs: Array, share: Array) -> Array:
    return np.exp(logs) * share


@opaque(layout=Layout.FREE, name="_cross_entropy_backward", expose=(), ref=None, samples=None)
def _slope(
    share: Array, logs: Array, target: Array, weight: Array | None, reduction: int,
    ignore_index: float
) -> Array:
    """(softmax - one-hot target) times the rows' cotangents."""
    inside = compute_dtype(logs.dtype)
    t, c = _compute_coefficients(
        share, target, weight, reduction, ignore_index, _count_classes(logs.shape), inside
    )
    if logs.size <= MAX_SMALL_ELEMENTS and logs.ndim == 2 and not c.ndim \
            and logs.__class__ is _ndarray:
        kernel = CROSS_ENTROPY_BACKWARD[logs.dtype]
        if kernel and KernelPolicy.allowed and t.flags.c_contiguous:
            result = logs.copy()
            FastCalls.call(kernel, result, t, np.asarray(c, logs.dtype), *result.shape)
            return result
    if logs.size > MAX_NUMPY_POINTWISE_ELEMENTS and logs.ndim == 2:
        shared = try_kernel(_share_out, logs, c[:, None] if c.ndim else np.asarray(c))
        if shared is not None:
            shared[np.arange(len(t)), t] -= c
            return shared
    result = np.exp(logs, dtype=inside)
    if result.ndim == 2:
        result[np.arange(len(t)), t] -= 1
    elif result.ndim == 1:
        result[t] -= 1
    else:
        columns = t[:, None]
        np.put_along_axis(result, columns, np.take_along_axis(result, columns, 1) - 1, 1)
    result *= c[:, None] if c.ndim and result.ndim > 1 else c
    return result.astype(logs.dtype, copy=False)


@_slope.batch
def _(
    batch: Batch, share: Tensor, logs: Tensor, target: Tensor, weight: Tensor | None,
    reduction: int, ignore_index: float
) -> Any:
    if batch.holds(weight):
        return NotImplemented
    shares, t = shares_of(batch, share, target, weight, reduction, ignore_index)
    x, _ = join_rows(batch, logs, target)
    y = _slope(shares, x, t, weight, NONE, ignore_index)
    return y.reshape(batch.size, *logs.shape)


@_slope.vjp("share")
def _(
    g: Tensor, logs: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: float
) -> Tensor:
    operator = _nll_loss if g.dim() < 3 else _nll_loss2d
    rows = (g * logs.exp()).sum(0 if g.dim() == 1 else 1, True).expand(g.shape)
    return operator(g - rows, target, weight, reduction, ignore_index)


@_slope.vjp("logs")
def _(
    g: Tensor, share: Tensor, logs: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: float
) -> Tensor:
    # Place each row's cotangent with operators, so that compiled steps can follow.
    placed = _placed(share, target, weight, logs.shape, reduction, ignore_index)
    return g * logs.exp() * -placed.sum(0 if logs.dim() == 1 else 1, True)


# ------------------------------------------------------------------------------ public functions


def _describe_fix(input: Tensor, target: Tensor) -> str | None:
    """Return advice for arguments that do not match."""
    shape, target_shape = input._array.shape, target._array.shape
    kinds = input._array.dtype.kind, target._array.dtype.kind
    if kinds[0] in "iub" and kinds[1] == "f":
        return "the input is integers, the target floats: are they swapped? loss(input, target)"
    if len(target_shape) == 2 and target_shape[1] == 1 and shape[:1] == target_shape[:1]:
        return "the target has an axis of length 1 too many: target.squeeze(1)"
    if kinds[1] == "f" and len(target_shape) < len(shape):
        return ("the numbers of classes are integers: target.long(); probabilities of classes have "
                f"the input's shape, {tuple(shape)}")
    if kinds[1] in "ib" and target._array.dtype != np.int64:
        return "target.long()"
    return None


def _advise_on_labels(t: Array, is_invalid: Array, classes: int) -> str:
    place = tuple(int(i[0]) for i in np.nonzero(is_invalid))
    position = place[0] if len(place) == 1 else place
    text = (f"the target at {position} is {t[is_invalid].flat[0]}; with {classes} classes they run "
            f"from 0 to {classes - 1}")
    if t.min() == 1 and t.max() == classes:
        text += ". They run from 1 here: target - 1"
    elif t.max() >= classes:
        text += f". The network needs {int(t.max()) + 1} outputs for these targets"
    return text


def _check_input(input: Tensor, target: Tensor) -> None:
    shape, target_shape = input._array.shape, target._array.shape
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(shape) != 1 and (not target_shape or shape[0] != target_shape[0]):
        supplied = target_shape[0] if target_shape else "no axis"
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({supplied})."
        )


def _check_target(
    input: Tensor, target: Tensor, weight: Tensor | None, scores: bool = False
) -> Tensor:
    """Check the target against the input; return it in the input's shape without classes."""
    try:
        _check_indices(input, target)
    except (RuntimeError, ValueError) as error:
        if scores:
            _check_scores(input, target)
        add_notes(error, _describe_fix(input, target))
        raise
    if weight is not None:
        _check_weight(input, weight)
    shape, target_shape = input._array.shape, target._array.shape
    return target.reshape(()) if len(shape) == 1 and target_shape else target


def _check_scores(input: Tensor, target: Tensor) -> None:
    """Raise NotImplementedError unless the scores are floating-point numbers."""
    if not input.is_floating_point():
        kernel = "log_softmax_lastdim_kernel_impl" if input.dim() <= 2 else "softmax_kernel_impl"
        raise add_notes(build_missing_kernel_error(kernel, input.dtype),
                        _describe_fix(input, target))


def _check_indices(input: Tensor, target: Tensor) -> None:
    _check_input(input, target)
    shape, target_shape = input._array.shape, target._array.shape
    if len(shape) <= 2:
        if len(target_shape) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if len(shape) == 1 and target_shape not in ((), (1,)):
            raise ValueError("For 1D input, 1D target must have size 1, but got target size: "
                             f"{target_shape[0]}")
    elif len(shape) == 4 and len(target_shape) != 3:
        raise RuntimeError("only batches of spatial targets supported (3D tensors) but got targets "
                           f"of dimension: {len(target_shape)}")
    elif (shape[0], *shape[2:]) != target_shape:
        if len(shape) == 4:
            raise RuntimeError(
                f"size mismatch (got input: {list(shape)} , target: {list(target_shape)}")
        raise RuntimeError(
            f"Expected target size {[shape[0], *shape[2:]]}, got {list(target_shape)}"
        )
    kind = target._array.dtype
    if kind is not _INT64 and kind not in (np.int64, np.uint8):
        raise RuntimeError("expected target dtype to be Long or Byte, but got "
                           f"{legacy_name(FROM_NUMPY[kind])}")


def _check_weight(input: Tensor, weight: Tensor) -> None:
    classes = _count_classes(input._array.shape)
    if weight._array.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    if weight._array.dtype != input._array.dtype:
        raise RuntimeError(f"expected scalar type {legacy_name(input.dtype)} but found "
                           f"{legacy_name(weight.dtype)}")


@repeats_operators()
@composite(autocast=Policy.FULL, expose=("nn.functional",))
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Compute the negative log likelihood: minus the weighted input at the target classes.

    input (classes,), (n, classes) or (n, classes, ...) holds log probabilities; target, the same
    without the classes, holds class indices. Raises IndexError for a class out of range.

    Args:
        input: Log probabilities, (classes,), (n, classes) or (n, classes, ...).

    >>> log_probs = torch.tensor([[-0.5, -1.], [-2., -0.1]])
    >>> torch.nn.functional.nll_loss(log_probs, torch.tensor([0, 1]))
    tensor(0.3000)
    """
    if ignore_index.__class__ is not int:
        require_int("nll_loss_nd", "ignore_index", ignore_index, 5)
    number = parse_reduction(reduction, size_average, reduce)
    target = _check_target(input, target, weight)
    operator = _nll_loss if input._array.ndim < 3 else _nll_loss2d
    return operator(input, target, weight, number, ignore_index)


@repeats_operators()
@composite(autocast=Policy.FULL, expose=("nn.functional",))
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    label_smoothing: float = 0.0
) -> Tensor:
    """Compute the cross entropy between logits and targets, as class indices or probabilities.

    input (classes,), (n, classes) or (n, classes, ...); target has the same shape for
    probabilities, or that shape without the classes for indices.

    Args:
        target: Class indices, int64, of the input's shape without the classes, or probabilities
            of the input's shape.

    >>> torch.nn.functional.cross_entropy(torch.tensor([[0., 0.]]), torch.tensor([1]))
    tensor(0.6931)
    """
    if ignore_index.__class__ is not int:
        require_int("cross_entropy_loss", "ignore_index", ignore_index, 5)
    number = parse_reduction(reduction, size_average, reduce)
    if target._array.shape == input._array.shape:
        return _with_probabilities(input, target, weight, number, ignore_index, label_smoothing)
    if label_smoothing:
        if not 0 < label_smoothing <= 1:
            raise RuntimeError(
                f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
            )
        return _smooth_labels(input, target, weight, number, ignore_index, label_smoothing)
    target = _check_target(input, target, weight, scores=True)
    operator = _cross_entropy if input._array.ndim < 3 else _cross_entropy2d
    return operator(input, target, weight, number, ignore_index)[0]


def _view_along_classes(weight: Tensor, ndim: int) -> Tensor:
    return weight if ndim == 1 else weight.reshape(1, -1, *(1,) * (ndim - 2))


def _with_probabilities(
    input: Any, target: Any, weight: Any, reduction: Any, ignore_index: Any, smoothing: Any
) -> Any:
    if not target.is_floating_point():
        raise add_notes(
            RuntimeError("Expected floating point type for target with class probabilities, got "
                         f"{legacy_name(target.dtype)}"),
            "Of one-hot targets pass target.float(), or the classes: target.argmax(1).",
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if weight is not None:
        _check_weight(input, weight)
    ndim = input._array.ndim
    axis = 0 if ndim == 1 else 1
    n = input._array.shape[axis]
    y = log_softmax(input, axis)
    if smoothing:
        if not 0 < smoothing <= 1:
            raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")
        target = target * (1 - smoothing) + smoothing / n
    y = y * target
    if weight is not None:
        y = y * _view_along_classes(weight, ndim)
    if reduction == NONE:
        return -y.sum(axis)
    return -y.sum() / (input._array.size / max(n, 1)) if reduction == MEAN else -y.sum()


def _smooth_labels(
    input: Any, target: Any, weight: Any, reduction: Any, ignore_index: Any, smoothing: Any
) -> Any:
    target = _check_target(input, target, weight, scores=True)
    ndim = input._array.ndim
    axis = 0 if ndim == 1 else 1
    n = input._array.shape[axis]
    y = log_softmax(input, axis)
    operator = _nll_loss if ndim < 3 else _nll_loss2d
    hard = operator(y, target, weight, reduction, ignore_index)
    smooth = y if weight is None else y * _view_along_classes(weight, ndim)
    smooth = -smooth.sum(axis)
    ignored = target == ignore_index
    smooth = smooth.masked_fill(ignored, 0)
    if reduction == MEAN:
        counts = ignored.logical_not().to(y.dtype)
        if weight is not None:
            counts = counts * weight.take(target.long().masked_fill(ignored, 0))
        smooth = smooth.sum() / counts.sum()
    elif reduction != NONE:
        smooth = smooth.sum()
    return hard * (1 - smoothing) + smooth * (smoothing / n)
