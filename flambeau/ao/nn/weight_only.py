"""Linear layers with 8-bit or 4-bit weights and floating-point inputs.

Use `quantize_weights(model, bits=4)`. It takes a quarter (8 bits) or an eighth (4 bits) of the
memory, and activations keep full precision.
"""

from __future__ import annotations

import copy
from typing import Any

from ... import ops
from ...nn import modules as float_modules
from ...nn.module import Module
from ...tensor import Tensor
from ...tensor.dtypes import int8

__all__ = ["Int4Linear", "Int8Linear", "quantize_weights"]


class Int8Linear(Module):
    """A linear layer with int8 weights (out, in) and one scale per row.

    >>> layer = torch.ao.nn.weight_only.Int8Linear.from_float(torch.nn.Linear(64, 8))
    >>> layer(torch.ones(2, 64)).shape, layer.weight.dtype
    (torch.Size([2, 8]), torch.int8)
    """

    weight: Tensor
    scales: Tensor

    def __init__(self, weight: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias)

    @classmethod
    def from_float(cls, module: Any) -> Int8Linear:
        """Convert a float layer; each row is scaled so that its largest weight becomes 127."""
        weight = module.weight.detach().float()
        scales = ops.clamp(weight.abs().amax(1), min=1e-12) / 127
        codes = ops.round(weight / scales[:, None]).clamp(-127, 127).to(int8)
        bias = None if module.bias is None else module.bias.detach()
        return cls(codes, scales, bias)

    def forward(self, input: Tensor) -> Tensor:
        """input @ weight.T * scales + bias."""
        rows = input.reshape(-1, self.in_features)
        y: Any = ops._weight_int8pack_mm(rows, self.weight, self.scales)
        y = y.reshape(*input.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """Return the sizes and settings."""
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Int4Linear(Module):
    """A linear layer with 4-bit weights and a scale and midpoint per group of weights.

    >>> layer = torch.ao.nn.weight_only.Int4Linear.from_float(torch.nn.Linear(64, 8))
    >>> layer(torch.ones(2, 64)).shape, layer.weight.shape
    (torch.Size([2, 8]), torch.Size([8, 32]))
    """

    weight: Tensor
    parameters_of_groups: Tensor

    def __init__(
        self, weight: Tensor, parameters: Tensor, group_size: int, bias: Tensor | None
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape[0], weight.shape[1] * 2
        self.group_size = group_size
        self.register_buffer("weight", weight)
        self.register_buffer("parameters_of_groups", parameters)
        self.register_buffer("bias", bias)

    @classmethod
    def from_float(cls, module: Any, group_size: int = 32) -> Int4Linear:
        """Convert a float layer; ValueError if its inputs are not a multiple of the group size."""
        weight = module.weight.detach().float()
        n, k = weight.shape
        if k % group_size:
            raise ValueError(f"{k} inputs are no multiple of the group size {group_size}")
        groups = weight.reshape(n, k // group_size, group_size)
        group_min, group_max = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)
        scale = ops.clamp((group_max - group_min) / 15, min=1e-12)
        codes = ops.round((groups - group_min) / scale).clamp(0, 15).int().reshape(n, k)
        parameters = ops.stack([scale[..., 0].T, (group_min + 8 * scale)[..., 0].T], dim=-1)
        packed = ops._convert_weight_to_int4pack_for_cpu(codes, 2)
        bias = None if module.bias is None else module.bias.detach()
        return cls(packed, parameters.contiguous(), group_size, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return input @ weight.T + bias with dequantized weights."""
        rows = input.reshape(-1, self.in_features)
        y: Any = ops._weight_int4pack_mm_for_cpu(
            rows, self.weight, self.group_size, self.parameters_of_groups)
        y = y.reshape(*input.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """Return the sizes and settings."""
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}, group_size={self.group_size}")


def quantize_weights(model: Any, bits: int = 8, group_size: int = 32) -> Any:
    """Return a copy of the model whose linear layers have 8-bit or 4-bit weights.

    With 4 bits, layers whose inputs are not a multiple of `group_size` get 8.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 8))
    >>> torch.ao.nn.weight_only.quantize_weights(model, bits=4)
    Sequential(
      (0): Int4Linear(in_features=64, out_features=8, bias=True, group_size=32)
    )
    """
    if bits not in (4, 8):
        raise ValueError(f"weights have 4 or 8 bits, not {bits}")
    model = copy.deepcopy(model).eval()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is float_modules.Linear:
                parent._modules[name] = Int8Linear.from_float(child) \
                    if bits == 8 or child.in_features % group_size \
                    else Int4Linear.from_float(child, group_size)
    return model
