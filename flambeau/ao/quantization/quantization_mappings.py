"""Tables of module replacements: from float to quantized, QAT and reference modules."""

from __future__ import annotations

from typing import Any

from ...nn import functional as F
from ...nn import modules
from ...ops import quantized as _q
from ..nn import intrinsic, qat, quantized
from ..nn.intrinsic import qat as fused_qat
from ..nn.intrinsic import quantized as fused
from ..nn.quantized import dynamic, reference
from .stubs import DeQuantStub, QuantStub

DYNAMIC: dict[Any, Any] = {
    modules.GRUCell: dynamic.GRUCell,
    modules.Linear: dynamic.Linear,
    modules.linear.NonDynamicallyQuantizableLinear: dynamic.Linear,
    modules.LSTM: dynamic.LSTM,
    modules.GRU: dynamic.GRU,
    modules.LSTMCell: dynamic.LSTMCell,
    modules.Embedding: quantized.Embedding,
    modules.EmbeddingBag: quantized.EmbeddingBag,
    modules.RNNCell: dynamic.RNNCell,
    intrinsic.LinearReLU: fused.dynamic.LinearReLU,
    qat.dynamic.Linear: dynamic.Linear,
}
STATIC: dict[Any, Any] = {
    QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize,
    modules.Linear: quantized.Linear,
    modules.linear.NonDynamicallyQuantizableLinear: quantized.Linear,
    modules.Conv1d: quantized.Conv1d,
    modules.Conv2d: quantized.Conv2d,
    modules.Conv3d: quantized.Conv3d,
    **{getattr(modules, f"ConvTranspose{rank}d"): getattr(quantized, f"ConvTranspose{rank}d")
       for rank in (1, 2, 3)},
    modules.Embedding: quantized.Embedding,
    modules.EmbeddingBag: quantized.EmbeddingBag,
    quantized.FloatFunctional: quantized.QFunctional,
    **{getattr(modules, name): getattr(quantized, name) for name in (
        "BatchNorm2d", "BatchNorm3d", "Dropout", "ELU", "GroupNorm", "Hardswish",
        "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU", "PReLU",
        "ReLU6")},
    intrinsic.ConvReLU1d: fused.ConvReLU1d,
    intrinsic.ConvReLU2d: fused.ConvReLU2d,
    intrinsic.ConvReLU3d: fused.ConvReLU3d,
    **{getattr(intrinsic, name): getattr(fused, name) for name in (
        "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "LinearLeakyReLU", "LinearReLU",
        "LinearTanh")},
}
# Modules for quantization-aware training, with fake-quantized weights.
QAT: dict[Any, Any] = {
    modules.Linear: qat.Linear,
    modules.linear.NonDynamicallyQuantizableLinear: qat.Linear,
    modules.Conv2d: qat.Conv2d,
    modules.Conv3d: qat.Conv3d,
    intrinsic.LinearReLU: fused_qat.LinearReLU,
    intrinsic.LinearBn1d: fused_qat.LinearBn1d,
    **{getattr(intrinsic, f"{name}{rank}d"): getattr(fused_qat, f"{name}{rank}d")
       for name, ranks in (("ConvReLU", (2, 3)), ("ConvBn", (1, 2, 3)), ("ConvBnReLU", (1, 2, 3)))
       for rank in ranks},
}
STATIC.update({
    qat.Linear: quantized.Linear,
    fused_qat.LinearBn1d: quantized.Linear,
    fused_qat.LinearReLU: fused.LinearReLU,
    **{getattr(qat, f"Conv{rank}d"): getattr(quantized, f"Conv{rank}d") for rank in (2, 3)},
    **{getattr(fused_qat, f"ConvBn{rank}d"): getattr(quantized, f"Conv{rank}d")
       for rank in (1, 2, 3)},
    **{getattr(fused_qat, f"ConvReLU{rank}d"): getattr(fused, f"ConvReLU{rank}d")
       for rank in (2, 3)},
    **{getattr(fused_qat, f"ConvBnReLU{rank}d"): getattr(fused, f"ConvReLU{rank}d")
       for rank in (1, 2, 3)},
})
# Modules that compute in float32 with weights rounded as in the quantized model.
REFERENCE: dict[Any, Any] = {
    QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize,
    **{getattr(modules, name): getattr(reference, name) for name in reference.__all__
       if name != "GRU"},
}
TABLES = (modules.Embedding, modules.EmbeddingBag)  # indices go in, float32 comes out


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Return the replacements of `quantize_dynamic`: {module class: replacement}."""
    return dict(DYNAMIC)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Return the replacements of `prepare_qat`: {module class: replacement}."""
    return dict(QAT)


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """Return the replacements of `prepare_qat`, with embeddings, which are optional."""
    return {**QAT, **{getattr(modules, name): getattr(qat, name)
                      for name in ("Embedding", "EmbeddingBag")}}


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """Return the replacements of `convert`, with embeddings from quantization-aware training."""
    return {**STATIC, **{getattr(qat, name): getattr(quantized, name)
                         for name in ("Embedding", "EmbeddingBag")}}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Return the replacements of `convert`: {module class: replacement}."""
    return dict(STATIC)


def get_default_static_quant_reference_module_mappings() -> dict[Any, Any]:
    """Return the replacements of `convert(is_reference=True)`: {module class: replacement}."""
    return dict(REFERENCE)


def get_default_qconfig_propagation_list() -> set[Any]:
    """Return the module classes that can have a `qconfig`."""
    return {*STATIC, *QAT, *DYNAMIC, modules.Sequential}


def get_default_compare_output_module_list() -> set[Any]:
    """Return the module classes whose outputs the numeric suite compares."""
    return {*get_default_qconfig_propagation_list(), *STATIC.values(), *QAT.values(),
            *DYNAMIC.values()}


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: dict[Any, Any] | None = None,
    is_reference: bool = False,
) -> Any:
    """Return the class that `convert` puts in place of another; AssertionError if there is none."""
    return _find_class(float_module_class, REFERENCE if is_reference else STATIC,
                       additional_static_quant_mapping)


def get_dynamic_quant_module_class(
    float_module_class: Any, additional_dynamic_quant_mapping: dict[Any, Any] | None = None
) -> Any:
    """Return the class that `quantize_dynamic` puts in place of another; AssertionError if none."""
    return _find_class(float_module_class, DYNAMIC, additional_dynamic_quant_mapping)


def get_default_float_to_quantized_operator_mappings() -> dict[Any, Any]:
    """Return the functions that quantized tensors have operators for: {function: operator}."""
    return {F.elu: _q.elu, F.hardswish: _q.hardswish, F.instance_norm: _q.instance_norm,
            F.layer_norm: _q.layer_norm, F.leaky_relu: _q.leaky_relu, F.dropout: _q.dropout}


def get_quantized_operator(float_op: Any) -> Any:
    """Return the operator on quantized tensors for a function; AssertionError if none."""
    operator = get_default_float_to_quantized_operator_mappings().get(float_op)
    assert operator is not None, f"Operator {float_op} does not have corresponding quantized op"
    return operator


def _find_class(float_class: Any, mapping: dict[Any, Any], additional: Any) -> Any:
    counterpart = {**mapping, **(additional or {})}.get(float_class)
    assert counterpart is not None, (f"Floating point module class {float_class} does not have a "
                                     "corresponding quantized module class")
    return counterpart
