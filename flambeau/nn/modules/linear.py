"""Layers that multiply by a matrix: Linear, Bilinear, LazyLinear; and Identity."""

from __future__ import annotations

import math
from typing import Any

from ... import ops
from ...autograd import no_grad
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .utils import format_settings

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Return the input unchanged; any constructor arguments are ignored.

    >>> nn.Identity()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Affine map y = x W^T + b, from (*, in_features) to (*, out_features).

    `weight` is (out_features, in_features), `bias` (out_features); both are initialized uniformly
    within +-1/sqrt(in_features).

    >>> nn.Linear(20, 30)
    Linear(in_features=20, out_features=30, bias=True)
    """

    in_features: int
    out_features: int
    weight: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the weight, then the bias."""
        # With a = sqrt(5), Kaiming's bound is 1 / sqrt(fan_in), the same as for the bias.
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1]
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = format_settings(self, "in_features", "out_features")
        return f"{sizes}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under PyTorch's name for an attention's output projection.

    The name shows in reprs and in pickled models.
    """


class Bilinear(Module):
    """Bilinear map y_k = x1^T W_k x2 + b_k, of (*, in1_features) and (*, in2_features).

    `weight` is (out_features, in1_features, in2_features).

    >>> layer = nn.Bilinear(4, 3, 2)
    >>> layer.weight.shape, layer(torch.zeros(5, 4), torch.zeros(5, 3)).shape
    (torch.Size([2, 4, 3]), torch.Size([5, 2]))
    """

    in1_features: int
    in2_features: int
    out_features: int
    weight: Tensor

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(ops.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize weight, then bias; ValueError if in1_features is not positive."""
        if self.in1_features <= 0:
            raise ValueError(
                f"in1_features must be > 0, but got (in1_features={self.in1_features})"
            )
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = format_settings(self, "in1_features", "in2_features", "out_features")
        return f"{sizes}, bias={self.bias is not None}"


class LazyLinear(LazyModuleMixin, Linear):
    """Linear that infers in_features from its first input, then becomes a Linear.

    >>> layer = nn.LazyLinear(8)
    >>> _ = layer(torch.zeros(2, 5))
    >>> layer
    Linear(in_features=5, out_features=8, bias=True)
    """

    cls_to_become = Linear
    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Shape the parameters to fit `input` and initialize them."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the weights came from a state_dict
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to "
                    f"in_features from self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]
