"""Dropout: elements or whole channels zeroed at random, with PyTorch's draws for the same seed.

torch.dropout and its family take (input, p, train); nn.functional's take p=0.5, training=True,
inplace=False and check p first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn
from ...tensor.capture_marks import shape_only
from ...tensor.meta import MetaArray
from ...tensor.random.distributions import fill_bernoulli, fill_dropout
from ...tensor.tensor import Tensor, wrap
from ..core.arguments.checks import require_bool
from ..core.errors import wrap_with_explanation
from ..core.operator import Array, publish
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, writes_by_operators
from .creation import allocate_like

# SELU's saturation value, to which alpha dropout sets elements.
SELU_LIMIT = 1.7580993408473766


def draw_factors(
    input: Tensor, channels: bool, fill: Callable[[np.ndarray], object]
) -> np.ndarray:
    """An array to multiply `input` by: one number an element, or one a channel."""
    if channels:
        shape = input._array.shape
        if len(shape) < 2:
            raise RuntimeError(
                "Feature dropout requires at least 2 dimensions in the input, but got "
                f"{len(shape)}: {list(shape)}"
            )
        result = np.empty((*shape[:2], *[1] * (len(shape) - 2)), input._array.dtype)
    else:
        result = allocate_like(input, None)
    if result.dtype.kind in "iub":
        raise RuntimeError(
            "result type Float can't be cast to the desired output type of dropout's input, "
            f"{input.dtype}"
        )
    if result.__class__ is not MetaArray and input._array.__class__ is not MetaArray:
        fill(result)
    return result


def draw_noise(input: Tensor, channels: bool, fill: Callable[[np.ndarray], object]) -> Tensor:
    """Return dropout factors for `input`, drawn by `fill`; under vmap, for all examples at once."""
    return wrap(draw_factors(input, channels, fill))


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


@shape_only
def _drop_without_drawing(input: Tensor, p: float, train: bool, inplace: bool) -> Tensor | None:
    """The result where no numbers are drawn (p is 0 or 1, or not training); None otherwise."""
    _check_probability(p)
    if train.__class__ is not bool:
        require_bool("dropout", "train", train)
    if p == 0 or not train or not input._array.size:
        return input
    if p == 1:
        zero = wrap(np.zeros((), input._array.dtype))
        return input.mul_(zero) if inplace else input * zero
    return None


def _drop(input: Tensor, p: float, train: bool, channels: bool, inplace: bool) -> Tensor:
    if (certain := _drop_without_drawing(input, p, train, inplace)) is not None:
        return certain
    if input._array.__class__ is MetaArray and not input.is_meta:
        noise = _draw_noise_of_class(input, channels, p)
    else:
        noise = draw_noise(input, channels, lambda result: fill_dropout(result, p))
    return input.mul_(noise) if inplace else input * noise


def _draw_noise_of_class(input: Tensor, channels: bool, p: float) -> Tensor:
    """Return the factors for a wrapper, drawn by its class."""
    shape = (*input.shape[:2], *(1,) * (input.dim() - 2)) if channels else input.shape
    noise: Any = input.detach().new_empty(shape)
    factors: Tensor = noise.bernoulli_(1 - p).div_(1 - p)
    return factors


def apply_alpha_dropout(input: Tensor, p: float, train: bool, channels: bool,
                        inplace: bool) -> Tensor:
    if (certain := _drop_without_drawing(input, p, train, inplace)) is not None:
        return certain
    a = 1 / math.sqrt((SELU_LIMIT * SELU_LIMIT * p + 1) * (1 - p))
    noise = draw_noise(input, channels, lambda result: fill_bernoulli(result, 1 - p))
    shift = (noise - 1).mul_(SELU_LIMIT * a).add_(SELU_LIMIT * a * p)
    noise.mul_(a)
    return input.mul_(noise).add_(shift) if inplace else input * noise + shift


def _publish_pair(name: str, make: Callable, channels: bool, doc: str) -> None:
    """torch.name and torch.name_."""

    def function(input: Tensor, p: float, train: bool) -> Tensor:
        return make(input, p, train, channels, False)

    def twin(input: Tensor, p: float, train: bool) -> Tensor:
        return make(input, p, train, channels, True)

    for result, ending, note in ((function, "", ""), (twin, "_", ", in place")):
        result = wrap_with_explanation(name + ending, result)
        result.__name__ = result.__qualname__ = name + ending
        result.__doc__ = f"""{doc}{note}.

    The input itself when `train` is False.

    >>> torch.{result.__name__}(torch.ones(2, 3), 0.5, train=False)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
        publish(writes_by_operators(result) if ending else result, (result.__name__,), ("torch",))


_publish_pair("dropout", _drop, False,
              "Elements zeroed with probability p, the others times 1 / (1 - p)")
_publish_pair("feature_dropout", _drop, True,
              "Channels zeroed with probability p, the others times 1 / (1 - p)")
_publish_pair("alpha_dropout", apply_alpha_dropout, False,
              "Elements set to SELU's saturation with probability p, then mean and variance "
              "restored")
