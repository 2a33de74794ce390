"""Read the parts of an observed float module that its quantized counterpart needs."""

from __future__ import annotations

from typing import Any

from .....tensor import Tensor
from .....tensor.dtypes import float32
from .weights import quantize_weight


def quantize_parts(mod: Any) -> tuple[Any, Tensor, Tensor | None, float, int]:
    """Return the inner float module, its quantized weights, its bias, and the output's parameters.

    `mod` may be fused with a ReLU (a Sequential), or be a QAT module, whose weights use the scale
    from training.
    """
    assert hasattr(mod, "qconfig"), "Input float module must have qconfig defined"
    inner = find_inner_module(mod)
    weight, bias = inner.fold_norm() if hasattr(inner, "fold_norm") else (inner.weight, inner.bias)
    observer = getattr(inner, "weight_fake_quant", None)
    if observer is None:
        observer = mod.qconfig.weight()
    observer(weight.detach())
    scale, zero_point = _compute_output_parameters(mod)
    assert observer.dtype.name == "qint8", (
        f"Weight observer must have a dtype of qint8, got {observer.dtype}")
    packed = quantize_weight(weight.float(), observer)
    return inner, packed, bias, float(scale), int(zero_point)


def find_inner_module(mod: Any) -> Any:
    """Return the module with weights of a fused module, or the module itself."""
    return mod[0] if hasattr(mod, "_modules") and "0" in mod._modules else mod


class FromReference:
    """Mixin for modules whose float counterparts have no weights to round."""

    @classmethod
    def from_reference(cls: Any, mod: Any, scale: Any, zero_point: Any) -> Any:
        """Convert a float module, for results with this scale and zero point."""
        from .....ao.quantization.fixed_parameters import FixedQParamsObserver

        mod.activation_post_process = FixedQParamsObserver(float(scale), int(zero_point))
        result = cls.from_float(mod)
        del mod.activation_post_process
        return result


def _compute_output_parameters(mod: Any) -> tuple[Any, Any]:
    """Return the observed results' scale and zero point, or (1, 0) without an observer."""
    observed = getattr(mod, "activation_post_process", None)
    if observed is None or observed.dtype is float32:
        return 1.0, 0
    result: tuple[Any, Any] = observed.calculate_qparams()
    return result
