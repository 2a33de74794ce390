"""What a quantized module takes from the observed float module that it stands for."""

from __future__ import annotations

from typing import Any

from .....tensor import Tensor
from .....tensor.dtypes import float32
from .weights import quantize_weight


def quantized_parts(mod: Any) -> tuple[Any, Tensor, Tensor | None, float, int]:
    """The float module inside, its weights quantized, its bias, and the output's parameters.

    `mod` may be fused with a ReLU (a Sequential), or one of quantization-aware training, whose
    weights are under the scale that it was trained with.
    """
    assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
    inner = inner_module(mod)
    weight, bias = inner.fold_norm() if hasattr(inner, "fold_norm") else (inner.weight, inner.bias)
    observer = getattr(inner, "weight_fake_quant", None)
    if observer is None:
        observer = mod.qconfig.weight()
    observer(weight.detach())
    scale, zero_point = _output_parameters(mod)
    assert observer.dtype.name == "qint8", (
        f"Weight observer must have a dtype of qint8, got {observer.dtype}")
    packed = quantize_weight(weight.float(), observer)
    return inner, packed, bias, float(scale), int(zero_point)


def inner_module(mod: Any) -> Any:
    """The module with weights of one that is fused, or the module itself."""
    return mod[0] if hasattr(mod, "_modules") and "0" in mod._modules else mod


class FromReference:
    """Modules whose float twins have no weights to be rounded: a mixin."""

    @classmethod
    def from_reference(cls: Any, mod: Any, scale: Any, zero_point: Any) -> Any:
        """The quantized module of a float one, for results of this scale and zero point."""
        from .....ao.quantization.fixed_parameters import FixedQParamsObserver

        mod.activation_post_process = FixedQParamsObserver(float(scale), int(zero_point))
        result = cls.from_float(mod)
        del mod.activation_post_process
        return result


def _output_parameters(mod: Any) -> tuple[Any, Any]:
    """Scale and zero point of the results that were observed, (1, 0) where none were."""
    observed = getattr(mod, "activation_post_process", None)
    if observed is None or observed.dtype is float32:
        return 1.0, 0
    result: tuple[Any, Any] = observed.calculate_qparams()
    return result
