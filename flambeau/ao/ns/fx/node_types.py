"""The dtypes that a node takes and returns, and other facts about one node of a graph."""

from __future__ import annotations

import enum
import operator
from typing import Any

from .... import ops
from ...._namespace.legacy_types import typename
from ....fx import GraphModule, Node
from ....nn import modules as nn
from ....ops import quantized as _q
from ....tensor.dtypes import float16
from ...nn import intrinsic, quantized
from ...quantization.fake_quantize import FakeQuantizeBase
from ...quantization.observer import ObserverBase, _is_activation_post_process
from ...quantization.utils import getattr_from_fqn
from .mappings import OperatorSets

__all__ = [
    "NodeInputOrOutputType", "get_arg_indices_of_inputs_to_log",
    "get_node_first_input_and_output_type", "get_node_input_qparams", "get_normalized_nth_input",
    "get_number_of_non_param_args", "get_target_type_str", "op_type_supports_shadowing",
    "return_first_non_observer_node",
]

_SCALED = (
    *(getattr(quantized, name) for name in (
        "Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm2d", "BatchNorm3d", "ELU", "GroupNorm",
        "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "Hardswish",
        "LeakyReLU", "ReLU6")),
    intrinsic.quantized.BNReLU2d, intrinsic.quantized.BNReLU3d)
_SUMS_AND_PRODUCTS = (ops.add, ops.mul, operator.add, operator.mul)


class NodeInputOrOutputType(enum.Enum):
    """The dtype of a value in a graph."""

    FP32 = enum.auto()
    INT8 = enum.auto()
    FP16 = enum.auto()
    UNKNOWN = enum.auto()
    FP32_OR_INT8 = enum.auto()


def _find_module(node: Any, gm: GraphModule) -> Any:
    """Return the module that a node calls, or None."""
    is_module = isinstance(node, Node) and node.op == "call_module"
    return getattr_from_fqn(gm, str(node.target)) if is_module else None


def get_node_first_input_and_output_type(
    node: Node, gm: GraphModule, logger_cls: Any, node_type_to_io_type_map: OperatorSets
) -> tuple[NodeInputOrOutputType, NodeInputOrOutputType]:
    """Return the dtypes of a node's first input and of its result."""
    sets, kind = node_type_to_io_type_map, NodeInputOrOutputType
    module = _find_module(node, gm)

    def is_among(suffix: str) -> bool:
        called = {"call_function": "funs", "call_module": "mods", "call_method": "meths"}
        members: Any = tuple(sets.get(f"{called.get(node.op)}_io_type_{suffix}", ()))
        return node.target in members if module is None else isinstance(module, members)

    def find_input_type() -> NodeInputOrOutputType:
        before = get_normalized_nth_input(node, gm, 0)
        assert isinstance(before, Node), f"Expected Node, got {type(before)}"
        return get_node_first_input_and_output_type(before, gm, logger_cls, sets)[1]

    if node.op == "call_method" and node.target == "dequantize":
        return find_input_type(), kind.FP32
    if node.op == "call_method" and node.target == "to":
        dtype = get_normalized_nth_input(node, gm, 1)
        assert dtype is float16, f"{dtype} handling needs to be added"
        return find_input_type(), kind.FP16
    passes_through = is_among("fp32_or_int8") or isinstance(
        module, (logger_cls, ObserverBase, FakeQuantizeBase))
    fixed = {"fp32": kind.FP32, "fp16": kind.FP16, "int8": kind.INT8}
    dtype = next((fixed[suffix] for suffix in fixed if is_among(suffix)), None)
    if passes_through and (module is not None or dtype is None):
        return (find_input_type(),) * 2
    return (dtype or kind.UNKNOWN,) * 2


def get_node_input_qparams(
    node: Node, gm: GraphModule, node_type_to_io_type_map: OperatorSets
) -> tuple[Any, Any] | None:
    """Return the scale and zero point of a node's first input; None if the graph does not say."""
    before = get_normalized_nth_input(node, gm, 0)
    if not isinstance(before, Node):
        return None
    if before.op == "call_function":
        if before.target is ops.quantize_per_tensor:
            places = (1, 2)
        elif before.target in (_q.add, _q.add_relu, _q.mul, _q.mul_relu):
            places = (2, 3)
        else:
            return None
        scale, zero_point = (get_normalized_nth_input(before, gm, place) for place in places)
        return (getattr_from_fqn(gm, str(scale.target)),
                getattr_from_fqn(gm, str(zero_point.target)))
    module = _find_module(before, gm)
    if isinstance(module, _SCALED):
        return module.scale, module.zero_point
    if isinstance(module, tuple(node_type_to_io_type_map["mods_io_type_fp32_or_int8"])):  # type: ignore[arg-type]
        return get_node_input_qparams(before, gm, node_type_to_io_type_map)
    return None


def return_first_non_observer_node(node: Node, gm: GraphModule) -> Node:
    """Return the node, or what is observed if it is an observer, perhaps of an observer."""
    for _ in range(2):
        if node.op != "call_module" or not _is_activation_post_process(_find_module(node, gm)):
            break
        node, = node.args  # type: ignore[assignment]
    return node


def get_number_of_non_param_args(node: Node, gm: GraphModule) -> int:
    """Return how many of a node's first arguments are no parameters: two for an LSTM, else one."""
    return 2 if isinstance(_find_module(node, gm), nn.LSTM) else 1


def get_arg_indices_of_inputs_to_log(node: Node) -> list[int]:
    """Return the places of a node's arguments that input loggers record."""
    if not node.args:
        return []
    if node.op == "call_function" and node.target in (*_SUMS_AND_PRODUCTS, _q.add, _q.mul):
        return [i for i in range(2) if type(node.args[i]) is Node]
    return [0]


def get_target_type_str(node: Node, gm: GraphModule) -> str:
    """Return the name of the function's or module's type that a node calls, or ""."""
    if node.op == "call_module":
        return typename(_find_module(node, gm))
    return typename(node.target) if node.op in ("call_function", "call_method") else ""


def op_type_supports_shadowing(node: Node) -> bool:
    """Whether a node may run a second time beside another form of it: not with several inputs."""
    return node.op != "call_function" or node.target not in (*_SUMS_AND_PRODUCTS, ops.cat,
                                                             ops.stack)


def list_arguments(node: Node, gm: GraphModule) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a node's arguments, by their parameters' names where the signature is known."""
    try:
        normalized = node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
    except RuntimeError:  # several signatures fit
        normalized = None
    return (node.args, node.kwargs) if normalized is None else tuple(normalized)


def get_normalized_nth_input(node: Node, gm: GraphModule, idx: int) -> Any:
    """Return a node's argument at a place in the signature; AssertionError beyond the last."""
    args, kwargs = list_arguments(node, gm)
    values = [*args, *kwargs.values()]
    assert idx < len(values), f"Index {idx} out of range: total = {len(values)}"
    return values[idx]
