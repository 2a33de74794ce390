"""Which quantized module stands for which float one."""

from __future__ import annotations

from typing import Any

from ...nn import modules
from ..nn import intrinsic, quantized
from ..nn.intrinsic import quantized as fused
from ..nn.quantized import dynamic
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
}
STATIC: dict[Any, Any] = {
    QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize,
    modules.Linear: quantized.Linear,
    modules.linear.NonDynamicallyQuantizableLinear: quantized.Linear,
    modules.Conv1d: quantized.Conv1d,
    modules.Conv2d: quantized.Conv2d,
    modules.Conv3d: quantized.Conv3d,
    modules.Embedding: quantized.Embedding,
    modules.EmbeddingBag: quantized.EmbeddingBag,
    quantized.FloatFunctional: quantized.QFunctional,
    intrinsic.ConvReLU1d: fused.ConvReLU1d,
    intrinsic.ConvReLU2d: fused.ConvReLU2d,
    intrinsic.ConvReLU3d: fused.ConvReLU3d,
    intrinsic.LinearReLU: fused.LinearReLU,
}
TABLES = (modules.Embedding, modules.EmbeddingBag)  # indices go in, float32 comes out
# What a static model can have between its stubs: these compute on quantized tensors as they are.
TRANSPARENT = (
    modules.ReLU, modules.ReLU6, modules.Hardtanh, modules.Sigmoid, modules.Tanh,
    modules.MaxPool2d, modules.AvgPool2d, modules.AdaptiveAvgPool2d, modules.Flatten,
    modules.Identity, modules.Dropout,
)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """The modules that `quantize_dynamic` replaces, and by what."""
    return dict(DYNAMIC)


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """The modules that `convert` replaces, and by what."""
    return dict(STATIC)
