"""Which quantized module stands for which float one."""

from __future__ import annotations

from typing import Any

from ...nn import modules
from ..nn import quantized
from ..nn.quantized import dynamic
from .stubs import DeQuantStub, QuantStub

DYNAMIC: dict[Any, Any] = {
    modules.GRUCell: dynamic.GRUCell,
    modules.Linear: dynamic.Linear,
    modules.linear.NonDynamicallyQuantizableLinear: dynamic.Linear,
    modules.LSTM: dynamic.LSTM,
    modules.GRU: dynamic.GRU,
    modules.LSTMCell: dynamic.LSTMCell,
    modules.RNNCell: dynamic.RNNCell,
}
STATIC: dict[Any, Any] = {
    QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize,
    modules.Linear: quantized.Linear,
    modules.linear.NonDynamicallyQuantizableLinear: quantized.Linear,
}
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
