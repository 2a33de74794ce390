"""Operators on quantized tensors, fake quantization, and products of integers.

As a namespace it is `torch.ops.quantized`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ...tensor.absent import Lacking

_HOMES = {
    **dict.fromkeys((
        "LinearPackedParams", "LinearPackedParamsFp16", "linear", "linear_dynamic",
        "linear_dynamic_fp16", "linear_prepack", "linear_prepack_fp16", "linear_relu",
        "linear_relu_dynamic", "linear_unpack", "linear_unpack_fp16",
    ), "packed_linear"),
    **dict.fromkeys((
        "conv1d", "conv1d_prepack", "conv1d_relu", "conv1d_unpack", "conv2d", "conv2d_prepack",
        "conv2d_relu", "conv2d_unpack", "conv3d", "conv3d_prepack", "conv3d_relu",
        "conv3d_unpack",
    ), "packed_conv"),
    **dict.fromkeys((
        "CellParams", "make_quantized_cell_params_dynamic", "make_quantized_cell_params_fp16",
        "quantized_gru_cell_dynamic", "quantized_lstm_cell_dynamic",
        "quantized_rnn_relu_cell_dynamic", "quantized_rnn_tanh_cell_dynamic",
    ), "recurrent"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name.startswith("_"):
        raise AttributeError(name)
    return Lacking(f"torch.ops.quantized.{name}")
