"""Lower reference models: fuse dequantize, float operator and quantize into one integer operator.

Operators without an integer form stay in floats.
"""

from __future__ import annotations

import operator
from typing import Any

from .... import ops
from ....fx import Graph, GraphModule, Node
from ....nn import functional as F
from ....nn import modules as nn_modules
from ....ops import quantized as _q
from ....tensor.dtypes import float16, qint8
from ...nn import intrinsic, quantized
from ...nn.intrinsic import quantized as fused
from ...nn.quantized import dynamic, reference
from ..backend_config.operator_patterns import (
    SHARING_FUNCTIONS, SHARING_METHODS, SHARING_MODULES,
)

_STATIC = {getattr(reference, name): getattr(quantized, name)
           for name in ("Linear", "Conv1d", "Conv2d", "Conv3d")}
_FUSED = {
    intrinsic.LinearReLU: fused.LinearReLU, intrinsic.LinearLeakyReLU: fused.LinearLeakyReLU,
    intrinsic.LinearTanh: fused.LinearTanh, intrinsic.ConvReLU1d: fused.ConvReLU1d,
    intrinsic.ConvReLU2d: fused.ConvReLU2d, intrinsic.ConvReLU3d: fused.ConvReLU3d,
}
_TWO_INPUTS = {intrinsic.ConvAdd2d: fused.ConvAdd2d,
               intrinsic.ConvAddReLU2d: fused.ConvAddReLU2d}
_DYNAMIC = {getattr(reference, name): getattr(dynamic, name)
            for name in ("Linear", "GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")}
_TABLES = {getattr(reference, name): getattr(quantized, name)
           for name in ("Embedding", "EmbeddingBag")}