_publish_pair("feature_alpha_dropout", apply_alpha_dropout, True,
              "Channels set to SELU's saturation with probability p, then mean and variance "
              "restored")


@opaque(layout=Layout.FREE, name="native_dropout", expose=("torch",), constant_outputs=(1,),
        ref=lambda x, p, train: (x, np.ones(x.shape, bool)),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), 0.5, False), {})]))
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    """Apply dropout: (the result, the mask of the elements kept).

    >>> y, kept = torch.native_dropout(torch.ones(100), 0.5, True)
    >>> torch.equal(y, 2.0 * kept)
    True
    """
    mask = np.ones(input.shape, np.bool_)
    if not train or p == 0 or not input.size:
        return input.copy(), mask
    fill_bernoulli(mask, 1 - p)
    scale = np.asarray(0 if p == 1 else 1 / (1 - p), input.dtype)
    return input * mask * scale, mask


@native_dropout.vjp
def _(gs: tuple[Tensor, None], ys: tuple[Tensor, ...], p: float, train: bool | None) -> Tensor:
    if not train or p == 0:
        return gs[0]
    return gs[0] * ys[1] * (0 if p == 1 else 1 / (1 - p))


@native_dropout.jvp
def _(
    input_t: Tensor, ys: tuple[Tensor, ...], p: float, train: bool | None
) -> tuple[Tensor | None, ...]:
    if not train or p == 0:
        return input_t, None
    return input_t * ys[1] * (0 if p == 1 else 1 / (1 - p)), None


# --------------------------------------------------------------------------- nn.functional


def _check_layer_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero elements with probability p in training, and scale the others by 1 / (1 - p).

    >>> torch.nn.functional.dropout(torch.ones(2), training=False)
    tensor([1., 1.])
    """
    _check_layer_probability(p)
    return _drop(input, p, training, False, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Set elements to SELU's saturation value with probability p, keeping mean and variance.

    Klambauer et al., Self-Normalizing Neural Networks, 2017.

    >>> torch.nn.functional.alpha_dropout(torch.ones(3), training=False)
    tensor([1., 1., 1.])
    """
    _check_layer_probability(p)
    return apply_alpha_dropout(input, p, training, False, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Set whole channels to SELU's saturation value with probability p, keeping mean and variance.

    >>> torch.nn.functional.feature_alpha_dropout(torch.ones(1, 3), training=False)
    tensor([[1., 1., 1.]])
    """
    _check_layer_probability(p)
    return apply_alpha_dropout(input, p, training, True, inplace)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of (n, c, l) or (c, l) with probability p.

    Raises RuntimeError for other ranks.

    >>> y = torch.nn.functional.dropout1d(torch.ones(2, 3, 4))
    >>> bool((y == y[..., :1]).all())
    True
    """
    _check_layer_probability(p)
    rank = input.dim()
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            f"a channel dimension, and an optional batch dimension, not {list(input.shape)}."
        )
    return _drop_channels(input, p, training, inplace, rank == 2)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of (n, c, h, w) with probability p.

    >>> y = torch.nn.functional.dropout2d(torch.ones(2, 3, 4, 4))
    >>> bool((y == y[..., :1, :1]).all())
    True
    """
    _check_layer_probability(p)
    rank = input.dim()
    if rank not in (3, 4):
        _warn_rank("dropout2d", rank, "3D or 4D")
    if rank == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
        )
    return _drop_channels(input, p, training, inplace, False)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of (n, c, d, h, w) or (c, d, h, w) with probability p.

    >>> y = torch.nn.functional.dropout3d(torch.ones(2, 3, 2, 2, 2))
    >>> bool((y == y[..., :1, :1, :1]).all())
    True
    """
    _check_layer_probability(p)
    rank = input.dim()
    if rank not in (4, 5):
        _warn_rank("dropout3d", rank, "4D or 5D")
    return _drop_channels(input, p, training, inplace, rank != 5)


def _warn_rank(name: str, rank: int, shape: str) -> None:
    warn(
        f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. {name} drops whole channels of {shape} inputs.",
    )


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool, alone: bool) -> Tensor:
    """Dropout of channels; `alone` where the input lacks the axis of the batch."""
    if not alone:
        return _drop(input, p, training, True, inplace)
    if inplace:
        return _drop(input.unsqueeze_(0), p, training, True, True).squeeze_(0)
    return _drop(input.unsqueeze(0), p, training, True, False).squeeze(0)


for _function in (dropout, alpha_dropout, feature_alpha_dropout, dropout1d, dropout2d, dropout3d):
    publish(_function, (_function.__name__,), ("nn.functional",))


@composite(expose=("aten",), explains=True)
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return the cotangent of native_dropout's input, grad_output * mask * scale.

    >>> mask = torch.tensor([True, False])
    >>> torch.ops.aten.native_dropout_backward(torch.ones(2), mask, 2.)
    tensor([2., 0.])
    """
    return grad_output * mask.to(grad_output.dtype) * scale
