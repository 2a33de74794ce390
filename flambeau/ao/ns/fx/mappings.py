"""torch.ao.ns.fx.mappings: which operators are forms of the same one, and what they take.

A layer's forms (float, fused, trained, reference, quantized) come from the tables of graph mode.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .... import ops
from ....nn import functional as F
from ....nn import modules as nn
from ....ops import quantized as _q
from ...nn import intrinsic, qat, quantized
from ...nn.quantized import dynamic
from ...quantization.backend_config import get_native_backend_config
from ...quantization.fx import lowering
from ...quantization.fx.match_utils import root_of
from ...quantization.quantization_mappings import (
    DYNAMIC, get_default_float_to_quantized_operator_mappings,
)
from .ns_types import NSNodeTargetType

__all__ = ["add_op_to_sets_of_related_ops", "get_base_name_for_op",
           "get_base_name_to_sets_of_related_ops", "get_node_type_to_io_type_map",
           "get_unmatchable_types_map"]

OperatorSets = dict[str, set[NSNodeTargetType]]


def _collect(home: Any, names: str) -> list[Any]:
    return [getattr(home, name) for name in names.split()]


# Operators with several float forms.
_GROUPS: list[list[Any]] = [
    *([getattr(nn, f"AvgPool{rank}d"), getattr(F, f"avg_pool{rank}d")] for rank in (1, 2, 3)),
    *([getattr(nn, f"AdaptiveAvgPool{rank}d"), getattr(F, f"adaptive_avg_pool{rank}d")]
      for rank in (1, 2, 3)),
    *([getattr(nn, f"MaxPool{rank}d"), getattr(F, f"max_pool{rank}d")] for rank in (1, 2, 3)),
    [ops.add, operator.add], [ops.mul, operator.mul],
    [nn.ReLU, F.relu, ops.relu, "relu", "relu_"],
    [nn.Sigmoid, F.sigmoid, ops.sigmoid, "sigmoid", "sigmoid_"],
    [nn.Tanh, F.tanh, ops.tanh, "tanh", "tanh_"],
    [nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_"],
    [nn.Hardtanh, F.hardtanh, F.hardtanh_], [nn.ReLU6, F.relu6], [nn.SiLU, F.silu],
    [nn.Mish, F.mish],
    [nn.Linear, nn.linear.NonDynamicallyQuantizableLinear, intrinsic.LinearLeakyReLU,
     intrinsic.LinearTanh],
    [nn.Conv2d, intrinsic.ConvAdd2d, intrinsic.ConvAddReLU2d],
    [nn.PReLU, quantized.PReLU], [F.prelu, _q.prelu],
]
# Operators with a single float form.
_SINGLE: list[Any] = [
    *_collect(nn, "Conv1d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LSTM "
              "BatchNorm2d BatchNorm3d ELU Embedding EmbeddingBag GroupNorm Hardswish "
              "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Dropout Softmax "
              "PixelShuffle PixelUnshuffle"),
    *_collect(F, "conv1d conv2d conv3d linear conv_transpose1d conv_transpose2d conv_transpose3d "
              "elu hardswish group_norm instance_norm layer_norm leaky_relu interpolate dropout "
              "pixel_shuffle pixel_unshuffle"),
    *_collect(ops, "cat unsqueeze stack squeeze sort repeat_interleave min mean max transpose "
              "flatten clamp chunk matmul narrow"),
    operator.floordiv,
]


def _list_forms() -> Iterable[tuple[Any, Any]]:
    """Pairs of an operator and another form of it, from the tables of graph mode."""
    for pattern, config in get_native_backend_config()._pattern_complex_format_to_config.items():
        root = root_of(pattern, None)
        yield from ((root, form) for form in (
            config.fused_module, config.qat_module, config.reference_quantized_module) if form)
    yield from lowering.list_lowered_forms()
    yield from get_default_float_to_quantized_operator_mappings().items()
    yield from DYNAMIC.items()


def get_base_name_to_sets_of_related_ops() -> OperatorSets:
    """Return sets of operators that are forms of the same one, by arbitrary names."""
    neighbours: dict[Any, set[Any]] = defaultdict(set)
    for a, b in _list_forms():
        neighbours[a].add(b)
        neighbours[b].add(a)
    result: OperatorSets = {}
    for group in (*_GROUPS, *([single] for single in _SINGLE)):
        related, frontier = set(group), list(group)
        while frontier:
            new = neighbours[frontier.pop()] - related
            related |= new
            frontier.extend(new)
        result[str(len(result))] = related
    return result


def get_base_name_for_op(
    base_name_to_sets_of_related_ops: OperatorSets, op: NSNodeTargetType
) -> str | None:
    """Return the name of the set that holds an operator, or None."""
    return next((name for name, related in base_name_to_sets_of_related_ops.items()
                 if op in related), None)


def add_op_to_sets_of_related_ops(
    base_name_to_sets_of_related_ops: OperatorSets, op: NSNodeTargetType,
    related_op: NSNodeTargetType | None,
) -> None:
    """Add an operator to the set of another one, or to a new set.

    AssertionError if no set holds `related_op`.
    """
    sets = base_name_to_sets_of_related_ops
    if related_op is None:
        sets[next(name for name in map(str, range(len(sets) + 1)) if name not in sets)] = {op}
        return
    name = get_base_name_for_op(sets, related_op)
    assert name is not None, f"{related_op} was not found"
    sets[name].add(op)


def get_node_type_to_io_type_map() -> OperatorSets:
    """Return the operators by the dtypes that they take: float32, float16, integers or either."""
    return {
        "funs_io_type_fp32": {
            operator.add, operator.mul, *_collect(ops, "cat add mul sum"),
            *_collect(F, "linear conv1d conv2d conv3d elu hardswish instance_norm layer_norm "
                      "leaky_relu dropout silu mish prelu")},
        "funs_io_type_fp16": set(),
        "funs_io_type_int8": set(_collect(
            _q, "linear linear_relu conv1d conv1d_relu conv2d conv2d_relu conv3d conv3d_relu cat "
            "elu hardswish instance_norm layer_norm leaky_relu dropout prelu")),
        "funs_io_type_fp32_or_int8": {
            operator.floordiv, operator.add,
            *_collect(F, "relu tanh sigmoid hardsigmoid adaptive_avg_pool1d adaptive_avg_pool2d "
                      "adaptive_avg_pool3d dropout hardtanh hardtanh_ interpolate max_pool1d "
                      "max_pool2d max_pool3d relu6 pixel_shuffle pixel_unshuffle avg_pool1d "
                      "avg_pool2d avg_pool3d"),
            *_collect(ops, "tanh sigmoid cat chunk clamp flatten transpose max mean min narrow "
                      "repeat_interleave sort squeeze stack unsqueeze")},
        **_sort_modules_by_dtype(),
        "meths_io_type_fp32_or_int8": {
            name + suffix for name in ("sigmoid", "tanh", "hardsigmoid", "relu")
            for suffix in ("", "_")},
    }


def _sort_modules_by_dtype() -> OperatorSets:
    trained_by_name = ("ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d "
                       "ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU LinearBn1d")
    return {
        "mods_io_type_fp32": {
            *_collect(nn, "Linear Conv1d Conv2d Conv3d LSTM BatchNorm2d BatchNorm3d Dropout "
                      "ConvTranspose1d ConvTranspose2d ConvTranspose3d ELU GroupNorm "
                      "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm Hardswish "
                      "LeakyReLU ReLU6 SiLU Mish Softmax PReLU"),
            nn.linear.NonDynamicallyQuantizableLinear,
            *_collect(qat, "Linear Conv1d Conv2d Conv3d Embedding EmbeddingBag"),
            qat.dynamic.Linear, dynamic.Linear, dynamic.LSTM,
            *_collect(intrinsic, "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU "
                      "LinearBn1d ConvBn1d ConvBn2d ConvBn3d LinearLeakyReLU LinearTanh ConvAdd2d "
                      "ConvAddReLU2d"),
            *_collect(intrinsic.qat, trained_by_name), intrinsic.quantized.dynamic.LinearReLU},
        "mods_io_type_int8": {
            *_collect(quantized, "Linear Conv1d Conv2d Conv3d BatchNorm2d BatchNorm3d Dropout "
                      "ConvTranspose1d ConvTranspose2d ELU InstanceNorm1d InstanceNorm2d "
                      "InstanceNorm3d LayerNorm Hardswish LeakyReLU Embedding EmbeddingBag "
                      "Softmax PReLU"),
            *_collect(intrinsic.quantized, "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d "
                      "LinearReLU LinearLeakyReLU LinearTanh ConvAdd2d ConvAddReLU2d")},
        "mods_io_type_fp32_or_int8": set(_collect(
            nn, "ReLU Tanh Sigmoid Hardsigmoid AdaptiveAvgPool1d AdaptiveAvgPool2d "
            "AdaptiveAvgPool3d AvgPool1d AvgPool2d AvgPool3d Dropout Hardtanh Identity MaxPool1d "
            "MaxPool2d MaxPool3d PixelShuffle PixelUnshuffle ReLU6")),
    }


def get_unmatchable_types_map() -> OperatorSets:
    """Return the operators that are not compared: casts, views and sizes."""
    return {
        "funs_unmatchable": {ops.quantize_per_tensor, operator.getitem},
        "mods_unmatchable": {nn.Identity},
        "meths_unmatchable": {*(
            "to dequantize reshape view unsqueeze_ unsqueeze transpose squeeze_ squeeze size shape "
            "resize_ repeat_interleave repeat permute numel mean detach_ detach contiguous clamp "
            "chunk").split()},
    }