# Modules whose results need an output scale.
_SCALED_MODULES: dict[Any, Any] = {
    **{getattr(reference, f"ConvTranspose{rank}d"): getattr(quantized, f"ConvTranspose{rank}d")
       for rank in (1, 2, 3)},
    **{getattr(nn_modules, name): getattr(quantized, name) for name in (
        "BatchNorm2d", "BatchNorm3d", "ELU", "LeakyReLU", "Hardswish", "InstanceNorm1d",
        "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "Dropout", "Softmax", "PReLU")},
    intrinsic.BNReLU2d: fused.BNReLU2d, intrinsic.BNReLU3d: fused.BNReLU3d,
}
_SCALED_FUNCTIONS = {
    F.elu: _q.elu, F.hardswish: _q.hardswish, F.instance_norm: _q.instance_norm,
    F.layer_norm: _q.layer_norm, F.leaky_relu: _q.leaky_relu, F.dropout: _q.dropout,
}
_DROPPED_ARGUMENTS = {
    _q.hardswish: ("inplace",), _q.elu: ("inplace",), _q.dropout: ("inplace",),
    _q.instance_norm: ("running_mean", "running_var", "use_input_stats", "momentum"),
}
# Operators whose results have a known scale: they accept quantized tensors directly.
_FIXED = (F.hardsigmoid, F.sigmoid, ops.sigmoid, ops.tanh, "hardsigmoid", "hardsigmoid_",
          "sigmoid", "sigmoid_", "tanh", "tanh_", nn_modules.Hardsigmoid, nn_modules.Sigmoid,
          nn_modules.Tanh, nn_modules.Softmax)
_SHARING = (*SHARING_FUNCTIONS, *SHARING_METHODS, *SHARING_MODULES, ops.cat,
            ops.channel_shuffle, nn_modules.ChannelShuffle)
_WEIGHTED = {F.linear: (_q.linear, _q.linear_relu)}
for _rank in (1, 2, 3):
    _WEIGHTED[getattr(F, f"conv{_rank}d")] = (
        getattr(_q, f"conv{_rank}d"), getattr(_q, f"conv{_rank}d_relu"))
    _WEIGHTED[getattr(F, f"conv_transpose{_rank}d")] = (
        getattr(_q, f"conv_transpose{_rank}d"), None)
_PACK = {function: getattr(_q, f"{function.__name__}_prepack") for function in _WEIGHTED}
_PACKERS = {*_PACK.values(), _q.linear_prepack_fp16}
_DYNAMIC_FUNCTIONS = {
    (F.linear, qint8): (_q.linear_dynamic, _q.linear_relu_dynamic),
    (F.linear, float16): (_q.linear_dynamic_fp16, _q.linear_relu_dynamic_fp16),
}
_BINARY = {operator.add: (_q.add, _q.add_relu), ops.add: (_q.add, _q.add_relu),
           operator.mul: (_q.mul, _q.mul_relu), ops.mul: (_q.mul, _q.mul_relu),
           ops.matmul: (_q.matmul, None), operator.matmul: (_q.matmul, None)}


def list_lowered_forms() -> list[tuple[Any, Any]]:
    """Pairs of a float or reference module or function and what it is lowered to."""
    pairs = [pair for table in (_STATIC, _FUSED, _TWO_INPUTS, _DYNAMIC, _TABLES, _SCALED_MODULES,
                                _SCALED_FUNCTIONS) for pair in table.items()]
    return pairs + [(function, form) for table in (_WEIGHTED, _BINARY)
                    for function, forms in table.items() for form in forms if form is not None]


def _is_call(node: Any, op: str, *targets: Any) -> bool:
    return isinstance(node, Node) and node.op == op and node.target in targets


def _is_dequantize(node: Any) -> bool:
    return _is_call(node, "call_method", "dequantize")


def find_producers(node: Node) -> list[Node] | None:
    """Return the nodes that a value depends on, in execution order; None if one is an input."""
    producers, frontier = {node}, [node]
    while frontier:
        for arg in frontier.pop().all_input_nodes:
            if arg.op == "placeholder":
                return None
            if arg not in producers:
                producers.add(arg)
                frontier.append(arg)
    return sorted(producers)


def evaluate(model: Any, producers: list[Node]) -> Any:
    """Evaluate several nodes that depend on no inputs and return the last one's value."""
    graph = Graph()
    values: dict[Node, Node] = {}
    for node in producers:
        values[node] = graph.node_copy(node, lambda n: values[n])
    graph.output(values[producers[-1]])
    return GraphModule(model, graph)()


def lower(
    model: Any, qconfigs: dict[str, Any], scopes: dict[str, Any], keep_weights: bool = False
) -> Any:
    """Lower the reference model to integer operators."""
    lowering = _Lowering(model, qconfigs)
    for step in (lowering.lower_module, lowering.lower_dynamic_module, lowering.lower_function,
                 lowering.lower_binary, lowering.lower_shape, lowering.lower_plain):
        lowering.look_up_modules()
        for node in list(model.graph.nodes):
            if not node._erased:
                step(node)
    for node in reversed(list(model.graph.nodes)):
        if not node._erased:
            lowering.lower_dynamic_function(node)
    model.graph.eliminate_dead_code()
    return _pack_weights(model, scopes, keep_weights)


class _Lowering:
    """Lowers one reference model, one kind of pattern at a time."""

    def __init__(self, model: Any, qconfigs: dict[str, Any]) -> None:
        self.model, self.graph, self.qconfigs = model, model.graph, qconfigs
        self.look_up_modules()

    def look_up_modules(self) -> None:
        """Refresh the table of modules. A module that is called twice is swapped twice."""
        self.modules = dict(self.model.named_modules(remove_duplicate=False))

    # -------------------------------------------------------------- what patterns have in common

    def _find_module(self, node: Any) -> Any:
        is_module = isinstance(node, Node) and node.op == "call_module"
        return self.modules[str(node.target)] if is_module else None

    def _is_kind(self, node: Any, targets: Any) -> bool:
        """Whether a node calls one of these functions, methods or module classes."""
        if not isinstance(node, Node) or not node.op.startswith("call_"):
            return False
        key = type(self._find_module(node)) if node.op == "call_module" else node.target
        return key in targets

    def _is_skipped(self, node: Node) -> bool:
        return node.name in self.qconfigs and self.qconfigs[node.name] is None

    def _find_before(self, quantize: Node, targets: Any, with_relu: bool = True) -> Any:
        """Return the node with one of these targets that feeds a quantize, and the ReLU between."""
        if not _is_call(quantize, "call_function", ops.quantize_per_tensor):
            return None, None
        node, relu = quantize.args[0], None
        is_relu = _is_call(node, "call_function", F.relu, ops.relu) \
            or type(self._find_module(node)) is nn_modules.ReLU
        if is_relu and with_relu:
            node, relu = node.args[0], node  # type: ignore[union-attr]
        if not self._is_kind(node, targets) or self._is_skipped(node):  # type: ignore[arg-type]
            return None, None
        return node, relu

    def _parameters(self, quantize: Node) -> tuple[Any, Any]:
        """The output's scale and zero point."""
        scale, zero_point = quantize.args[1:3]
        return (getattr(self.model, str(scale.target)),  # type: ignore[union-attr]
                getattr(self.model, str(zero_point.target)))  # type: ignore[union-attr]

    def _swap(self, node: Node, module: Any) -> None:
        parent, _, name = str(node.target).rpartition(".")
        setattr(self.modules[parent], name, module)

    def _erase(self, *nodes: Any) -> None:
        for node in nodes:
            if isinstance(node, Node) and not node._erased and not node.users:
                self.graph.erase_node(node)

    def _take_integers(self, node: Node, arguments: Any) -> None:
        for arg in arguments:
            if _is_dequantize(arg):
                node.replace_input_with(arg, arg.args[0])

    # -------------------------------------------------------------- modules

    def lower_module(self, quantize: Node) -> None:
        """Lower linear layers and convolutions between a dequantize and a quantize."""
        lowered = {**_STATIC, **_FUSED, **_TWO_INPUTS}
        node, relu = self._find_before(quantize, lowered, False)
        if node is None:
            node, relu = self._find_before(quantize, lowered)
        if node is None or relu is not None:
            return
        module = self._find_module(node)
        module_class = type(module)
        operand_count = 2 if module_class in _TWO_INPUTS else 1
        inputs = node.args[:operand_count]
        if len(node.args) != operand_count or not all(map(_is_dequantize, inputs)):
            return
        if module_class not in _STATIC and type(module[0]) not in _STATIC:
            return
        self._swap(node, lowered[module_class].from_reference(module, *self._parameters(quantize)))
        self._take_integers(node, inputs)
        quantize.replace_all_uses_with(node)
        self.graph.erase_node(quantize)
        self._erase(*quantize.args[1:3])

    def lower_dynamic_module(self, node: Node) -> None:
        """Lower layers that quantize their input dynamically, and embeddings."""
        module = self._find_module(node)
        module_class = type(module)
        if module_class in _TABLES:
            self._swap(node, _TABLES[module_class].from_reference(module))
            return
        is_fused = module_class is intrinsic.LinearReLU and type(module[0]) is reference.Linear
        first = node.args[0] if node.args else None
        if not (module_class in _DYNAMIC or is_fused) or not _is_dequantize(first):
            return
        rounded: Any = first.args[0]  # type: ignore[union-attr]
        if not _is_call(rounded, "call_function", ops.quantize_per_tensor_dynamic):
            return
        twin: Any = intrinsic.quantized.dynamic.LinearReLU if is_fused else _DYNAMIC[module_class]
        self._swap(node, twin.from_reference(module))
        node.replace_input_with(first, rounded.args[0])  # type: ignore[arg-type]

    # -------------------------------------------------------------- functions

    def lower_function(self, quantize: Node) -> None:
        """Lower F.linear and convolutions of quantized tensors, packing their weights."""
        node, relu = self._find_before(quantize, _WEIGHTED)
        if node is None or not all(map(_is_dequantize, node.args[:2])):
            return
        x, weight, *settings = node.args
        codes: Any = weight.args[0]
        if not _is_call(codes, "call_function", ops.quantize_per_tensor,
                        ops.quantize_per_channel):
            return
        without_relu, with_relu = _WEIGHTED[node.target]
        scale, zero_point = quantize.args[1:3]
        with self.graph.inserting_before(scale):
            packed = self._pack(node, codes, settings)
        node.target = with_relu if relu is not None and with_relu is not None else without_relu
        node.args, node.kwargs = (x.args[0], packed, scale, zero_point), {}
        last = node if relu is None or with_relu is not None else relu
        quantize.replace_all_uses_with(last)
        zero_point.append(node)  # type: ignore[union-attr]
        if last is relu:
            node.append(relu)
        self.graph.erase_node(quantize)
        if last is node:
            self._erase(relu)

    def _pack(self, node: Node, codes: Any, settings: list[Any]) -> Node:
        """Return the node that packs a weight together with the function's other settings."""
        packer: Any = _PACK[node.target]
        kwargs = dict(node.kwargs)
        if node.target is F.linear:
            if codes.args[-1] is float16:
                packer = _q.linear_prepack_fp16
            if "bias" in kwargs:
                kwargs["B"] = kwargs.pop("bias")
        elif node.target in (F.conv1d, F.conv_transpose1d):
            indices = (1, 2, 3) if node.target is F.conv1d else (1, 2, 3, 5)
            settings = [(value,) if i in indices and isinstance(value, int) else value
                        for i, value in enumerate(settings)]
        if "transpose" in getattr(node.target, "__name__", "") and len(settings) > 5:
            settings[4], settings[5] = settings[5], settings[4]  # groups and dilation
        return self.graph.call_function(packer, (codes, *settings), kwargs)

    def lower_dynamic_function(self, last: Node) -> None:
        """Lower F.linear with dynamically quantized inputs."""
        node: Any = last
        relu = last if _is_call(last, "call_function", F.relu) \
            or type(self._find_module(last)) is nn_modules.ReLU else None
        if relu is not None:
            node = relu.args[0]
        if not _is_call(node, "call_function", F.linear) or self._is_skipped(node) \
                or not all(map(_is_dequantize, node.args[:2])):
            return
        x, weight, *settings = node.args
        rounded, codes = x.args[0], weight.args[0]
        if not _is_call(rounded, "call_function", ops.quantize_per_tensor_dynamic):
            return
        source, dtype, reduce_range = rounded.args
        key = (node.target, codes.args[-1])
        if key not in _DYNAMIC_FUNCTIONS or (dtype is float16) != (codes.args[-1] is float16):
            return
        with self.graph.inserting_before(node):
            packed = self._pack(node, codes, settings)
        node.target = _DYNAMIC_FUNCTIONS[key][relu is not None]
        node.args, node.kwargs = (source, packed), {}
        if dtype is not float16:
            node.args = (source, packed, reduce_range)
        if relu is not None:
            relu.replace_all_uses_with(node)
            self.graph.erase_node(relu)

    def lower_binary(self, quantize: Node) -> None:
        """Lower sums and products of two quantized tensors, or of one and a number."""
        node, relu = self._find_before(quantize, _BINARY)
        if node is None or len(node.args) < 2:
            return
        count = sum(map(_is_dequantize, node.args[:2]))
        if not count or any(isinstance(arg, Node) and not _is_dequantize(arg)
                            for arg in node.args[:2]):
            return
        function = _BINARY[node.target][relu is not None]
        if function is None:
            return
        args = tuple(arg.args[0] if _is_dequantize(arg) else arg for arg in node.args)
        with self.graph.inserting_after(quantize):
            result = self.graph.call_function(
                function, args + (quantize.args[1:3] if count == 2 else ()))
        quantize.replace_all_uses_with(result)
        self._erase(quantize, relu, node)

    def lower_shape(self, node: Node) -> None:
        """Read shapes from the quantized tensor."""
        if (_is_call(node, "call_function", getattr) and node.args[1] == "shape") \
                or _is_call(node, "call_method", "shape", "size"):
            first = node.args[0]
            if _is_dequantize(first):
                node.args = (first.args[0], *node.args[1:])  # type: ignore[union-attr]

    def lower_plain(self, quantize: Node) -> None:
        """Lower operators that compute on the integers, and those that take an output scale."""
        is_half = _is_call(quantize, "call_method", "to") and quantize.args[1:] == (float16,)
        if not is_half and not _is_call(quantize, "call_function", ops.quantize_per_tensor):
            return
        node: Any = quantize.args[0]
        is_scaled = self._is_kind(node, {**_SCALED_MODULES, **_SCALED_FUNCTIONS})
        is_fixed = self._is_kind(node, _FIXED)
        if not (is_scaled or is_fixed or self._is_kind(node, _SHARING)) \
                or (is_half and (is_scaled or is_fixed)):
            return
        first = node.args[0] if node.args else next(iter(node.kwargs.values()))
        group = [first] if isinstance(first, Node) else list(first)
        if not all(map(_is_dequantize, group)):
            return
        twin = _SCALED_MODULES.get(type(self._find_module(node)))
        if twin is not None and not is_half:
            reference = self._find_module(node)
            self._swap(node, twin.from_reference(reference, *self._parameters(quantize)))
        self._take_integers(node, group)
        parameters = quantize.args[1:3]
        quantize.replace_all_uses_with(node)
        self.graph.erase_node(quantize)
        if is_scaled and node.op == "call_function":
            self._rescale(node, parameters)
        else:
            self._erase(*parameters)

    def _rescale(self, node: Node, parameters: Any) -> None:
        """Call the integer function that takes an output scale."""
        function = _SCALED_FUNCTIONS[node.target]
        dropped = _DROPPED_ARGUMENTS.get(function, ())
        kwargs = {name: value for name, value in node.kwargs.items() if name not in dropped}
        kwargs |= {"output_scale": parameters[0], "output_zero_point": parameters[1]}
        with self.graph.inserting_after(parameters[1]):
            result = self.graph.call_function(function, node.args, kwargs)
        node.replace_all_uses_with(result)
        self.graph.erase_node(node)


# ------------------------------------------------------------------ packed weights

def _pack_weights(model: Any, scopes: dict[str, Any], keep_weights: bool) -> Any:
    """Replace weights that functions take by packed weights stored on the model."""
    originals: dict[str, Any] = {}
    for node in list(model.graph.nodes):
        producers = find_producers(node) if _is_call(node, "call_function", *_PACKERS) else None
        if producers is None:
            continue
        owner = scopes[next(iter(node.users)).name][0]
        prefix, index = f"{owner}_packed_weight_".replace(".", "_"), 0
        while hasattr(model, f"{prefix}{index}"):
            index += 1
        name = f"{prefix}{index}"
        setattr(model, name, evaluate(model, producers))
        if keep_weights:
            originals[name.lower()] = _find_originals(model, producers)
        with model.graph.inserting_before(node):
            packed = model.graph.create_node("get_attr", name)
        node.replace_all_uses_with(packed)
        model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    result = GraphModule(model, model.graph)
    result._register_state_dict_hook(_save_packed)
    result.register_load_state_dict_pre_hook(_load_packed)
    if keep_weights:
        result.original_weights_lookup = originals
    result.graph.lint()
    return result


def _find_originals(model: Any, producers: list[Node]) -> list[Any]:
    """The weight and the bias that were packed."""
    values = [model.get_parameter(str(node.target)) for node in producers
              if node.op == "get_attr" and str(node.target) in dict(model.named_parameters())]
    return [*sorted(values, key=lambda value: -value.numel()), None][:2]


def _save_packed(module: Any, destination: Any, prefix: str, *_: Any) -> None:
    for name, value in vars(module).items():
        if "_packed_weight" in name:
            destination[prefix + name] = value


def _load_packed(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
    for name in [name for name in state_dict if name.startswith("_packed_weight")]:
        setattr(module, name, state_dict.pop(name))
