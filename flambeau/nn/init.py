"""Initializers: fill a tensor in place and return it. The same seed gives PyTorch's numbers.

Shapes matter: a weight is (out, in) or (out, in, *kernel), and fan_in = in * kernel elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import linalg, ops
from ..autograd import no_grad
from ..native.foundation.user_frames import warn
from ..ops.interception import torch_function
from ..tensor import Tensor

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]

_GAINS = {
    **dict.fromkeys(
        ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
         "conv_transpose3d", "sigmoid"), 1),
    "tanh": 5 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The scale of weights before a nonlinearity; `param` is leaky_relu's slope.

    >>> nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        param = 0.01
    if isinstance(param, bool) or not isinstance(param, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + param**2))


# -------------------------------------------------------------------------- constants


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    >>> nn.init.constant_(torch.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    >>> nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    >>> nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity: ones on the diagonal, zeros elsewhere.

    >>> nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    _check_matrix(tensor)
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def _check_matrix(tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError(
            f"Only tensors with 2 dimensions are supported, got {tensor.ndim} dimensions"
        )


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill with the identity as a convolution, in each group. Weight (out, in, *kernel).

    >>> weight = nn.init.dirac_(torch.empty(2, 2, 3))
    >>> x = torch.tensor([[[1., 2., 3.], [4., 5., 6.]]])
    >>> torch.equal(F.conv1d(x, weight, padding=1), x)
    True
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(
            f"Only tensors with 3, 4, or 5 dimensions are supported, got {tensor.ndim} dimensions"
        )
    rows, columns = tensor.shape[:2]
    if rows % groups:
        raise ValueError(f"dim 0 must be divisible by groups, got {rows} and {groups}")
    if tensor.is_meta:
        return tensor
    in_group = rows // groups
    centre = tuple(length // 2 for length in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(in_group, columns)):
                tensor[(group * in_group + channel, channel, *centre)] = 1
    return tensor


# -------------------------------------------------------------------------- random numbers


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Draw uniformly from [a, b).

    >>> weight = nn.init.uniform_(torch.empty(1000), -0.1, 0.1)
    >>> bool(weight.abs().max() <= 0.1)
    True
    """
    return _no_grad_uniform_(tensor, a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Draw from the normal distribution.

    >>> nn.init.normal_(torch.empty(2, 3), mean=0.0, std=0.02).shape
    torch.Size([2, 3])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Draw from the normal distribution truncated to [a, b].

    >>> weight = nn.init.trunc_normal_(torch.empty(1000), std=1.0, a=-2.0, b=2.0)
    >>> bool(weight.abs().max() <= 2)
    True
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
        )
    accepted_share = _compute_normal_cdf((b - mean) / std) - _compute_normal_cdf((a - mean) / std)
    draw = _truncate_by_redrawing if accepted_share > 0.3 else _truncate_by_rejection
    with no_grad():
        tensor.copy_(draw(tensor, mean, std, a, b, generator))
    return tensor


