"""Activation functions as modules. PyTorch has MultiheadAttention here too; see attention.py."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...native.foundation.shared_constructors import own_constructor
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from .. import functional as F
from ..init import constant_
from ..module import Module
from ..parameter import Parameter
from .attention import MultiheadAttention
from .utils import format_settings

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Switchable(Module):
    """An activation whose only setting is whether to overwrite its input."""

    __init_subclass__ = own_constructor

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _with_inplace(module: Any, *names: str) -> str:
    """The named settings, and `inplace=True` if set."""
    return format_settings(module, *names) + (", inplace=True" if module.inplace else "")


class ReLU(_Switchable):
    """Rectified linear unit, max(0, x).

    >>> nn.ReLU()(torch.tensor([-1., 0., 1.]))
    tensor([0., 0., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class SiLU(_Switchable):
    """Sigmoid linear unit, x sigmoid(x), also called swish.

    >>> nn.SiLU()(torch.tensor([-1., 0., 1.]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_Switchable):
    """Mish activation, x tanh(softplus(x)).

    Misra, 2019.

    >>> nn.Mish()(torch.tensor([-1., 0., 1.]))
    tensor([-0.3034,  0.0000,  0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class SELU(_Switchable):
    """Scaled ELU, with constants that keep activations at mean 0 and variance 1.

    Klambauer et al., 2017.

    >>> nn.SELU()(torch.tensor([-1., 0., 1.]))
    tensor([-1.1113,  0.0000,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_Switchable):
    """Piecewise linear sigmoid, clamp(x / 6 + 1/2, 0, 1).

    >>> nn.Hardsigmoid()(torch.tensor([-4., 0., 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""  # as in PyTorch


class Hardswish(_Switchable):
    """Piecewise swish, x clamp(x / 6 + 1/2, 0, 1).

    Howard et al., Searching for MobileNetV3, 2019.

    >>> nn.Hardswish()(torch.tensor([-4., 1., 4.]))
    tensor([-0.0000, 0.6667, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""  # as in PyTorch


class Threshold(Module):
    """x if x > threshold, else value.

    >>> nn.Threshold(1., 20.)(torch.tensor([0., 1., 2.]))
    tensor([20., 20.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(self, "threshold", "value")


class RReLU(Module):
    """Leaky ReLU with a random slope, from U(lower, upper) in training, else their mean.

    Xu et al., 2015.

    >>> nn.RReLU(0.1, 0.3).eval()(torch.tensor([-1., 0., 1.]))
    tensor([-0.2000,  0.0000,  1.0000])
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(self, "lower", "upper")


class Hardtanh(Module):
    """Clip to [min_val, max_val]; `min_value` and `max_value` are deprecated names.

    >>> nn.Hardtanh(-2, 2)(torch.tensor([-3., 1., 3.]))
    tensor([-2.,  1.,  2.])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        renamed = "keyword argument `{0}ue` is deprecated and renamed to `{0}`"
        if min_value is not None:
            warn(renamed.format("min_val"), FutureWarning)
            min_val = min_value
        if max_value is not None:
            warn(renamed.format("max_val"), FutureWarning)
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(self, "min_val", "max_val")


class ReLU6(Hardtanh):
    """ReLU capped at 6, clamp(x, 0, 6).

    >>> nn.ReLU6()(torch.tensor([-1., 3., 9.]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ELU(Module):
    """Exponential linear unit: x if x > 0, else alpha (exp(x) - 1).

    Clevert et al., 2015.

    >>> nn.ELU()(torch.tensor([-1., 0., 1.]))
    tensor([-0.6321,  0.0000,  1.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(self, "alpha")


class CELU(Module):
    """Continuously differentiable ELU: x if x > 0, else alpha (exp(x / alpha) - 1).

    Barron, 2017.

    >>> nn.CELU()(torch.tensor([-1., 0., 1.]))
    tensor([-0.6321,  0.0000,  1.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(self, "alpha")


class LeakyReLU(Module):
    """x if x > 0, else negative_slope x.

    >>> nn.LeakyReLU(0.1)(torch.tensor([-1., 0., 1.]))
    tensor([-0.1000,  0.0000,  1.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(self, "negative_slope")


class PReLU(Module):
    """Leaky ReLU with a learned slope, either shared or per channel (dimension 1).

    He et al., 2015.

    >>> nn.PReLU()(torch.tensor([-1., 0., 1.]))
    tensor([-0.2500,  0.0000,  1.0000], grad_fn=<PreluKernelBackward0>)
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to `init`."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return format_settings(self, "num_parameters")


class GLU(Module):
    """Gated linear unit, a sigmoid(b), for the halves a and b of the input along `dim`.

    Dauphin et al., 2016.

    >>> nn.GLU()(torch.tensor([1., 2., 0., 100.]))
    tensor([0.5000, 2.0000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return format_settings(self, "dim")


class GELU(Module):
    """x times the normal CDF of x; `approximate="tanh"` uses the tanh approximation.

    >>> nn.GELU()(torch.tensor([-1., 0., 1.]))
    tensor([-0.1587,  0.0000,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """Logistic sigmoid, 1 / (1 + exp(-x)).

    >>> nn.Sigmoid()(torch.tensor([-1., 0., 1.]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return ops.sigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent, tanh(x).

    >>> nn.Tanh()(torch.tensor([-1., 0., 1.]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return ops.tanh(input)


class LogSigmoid(Module):
    """Logarithm of the sigmoid, log(sigmoid(x)), computed without overflow.

    >>> nn.LogSigmoid()(torch.tensor([-1000., 0.]))
    tensor([-1.0000e+03, -6.9315e-01])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """Softsign, x / (1 + |x|).

    >>> nn.Softsign()(torch.tensor([-1., 0., 3.]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """Tanhshrink, x - tanh(x).

    >>> nn.Tanhshrink()(torch.tensor([-1., 0., 1.]))
    tensor([-0.2384,  0.0000,  0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softplus(Module):
    """Smooth ReLU, log(1 + exp(beta x)) / beta; x itself where beta x > threshold.

    >>> nn.Softplus()(torch.tensor([-1., 0., 100.]))
    tensor([  0.3133,   0.6931, 100.0000])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return format_settings(self, "beta", "threshold")


class Hardshrink(Module):
    """Hard shrinkage: x if |x| > lambd, else 0.

    >>> nn.Hardshrink(0.5)(torch.tensor([-1., 0.3, 1.]))
    tensor([-1.,  0.,  1.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(Module):
    """Soft shrinkage: x moved toward 0 by lambd, and 0 if |x| <= lambd.

    >>> nn.Softshrink(0.5)(torch.tensor([-1., 0.3, 1.]))
    tensor([-0.5000,  0.0000,  0.5000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class _Along(Module):
    """A function along one dimension; None lets F choose, with a warning."""

    __init_subclass__ = own_constructor

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)  # old pickles lack it

    def extra_repr(self) -> str:
        return format_settings(self, "dim")


class Softmax(_Along):
    """Softmax, exp(x) / sum(exp(x)) along `dim`.

    >>> nn.Softmax(dim=-1)(torch.tensor([0., 0., 1.]))
    tensor([0.2119, 0.2119, 0.5761])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_Along):
    """Softmax of -x along `dim`.

    >>> nn.Softmin(dim=-1)(torch.tensor([0., 0., 1.]))
    tensor([0.4223, 0.4223, 0.1554])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_Along):
    """Logarithm of softmax along `dim`, computed without overflow.

    >>> nn.LogSoftmax(dim=-1)(torch.tensor([0., 1000.]))
    tensor([-1000.,     0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over channels at each position of an (n, c, h, w) or (c, h, w) input.

    >>> nn.Softmax2d()(torch.zeros(1, 4, 2, 2))[0, :, 0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)
