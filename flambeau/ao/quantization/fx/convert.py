"""convert: observers become pairs of quantize and dequantize, weighted modules reference modules.

The result computes the quantized model's values in float32; `lowering` makes it integer.
"""

from __future__ import annotations

import copy
from typing import Any

from .... import ops
from ....fx import GraphModule, Node
from ....native.foundation.user_frames import warn
from ....nn import functional as F
from ....nn.utils.parametrize import type_before_parametrizations
from ....tensor import Tensor
from ....tensor.dtypes import QuantizedDtype, float16
from ...nn.intrinsic import _FusedModule
from ..backend_config import BackendConfig, get_native_backend_config
from ..observer import _is_activation_post_process
from ..qconfig import qconfig_equals
from ..qconfig_mapping import QConfigMapping
from ..quantize import observe_weights
from ..utils import activation_is_statically_quantized, is_per_channel, weight_is_quantized
from .constraints import has_supported_dtypes, is_argument
from .custom_config import ConvertCustomConfig
from .equalization import equalize
from .fuse import set_module
from .lowering import evaluate, lower, find_producers
from .prepare import ObservedAttributes, is_prepared_standalone
from .qconfig_mapping_utils import (
    adapt_to_fusion, adapt_to_qat, compare_mappings, resolve_qconfigs,
)
from .utils import find_free_name


def is_dequantize(node: Any) -> bool:
    """Whether a node dequantizes a tensor."""
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


def convert(
    model: Any, is_reference: bool, custom: ConvertCustomConfig, mapping: QConfigMapping | None,
    backend: BackendConfig | None, remove_qconfig: bool = True, keep_weights: bool = False,
    conversion: type[Conversion] | None = None,
) -> Any:
    """The prepared model in integers, or with `is_reference` in rounded floats.

    conversion: the class that builds the reference model.
    """
    attributes = getattr(model, "meta", {}).get("_observed_graph_module_attrs")
    if attributes is None:
        raise AssertionError("incoming model must be produced by prepare_fx")
    backend = get_native_backend_config() if backend is None else backend
    if mapping is not None:
        attributes = _apply_mapping(model, attributes, copy.deepcopy(mapping), backend)
    if attributes.equalization_node_name_to_qconfig is not None:
        equalize(model)
    (conversion or Conversion)(model, attributes, is_reference, custom, backend).run()
    model.graph.eliminate_dead_code()
    model = GraphModule(model, model.graph)
    if not is_reference:
        model = lower(model, attributes.node_name_to_qconfig, attributes.node_name_to_scope,
                      keep_weights)
    if remove_qconfig:
        for module in model.modules():
            module.__dict__.pop("qconfig", None)
            module._modules.pop("activation_post_process", None)
    model.delete_all_unused_submodules()
    model.meta.pop("_observed_graph_module_attrs", None)
    return model


def _apply_mapping(
    model: Any, attributes: ObservedAttributes, mapping: QConfigMapping, backend: BackendConfig
) -> ObservedAttributes:
    """Return the attributes with the QConfigs of another mapping, which may drop some nodes'."""
    if attributes.is_qat:
        adapt_to_qat(mapping, backend)
    adapt_to_fusion(model, mapping)
    compare_mappings(attributes.qconfig_mapping, mapping)
    modules = copy.deepcopy(dict(model.named_modules(remove_duplicate=False)))
    qconfigs = resolve_qconfigs(modules, model.graph, mapping, attributes.node_name_to_scope)
    for name, prepared_qconfig in attributes.node_name_to_qconfig.items():
        if name not in qconfigs:
            raise AssertionError(f"Expected key {name} in convert node_name_to_qconfig")
        if qconfigs[name] is not None and not qconfig_equals(prepared_qconfig, qconfigs[name]):
            raise AssertionError(
                f"Expected k {name} to have the same value in prepare and convert QConfigMappings,"
                f" but {prepared_qconfig} was updated to {qconfigs[name]}")
    attributes = copy.copy(attributes)
    attributes.node_name_to_qconfig = qconfigs
    return attributes