def _compute_normal_cdf(x: float) -> float:
    """The probability that a standard normal variable is below x."""
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _truncate_by_redrawing(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> Tensor:
    """Redraw until all numbers are within the bounds; whole tensors at a time, as PyTorch does."""
    # Round the bounds to the dtype: a number that rounds onto a bound is within it.
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    drawn = tensor.normal_(mean, std, generator=generator)
    while True:
        is_outside = (drawn < low) | (drawn > high)
        if not is_outside.any():
            return drawn
        redrawn = ops.empty_like(drawn).normal_(mean, std, generator=generator)
        drawn = ops.where(is_outside, redrawn, drawn)


def _truncate_by_rejection(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> Tensor:
    """Draw uniformly and accept by the density, for intervals far out in a tail."""
    nearest = max(a, min(mean, b))
    log_peak = -0.5 * ((nearest - mean) / std) ** 2
    chance = ops.empty_like(tensor)

    def rejected(drawn: Tensor) -> Tensor:
        log_height = (drawn - mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return chance.uniform_(generator=generator).log_().gt(log_height)

    drawn = tensor.uniform_(a, b, generator=generator)
    pending = rejected(drawn)
    while pending.any():
        candidates = ops.empty_like(tensor).uniform_(a, b, generator=generator)
        drawn = ops.where(pending, candidates, drawn)
        pending = ops.where(pending, rejected(candidates), pending)
    return drawn


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The number of inputs each output sums, and the number of outputs each input feeds."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    mode = mode.lower()
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Draw uniformly from +-gain * sqrt(6 / (fan_in + fan_out)): Glorot and Bengio, 2010.

    >>> weight = nn.init.xavier_uniform_(torch.empty(2, 4))
    >>> bool(weight.abs().max() <= (6 / (2 + 4)) ** 0.5)
    True
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Draw from a normal with std gain * sqrt(2 / (fan_in + fan_out)): Glorot and Bengio, 2010.

    >>> weight = nn.init.xavier_normal_(torch.empty(300, 200))
    >>> bool(abs(weight.std() - (2 / 500) ** 0.5) < 0.01)
    True
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _compute_kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Draw uniformly from +-gain * sqrt(3 / fan); `a` is leaky_relu's slope: He et al., 2015.

    >>> weight = nn.init.kaiming_uniform_(torch.empty(8, 6), nonlinearity="relu")
    >>> bool(weight.abs().max() <= (6 / 6) ** 0.5)
    True
    """
    std = _compute_kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Draw from a normal with std gain / sqrt(fan); `a` is leaky_relu's slope: He et al., 2015.

    `mode` "fan_in" preserves the variance of activations, "fan_out" that of gradients.

    >>> weight = nn.init.kaiming_normal_(torch.empty(1000, 50), nonlinearity="relu")
    >>> bool(abs(weight.std() - (2 / 50) ** 0.5) < 0.01)
    True
    """
    std = _compute_kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix, axes after the first flattened: Saxe et al., 2013.

    >>> weight = nn.init.orthogonal_(torch.empty(2, 3))
    >>> torch.allclose(weight @ weight.T, torch.eye(2), atol=1e-6)
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    with no_grad():
        q, r = linalg.qr(drawn.t() if rows < columns else drawn)
        # The signs make the decomposition unique, and so the distribution uniform.
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape))
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Draw from a normal, then zero the fraction `sparsity` of each column: Martens, 2010.

    >>> (nn.init.sparse_(torch.empty(10, 3), sparsity=0.2) == 0).sum(0)
    tensor([2, 2, 2])
    """
    _check_matrix(tensor)
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            # Uses the default generator even if the values came from another, as PyTorch does.
            tensor[ops.randperm(rows)[:zeros], column] = 0
    return tensor


# -------------------------------------------------------------------------- old names


def _create_deprecated(initialise: Callable) -> Callable:
    old = initialise.__name__.removesuffix("_")

    def warned(*args: Any, **kwargs: Any) -> Tensor:
        warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{initialise.__name__}`.",
            FutureWarning,
        )
        return initialise(*args, **kwargs)

    warned.__name__ = warned.__qualname__ = old
    warned.__doc__ = f"Deprecated in favor of `{initialise.__name__}`."
    return warned


uniform = _create_deprecated(uniform_)
normal = _create_deprecated(normal_)
constant = _create_deprecated(constant_)
eye = _create_deprecated(eye_)
dirac = _create_deprecated(dirac_)
xavier_uniform = _create_deprecated(xavier_uniform_)
xavier_normal = _create_deprecated(xavier_normal_)
kaiming_uniform = _create_deprecated(kaiming_uniform_)
kaiming_normal = _create_deprecated(kaiming_normal_)
orthogonal = _create_deprecated(orthogonal_)
sparse = _create_deprecated(sparse_)

torch_function.NAMESPACES.append({name: globals()[name] for name in __all__})
