"""Operators on quantized tensors, fake quantization, and products of integers.

As a namespace it is `torch.ops.quantized`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ...tensor.absent import Lacking
from ..interception import torch_function

_HOMES = {
    **dict.fromkeys((
        "LinearPackedParams", "LinearPackedParamsFp16", "linear", "linear_dynamic",
        "linear_dynamic_fp16", "linear_dynamic_fp16_unpacked_weight", "linear_leaky_relu",
        "linear_prepack", "linear_prepack_fp16", "linear_relu", "linear_relu_dynamic",
        "linear_relu_dynamic_fp16", "linear_tanh", "linear_unpack", "linear_unpack_fp16",
        "linear_with_input_q_dq_qweight_dq_output_fp32",
        "linear_with_input_q_dq_qweight_dq_relu_output_fp32",
    ), "packed_linear"),
    **{f"{kind}{rank}d{end}": "packed_conv" for rank in (1, 2, 3)
       for kind, ends in (("conv", ("", "_dynamic", "_prepack", "_relu", "_unpack")),
                          ("conv_transpose", ("", "_dynamic", "_prepack", "_unpack")))
       for end in ends},
    **dict.fromkeys(("conv2d_add", "conv2d_add_relu"), "packed_conv"),
    **dict.fromkeys((
        "CellParams", "make_quantized_cell_params_dynamic", "make_quantized_cell_params_fp16",
        "quantized_gru_cell_dynamic", "quantized_lstm_cell_dynamic",
        "quantized_rnn_relu_cell_dynamic", "quantized_rnn_tanh_cell_dynamic",
    ), "recurrent"),
    **dict.fromkeys((
        "add", "add_relu", "add_scalar", "add_scalar_relu", "batch_norm", "batch_norm1d",
        "batch_norm1d_relu", "batch_norm2d", "batch_norm2d_relu", "batch_norm3d",
        "batch_norm3d_relu", "batch_norm_relu", "cat", "cat_out", "cat_relu", "cat_relu_out",
        "celu", "clamp", "dropout", "elu", "group_norm", "hardswish", "instance_norm",
        "layer_norm", "leaky_relu", "matmul", "max_pool1d", "max_pool2d", "max_pool3d", "mul",
        "mul_relu", "mul_scalar", "mul_scalar_relu", "prelu", "relu6", "sigmoid", "softmax",
        "threshold",
    ), "arithmetic"),
    **dict.fromkeys((
        "embedding_2bit", "embedding_4bit", "embedding_bag_2bit", "embedding_bag_2bit_prepack",
        "embedding_bag_2bit_rowwise_offsets", "embedding_bag_2bit_unpack", "embedding_bag_4bit",
        "embedding_bag_4bit_prepack", "embedding_bag_4bit_rowwise_offsets",
        "embedding_bag_4bit_unpack", "embedding_bag_byte", "embedding_bag_byte_prepack",
        "embedding_bag_byte_rowwise_offsets", "embedding_bag_byte_unpack",
        "embedding_bag_prepack", "embedding_bag_unpack", "embedding_byte",
    ), "packed_tables"),
}

_used: dict[str, Any] = {}
torch_function.NAMESPACES.append(_used)  # traces record their calls


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        if name not in _used:
            _used[name] = value
            if torch_function.ROUTES.is_on:
                torch_function.ROUTES.renew()
        return value
    if name in _HOMES.values():
        return importlib.import_module(f"{__name__}.{name}")
    if name.startswith("_"):
        raise AttributeError(name)
    return Lacking(f"torch.ops.quantized.{name}")