class Conversion:
    """One prepared model that becomes a reference model."""

    def __init__(
        self, model: Any, attributes: ObservedAttributes, is_reference: bool,
        custom: ConvertCustomConfig, backend: BackendConfig,
    ) -> None:
        self.model, self.graph, self.attributes = model, model.graph, attributes
        self.is_reference, self.backend = is_reference, backend
        self.custom: dict[type, Any] = {observed_class: quantized for classes in
                       custom.observed_to_quantized_mapping.values()
                       for observed_class, quantized in classes.items()}
        self.modules = dict(model.named_modules(remove_duplicate=False))
        configs = backend.configs
        self.twins = {config.root_module: config.reference_quantized_module for config in configs
                      if config.root_module and config.reference_quantized_module}
        self.trained = {config.qat_module for config in configs if config.qat_module}
        self.fused = {config.fused_module for config in configs if config.fused_module}
        self.integer_modules: set[Node] = set()

    def run(self) -> None:
        """Replace observers and modules, node by node."""
        self._observe_weights()
        inputs = 0
        for node in list(self.graph.nodes):
            if node.op == "placeholder":
                if inputs in self.attributes.prepare_custom_config.input_quantized_indexes:
                    self._insert_dequantize(node)
                inputs += 1
            elif node.op == "output":
                self._keep_quantized(node)
            elif node.op == "call_module":
                self._convert_module(node, self.modules[str(node.target)])

    def _convert_module(self, node: Node, module: Any) -> None:
        cls = type_before_parametrizations(module)
        if _is_activation_post_process(module):
            self._replace_observer(node, module)
        elif is_prepared_standalone(module):
            self._convert_standalone(node, module)
        elif cls in self.fused and type_before_parametrizations(module[0]) not in self.twins:
            return
        elif cls in self.twins or cls in self.trained or cls in self.fused:
            self._convert_weighted(node, module)
        elif cls in self.custom:
            self._convert_custom(node, module)

    # -------------------------------------------------------------- weights

    def _observe_weights(self) -> None:
        """Run the observers of weights that functions take."""
        for node in self.graph.nodes:
            if node.op != "call_function":
                continue
            config = self.backend._pattern_complex_format_to_config.get(node.target)
            index = None if config is None else config._input_type_to_index.get("weight")
            for arg in (*node.args, *node.kwargs.values()):
                if isinstance(arg, Node) and is_argument(node, arg, "weight", index):
                    producers = find_producers(arg)
                    if producers is not None:
                        evaluate(self.model, producers)

    def _convert_weighted(self, node: Node, module: Any) -> None:
        qconfig, observer, path = module.qconfig, None, str(node.target)
        if type(module) in self.trained:
            observer = module.weight_fake_quant
            module = module.to_float()
            self._set(path, module)
        if qconfig is None or self._lacks_qconfig(node) \
                or node.name not in self.attributes.observed_node_names:
            return
        config = self.backend._pattern_complex_format_to_config.get(type(module))
        if config is None or not has_supported_dtypes(qconfig, config.dtype_configs) \
                or not weight_is_quantized(qconfig):
            return
        inner = module[0] if isinstance(module, _FusedModule) else module
        twin = self.twins[type_before_parametrizations(inner)]
        result = twin.from_float(inner, observe_weights(inner, qconfig, observer))
        if inner is module:
            self._set(path, result)
        else:
            module[0] = result

    def _set(self, path: str, module: Any) -> None:
        set_module(self.model, path, module)
        self.modules[path] = module

    def _lacks_qconfig(self, node: Any) -> bool:
        """Whether the user said that a node is not to be quantized."""
        qconfigs = self.attributes.node_name_to_qconfig
        return isinstance(node, Node) and node.name in qconfigs and qconfigs[node.name] is None

    # -------------------------------------------------------------- observers

    def _replace_observer(self, node: Node, observer: Any) -> None:
        if node.args[0] in self.integer_modules:
            self._replace_by_dequantize(node)
            return
        neighbors = (*node.args, *node.users)
        dtype, is_dynamic = observer.dtype, bool(getattr(observer, "is_dynamic", False))
        with self.graph.inserting_before(node):
            rounded: Any = node.args[0]
            quantized = is_dynamic or dtype is float16 or isinstance(dtype, QuantizedDtype)
            if quantized and not all(map(self._lacks_qconfig, neighbors)):
                rounded = self._round(node, observer, dtype, is_dynamic)
        node.replace_all_uses_with(rounded)
        self.graph.erase_node(node)

    def _round(self, node: Node, observer: Any, dtype: Any, is_dynamic: bool) -> Node:
        """Return the observed value, quantized and dequantized."""
        quantized = self._quantize(node, observer, dtype, is_dynamic)
        return self.graph.call_method("dequantize", (quantized,))

    def _quantize(self, node: Node, observer: Any, dtype: Any, is_dynamic: bool) -> Node:
        x = node.args[0]
        if is_dynamic:
            return self.graph.call_function(ops.quantize_per_tensor_dynamic, (x, dtype, True))
        if dtype is float16:
            return self.graph.call_method("to", (x, dtype))
        path = self._find_path(node)
        scale, zero_point = observer.calculate_qparams()
        if is_per_channel(observer.qscheme):
            return self.graph.call_function(ops.quantize_per_channel, (
                x, self._store(f"{path}_scale_", scale),
                self._store(f"{path}_zero_point_", zero_point), int(observer.ch_axis), dtype))
        return self.graph.call_function(ops.quantize_per_tensor, (
            x, self._store(f"{path}_scale_", float(scale)),
            self._store(f"{path}_zero_point_", int(zero_point)), dtype))

    def _store(self, prefix: str, value: Any) -> Node:
        """Store a value in a buffer of the model; return its node."""
        name = find_free_name(self.model, prefix)
        buffer = value.detach().clone() if isinstance(value, Tensor) else ops.tensor(value)
        self.model.register_buffer(name, buffer)
        return self.graph.create_node("get_attr", name)

    def _find_path(self, node: Node) -> str:
        """The module that the observed value is of, or that takes it."""
        observed: Any = node.args[0]
        qconfigs = self.attributes.node_name_to_qconfig
        owner, suffix = observed, ""
        if observed.name in qconfigs and qconfigs[observed.name] is None:
            users = list(node.users)
            linear = [user for user in users if user.target is F.linear]
            owner, suffix = next(iter(linear or users), None), "_input"
        scopes = self.attributes.node_name_to_scope
        path = scopes[owner.name][0] if owner is not None and owner.name in scopes else ""
        return path + suffix

    def _insert_dequantize(self, node: Node) -> None:
        with self.graph.inserting_after(node):
            dequantized = self.graph.call_method("dequantize", (node,))
        for user in list(node.users):
            if user is not dequantized:
                user.replace_input_with(node, dequantized)

    def _replace_by_dequantize(self, node: Node) -> None:
        source: Any = node.args[0]
        node.replace_all_uses_with(source)
        self.graph.erase_node(node)
        self._insert_dequantize(source)

    def _keep_quantized(self, output: Node) -> None:
        """Results that the user wants quantized lose their dequantize."""
        indexes = self.attributes.prepare_custom_config.output_quantized_indexes
        result = output.args[0]
        for index in indexes:
            if isinstance(result, (list, tuple)):
                self._strip(result[index], output)
            elif index == 0:
                self._strip(result, output)

    def _strip(self, value: Any, output: Node) -> None:
        if is_dequantize(value):
            output.replace_input_with(value, value.args[0])
        elif isinstance(value, (list, tuple, dict)):
            for element in value.values() if isinstance(value, dict) else value:
                self._strip(element, output)
        else:
            warn(f"Unsupported node type in recursive remove dequantize: {type(value)}")

    # -------------------------------------------------------------- modules of the user's own

    def _convert_standalone(self, node: Node, module: Any) -> None:
        custom = module.meta["_observed_graph_module_attrs"].prepare_custom_config
        for index, arg in enumerate(node.args):
            if index in custom.input_quantized_indexes and is_dequantize(arg):
                self._bypass(node, arg)
        if custom.output_quantized_indexes:
            if custom.output_quantized_indexes[0] != 0:
                raise AssertionError("Currently only quantized output idxs = [0] is supported")
            self._insert_dequantize(node)
        self._set(str(node.target), convert(
            module, self.is_reference, ConvertCustomConfig(), None, self.backend))

    def _bypass(self, node: Node, arg: Any) -> None:
        """Have the node take the quantized tensor."""
        node.replace_input_with(arg, arg.args[0])
        if not arg.users:
            self.graph.erase_node(arg)

    def _convert_custom(self, node: Node, module: Any) -> None:
        if activation_is_statically_quantized(module.qconfig):
            self.integer_modules.add(node)
            if is_dequantize(node.args[0]):
                self._bypass(node, node.args[0])
            modules = (self.modules[str(user.target)] for user in node.users
                       if user.op == "call_module")
            observer = next(filter(_is_activation_post_process, modules), None)
            if observer is None:
                raise AssertionError("Expected activation_post_process to be present for observed "
                                     "custom module")
            module.activation_post_process = observer
        self._set(str(node.target), self.custom[type(module)].from_observed(module))
