"""Dynamic linear layer: qint8 weights; the input is quantized at each call by its range."""

from __future__ import annotations

from typing import Any

from ......nn import modules as float_modules
from ......ops.quantized import packed_linear
from ......tensor import Tensor
from ......tensor.dtypes import float16, qint8
from ....qat import dynamic as qat_dynamic
from ...modules import linear as static
from ...modules.observed import find_inner_module
from ...modules.weights import quantize_weight


class Linear(static.Linear):
    """x w^T + b of float32 tensors, multiplied in 8-bit integers.

    >>> layer = torch.ao.nn.quantized.dynamic.Linear(20, 30)
    >>> layer(torch.randn(4, 20)).shape
    torch.Size([4, 30])
    """

    _version = 4

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version: int | None = 4

    def forward(self, x: Tensor) -> Tensor:
        """Return the float32 result. Inputs are rounded to 7 bits, as in PyTorch."""
        reduce_range = self.version is not None and self.version >= 4
        y = packed_linear.linear_dynamic(x, self._packed_params._packed_params, reduce_range)
        return y.to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        """Return sizes, dtype and scheme as text."""
        dtype = self._packed_params.dtype
        sizes = (f"in_features={self.in_features}, out_features={self.out_features}, "
                 f"dtype={dtype}")
        weight: Any = self.weight()
        return f"{sizes}, qscheme={weight.qscheme()}" if dtype is qint8 else sizes

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """Convert a float layer that has a `qconfig`."""
        supported = (float_modules.Linear, float_modules.linear.NonDynamicallyQuantizableLinear,
                     qat_dynamic.Linear)
        assert type(mod) in supported, (
            "nn.quantized.dynamic.Linear.from_float only works for one of"
            f"{[float_class.__name__ for float_class in supported]}, got {type(mod)}")
        assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
        from ......ao.quantization.qconfig import default_dynamic_qconfig

        qconfig = mod.qconfig if mod.qconfig is not None and mod.qconfig.weight is not None \
            else default_dynamic_qconfig
        observer = qconfig.weight()
        assert observer.dtype in (qint8, float16), (
            "The only supported dtypes for dynamic quantized linear are qint8 and float16, got: "
            f"{observer.dtype}")
        observer(mod.weight)
        weight = mod.weight.detach().float()
        if observer.dtype is qint8:
            weight = quantize_weight(weight, observer)
        return cls._from_weights(mod, weight, observer.dtype)

    @classmethod
    def from_reference(cls, ref_qlinear: Any) -> Any:  # type: ignore[override]
        """Convert a reference layer, possibly fused with ReLU."""
        inner = find_inner_module(ref_qlinear)
        return cls._from_weights(inner, round_weight(inner), inner.weight_dtype)

    @classmethod
    def _from_weights(cls, mod: Any, weight: Tensor, dtype: Any) -> Any:
        result = cls(mod.in_features, mod.out_features, dtype=dtype)
        result.set_weight_bias(weight, mod.bias)
        return result


def round_weight(ref: Any) -> Tensor:
    """Return a reference module's weight for packing: quantized, or floating for float16."""
    weight: Tensor = ref.weight if ref.weight_dtype is float16 else ref.get_quantized_weight()
    return weight.detach()
