"""torch.ao.ns.fx.weight_utils: reads the weights of a graph's layers, float or quantized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....fx import GraphModule, Node
from ....nn import functional as F
from ....nn import modules as nn
from ....ops import quantized as _q
from ....tensor import Tensor
from ...nn import intrinsic, qat, quantized
from ...nn.quantized import dynamic
from ...quantization.utils import getattr_from_fqn
from .node_types import get_target_type_str, return_first_non_observer_node
from .ns_types import NSSingleResultType, NSSingleResultValuesType

__all__ = ["extract_weight_from_node", "get_op_to_type_to_weight_extraction_fn"]

WeightReaders = dict[str, dict[Callable[..., Any], Callable[..., Any]]]


def mod_weight_detach(mod: Any) -> Tensor:
    """Return a float layer's weight."""
    weight: Tensor = mod.weight.detach()
    return weight


def mod_0_weight_detach(mod: Any) -> Tensor:
    """Return the weight of a fused float layer."""
    return mod_weight_detach(mod[0])


def mod_weight_bias_0(mod: Any) -> Tensor:
    """Return a quantized layer's weight."""
    weight: Tensor = mod._weight_bias()[0]
    return weight


def get_lstm_weight(mod: Any) -> list[Tensor]:
    """Return the weights of a float LSTM, those of inputs and of hidden states in turn."""
    return [weight.detach() for name, weight in zip(
        mod._flat_weights_names, mod._flat_weights, strict=True) if name.startswith("weight_")]


def get_qlstm_weight(mod: Any) -> list[Tensor]:
    """Return the weights of a dynamically quantized LSTM."""
    return [packed.unpack()[0] for cell in mod._all_weight_values
            for packed in (cell.param.packed_ih, cell.param.packed_hh)]


def _read_attribute(node: Any, gm: GraphModule) -> Any:
    assert isinstance(node, Node), f"Expected Node, got {type(node)}"
    assert node.op == "get_attr", f"Expected get_attr, got {node.op}"
    return getattr_from_fqn(gm, str(node.target))


def get_conv_fun_weight(node: Any, gm: GraphModule) -> Tensor:
    """Return the weight that F.conv1d to F.conv3d take, perhaps behind an observer."""
    return _read_attribute(return_first_non_observer_node(node.args[1], gm), gm).detach()


def get_qconv_fun_weight(node: Any, gm: GraphModule) -> Tensor:
    """Return the weight within the packed parameters of a quantized convolution."""
    return _read_attribute(node.args[1], gm).unpack()[0]


def get_linear_fun_weight(node: Any, gm: GraphModule) -> Tensor:
    """Return the weight that F.linear takes: plain, behind an observer, or rounded to float16."""
    source = node.args[1]
    if source.op != "call_method":  # float16: weight -> to -> dequantize -> linear
        return get_conv_fun_weight(node, gm)
    cast = source.args[0]
    return _read_attribute(cast.args[0], gm).detach().to(cast.args[1])


get_qlinear_fun_weight = get_qconv_fun_weight


def get_op_to_type_to_weight_extraction_fn() -> WeightReaders:
    """Return {"call_module": {class: function of a module}, "call_function": {function: ...}}."""
    by_class: dict[Any, Any] = {nn.LSTM: get_lstm_weight, dynamic.LSTM: get_qlstm_weight,
                                nn.linear.NonDynamicallyQuantizableLinear: mod_weight_detach,
                                dynamic.Linear: mod_weight_bias_0,
                                intrinsic.qat.LinearBn1d: mod_weight_detach}
    for layer in ("Linear", "Conv1d", "Conv2d", "Conv3d"):
        fused = layer.replace("Linear", "LinearReLU").replace("Conv", "ConvReLU")
        for home in (nn, qat):
            by_class[getattr(home, layer)] = mod_weight_detach
        by_class[getattr(intrinsic.qat, fused)] = mod_weight_detach
        by_class[getattr(intrinsic, fused)] = mod_0_weight_detach
        by_class[getattr(quantized, layer)] = mod_weight_bias_0
        by_class[getattr(intrinsic.quantized, fused)] = mod_weight_bias_0
    by_function: dict[Any, Any] = {
        F.linear: get_linear_fun_weight, _q.linear: get_qlinear_fun_weight,
        _q.linear_relu: get_qlinear_fun_weight}
    for rank in (1, 2, 3):
        for name in (f"ConvBn{rank}d", f"ConvBnReLU{rank}d"):
            by_class[getattr(intrinsic.qat, name)] = mod_weight_detach
        by_function[getattr(F, f"conv{rank}d")] = get_conv_fun_weight
        for name in (f"conv{rank}d", f"conv{rank}d_relu"):
            by_function[getattr(_q, name)] = get_qconv_fun_weight
    return {"call_module": by_class, "call_function": by_function}


def extract_weight_from_node(
    node: Node, gm: GraphModule,
    op_to_type_to_weight_extraction_fn: WeightReaders | None = None,
) -> NSSingleResultType | None:
    """Return the weight of a node's layer and where it comes from; None for other nodes."""
    readers = op_to_type_to_weight_extraction_fn or get_op_to_type_to_weight_extraction_fn()
    called: Any = node.target
    args: tuple[Any, ...] = (node, gm)
    if node.op == "call_module":
        args = getattr_from_fqn(gm, str(node.target)),
        called = type(args[0])
    reader = readers.get(node.op, {}).get(called)
    if reader is None:
        return None
    scopes = getattr(gm, "_node_name_to_scope", None)
    name = get_target_type_str(node, gm)
    return {
        "type": NSSingleResultValuesType.WEIGHT.value, "values": [reader(*args)],
        "prev_node_name": node.name, "prev_node_target_type": name,
        "ref_node_name": node.name, "ref_node_target_type": name,
        "index_within_arg": 0, "index_of_arg": 0,
        "fqn": None if scopes is None else scopes[node.name][0],
    }
