"""Linear layers of torch.ao.nn.quantized.reference."""

from __future__ import annotations

from typing import Any

from ......nn import functional as F
from ......nn import modules as float_modules
from ......tensor import Tensor
from .utils import ReferenceQuantizedModule, adopt


class Linear(ReferenceQuantizedModule, float_modules.Linear):
    """A linear layer with rounded weights."""

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, device: Any = None,
        dtype: Any = None, weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        float_modules.Linear.__init__(self, in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x: Tensor) -> Tensor:
        """x w^T + b with the rounded w."""
        return F.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear: Any, weight_qparams: dict[str, Any]) -> Any:
        """With a float module's weights."""
        result = cls(float_linear.in_features, float_linear.out_features,
                     float_linear.bias is not None, weight_qparams=weight_qparams)
        return adopt(result, float_linear)
