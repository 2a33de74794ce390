"""prepare: insert an observer after each value of a graph that will be quantized.

An Expectation per node says how its inputs and result are observed. If a value is not observed as
its consumer expects, another observer goes between the two.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ....fx import GraphModule, Node
from ....native.foundation.user_frames import warn
from ....tensor.dtypes import float32, quint8, uint8
from ...nn.quantized import FloatFunctional, FXFloatFunctional
from ..backend_config import BackendConfig, get_native_backend_config
from ..observer import ObserverBase, _is_activation_post_process
from ..qconfig_mapping import QConfigMapping
from ..quantize import convert as swap_modules
from ..quantize import propagate_qconfig_
from ..utils import get_quant_type
from .constraints import is_argument, read_dtype_and_mode
from .custom_config import PrepareCustomConfig, StandaloneModuleConfigEntry
from .equalization import node_supports_equalization
from .expectation import Expectation, Expectations
from .fuse import fuse, set_module
from .match_utils import Match, find_matches, list_nodes
from .qconfig_mapping_utils import adapt_to_fusion, adapt_to_qat, flatten, resolve_qconfigs
from .tracer import QuantizationTracer
from .utils import find_free_name

_FLOATS = Expectation()


@dataclass
class ObservedAttributes:
    """The attributes of a prepared model that `convert_fx` reads."""

    node_name_to_qconfig: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, type]]
    prepare_custom_config: PrepareCustomConfig
    qconfig_mapping: QConfigMapping
    is_qat: bool
    observed_node_names: set[str] = field(default_factory=set)
    is_observed_standalone_module: bool = False
    equalization_node_name_to_qconfig: Any = None


def trace_and_prepare(
    model: Any, mapping: QConfigMapping, is_qat: bool, custom: PrepareCustomConfig,
    backend: BackendConfig | None, is_standalone: bool = False,
    equalization: QConfigMapping | None = None,
) -> Any:
    """Trace the model down to the modules that quantization knows, fuse it and insert observers."""
    _swap_functionals(model)
    names = list(custom.non_traceable_module_names)
    classes = list(custom.non_traceable_module_classes)
    if not is_standalone:
        names += custom.standalone_module_names
        classes += custom.standalone_module_classes
        classes += [float_class for mapped in custom.float_to_observed_mapping.values()
                    for float_class in mapped]
    tracer = QuantizationTracer(names, classes)
    traced = fuse(GraphModule(model, tracer.trace(model)), is_qat, backend)
    return prepare(traced, mapping, is_qat, tracer.node_name_to_scope, custom, backend,
                   is_standalone, equalization)


def _swap_functionals(model: Any) -> None:
    """Replace FloatFunctionals, which quantize by themselves in eager mode, by plain operators."""
    for name, child in list(model.named_children()):
        if isinstance(child, FloatFunctional):
            model._modules[name] = FXFloatFunctional()
        else:
            _swap_functionals(child)


def prepare(
    model: Any, mapping: QConfigMapping, is_qat: bool, scopes: dict[str, Any],
    custom: PrepareCustomConfig, backend: BackendConfig | None, is_standalone: bool = False,
    equalization: QConfigMapping | None = None,
) -> Any:
    """Insert observers into a traced and fused model."""
    backend = get_native_backend_config() if backend is None else backend
    mapping = copy.deepcopy(mapping)
    adapt_to_fusion(model, mapping)
    propagate_qconfig_(model, flatten(mapping))
    if is_qat:
        trained = {pattern: config.qat_module for pattern, config
                   in backend._pattern_complex_format_to_config.items()
                   if config.qat_module is not None}
        swap_modules(model, mapping=trained, inplace=True, remove_qconfig=False)
        adapt_to_qat(mapping, backend)
    modules = dict(model.named_modules(remove_duplicate=False))
    equalized = None
    if equalization is not None:
        equalization = copy.deepcopy(equalization)
        adapt_to_fusion(model, equalization)
        equalized = resolve_qconfigs(modules, model.graph, equalization, scopes)
    qconfigs = resolve_qconfigs(modules, model.graph, mapping, scopes)
    attributes = ObservedAttributes(qconfigs, scopes, custom, mapping, is_qat,
                                    is_observed_standalone_module=is_standalone,
                                    equalization_node_name_to_qconfig=equalized)
    _Preparation(model, modules, qconfigs, custom, backend, attributes).run()
    result = GraphModule(model, model.graph)
    result.meta["_observed_graph_module_attrs"] = attributes
    return result


class _Preparation:
    """Inserts observers into one model."""

    def __init__(
        self, model: Any, modules: dict[str, Any], qconfigs: dict[str, Any],
        custom: PrepareCustomConfig, backend: BackendConfig, attributes: ObservedAttributes,
    ) -> None:
        self.model, self.graph, self.modules = model, model.graph, modules
        self.custom, self.backend, self.attributes = custom, backend, attributes
        float_classes = [float_class for classes in custom.float_to_observed_mapping.values()
                         for float_class in classes]
        self.matches = find_matches(self.graph, modules, backend, float_classes,
                                    self._is_standalone)
        for name, match in self.matches.items():
            match.qconfig = qconfigs.get(match.last.name if match.pattern is not None else name)
        self.qconfigs = qconfigs
        self.expectations = Expectations(self.graph, modules, self.matches, qconfigs, backend)
        self.swapped: set[str] = set()

    def run(self) -> None:
        """Insert the observers."""
        self._prepare_standalone()
        self.expected = self.expectations.describe(self.custom)
        for node in list(self.graph.nodes):
            if node.op == "output":
                node.args = tuple(self._observe_result(arg, node) for arg in node.args)
            elif node.op in ("call_module", "call_method", "call_function"):
                self._observe(node)

    # -------------------------------------------------------------- observers

    def _insert(
        self, node: Node, observer: Any, prefix: str = "activation_post_process_"
    ) -> Node:
        name = find_free_name(self.model, prefix)
        setattr(self.model, name, observer)
        self.modules[name] = observer
        with self.graph.inserting_after(node):
            return self.graph.create_node("call_module", name, (node,), {})

    def _is_observer_node(self, node: Any) -> bool:
        return isinstance(node, Node) and node.op == "call_module" \
            and _is_activation_post_process(self.modules[str(node.target)])

    def _find_result_dtype(self, node: Node) -> Any:
        """The dtype in which a value is observed."""
        observed = node.args[0] if self._is_observer_node(node) else node
        expected = self.expected.get(observed, _FLOATS)  # type: ignore[arg-type]
        return None if expected.output is None else expected.output().dtype

    def _observe(self, node: Node) -> None:
        match = self.matches.get(node.name)
        if match is None or self.qconfigs.get(node.name) is None \
                or not self.expectations.is_supported(match):
            return
        self.attributes.observed_node_names.update(n.name for n in list_nodes(match.bound))
        if node is match.root:
            is_in_branch = self._is_in_quantized_branch(node)
            node.args = tuple(self._observe_input(node, arg, match, index)
                              for index, arg in enumerate(node.args))
            node.kwargs = {name: self._observe_input(node, arg, match, None)
                           for name, arg in node.kwargs.items()}
            self._equalize(node, is_in_branch)
        if node is not match.last:
            return
        self._observe_output(node)
        if match.is_custom and node.target not in self.swapped:
            self.swapped.add(str(node.target))
            self._swap_custom(str(node.target), match.qconfig)

    def _is_in_quantized_branch(self, node: Node) -> bool:
        """Whether another quantized node takes the node's first input."""
        source = node.args[0] if node.args else None
        return isinstance(source, Node) and any(
            user is not node and (self.qconfigs.get(user.name) is not None or (
                user.op == "call_module"
                and isinstance(self.modules[str(user.target)], ObserverBase)))
            for user in source.users)

    def _equalize(self, node: Node, is_in_branch: bool) -> None:
        """Observe the columns of a layer's input, and of a function's weight."""
        qconfig = (self.attributes.equalization_node_name_to_qconfig or {}).get(node.name)
        if qconfig is None or not node_supports_equalization(node, self.modules):
            return
        if is_in_branch:
            warn(f"Cannot equalize {node} because it is part of a branch.", UserWarning)
            return
        expected, args = self.expected[node], []
        for arg in node.args:
            if isinstance(arg, Node) and not is_argument(node, arg, "bias", expected.bias_index):
                is_weight = is_argument(node, arg, "weight", expected.weight_index)
                observer = (qconfig.weight if is_weight else qconfig.input_activation)()
                arg = self._insert(arg, observer, f"{arg.name}_equalization_process_")
            args.append(arg)
        node.args = tuple(args)

    def _observe_input(self, node: Node, arg: Any, match: Match, index: int | None) -> Any:
        if isinstance(arg, (list, tuple)):
            return type(arg)([self._observe_input(node, element, match, None) for element in arg])
        if not isinstance(arg, Node):
            return arg
        expected = self.expected[node]
        if match.is_standalone:
            return self._observe_standalone_input(node, arg, match, index)
        factory = expected.find_for_argument(node, arg)
        observer = None if factory is None else factory()
        dtype, is_dynamic = read_dtype_and_mode(observer)
        if is_dynamic:
            needed = bool(node.args) and arg is node.args[0]
        else:
            result_dtype = self._find_result_dtype(arg)
            needed = not expected.reuses and _is_observed(dtype) and result_dtype != dtype \
                and (result_dtype is float32 or _is_observed(result_dtype))
        return self._observed(arg, observer, dtype) if needed else arg

    def _observe_standalone_input(
        self, node: Node, arg: Node, match: Match, index: int | None
    ) -> Node:
        quantized = self._find_standalone_entry(str(node.target)).prepare_custom_config
        is_quantized = quantized is not None and index in quantized.input_quantized_indexes
        if not is_quantized or self._find_result_dtype(arg) is quint8:
            return arg
        return self._observed(arg, match.qconfig.activation(), quint8)

    def _observed(self, arg: Node, observer: Any, dtype: Any) -> Node:
        """Return the observed value, by an existing observer if one fits, else by a new one."""
        for user in arg.users:
            if user.op == "call_module":
                existing = self.modules.get(str(user.target))
                if type(existing) is type(observer) and getattr(existing, "dtype", None) == dtype:
                    return user
        return self._insert(arg, observer)

    def _observe_output(self, node: Node) -> None:
        expected = self.expected[node]
        observer = None if expected.output is None else expected.output()
        dtype, is_dynamic = read_dtype_and_mode(observer)
        if is_dynamic or expected.is_standalone or not _is_observed(dtype) or dtype is float32:
            return
        observed = self._insert(node, observer)
        for user in list(node.users):
            if user is not observed:
                user.replace_input_with(node, observed)
        shares = expected.reuses or (expected.shares and self._is_input_observed_here(node))
        if shares and not self._share_observer(node):
            observed.replace_all_uses_with(node)
            self.graph.erase_node(observed)

    def _is_input_observed_here(self, node: Node) -> bool:
        """False if the input is an input of the model that is already quantized."""
        first = node.args[0] if node.args else None
        return not (isinstance(first, Node) and first.op == "placeholder"
                    and self._find_result_dtype(node) in (quint8, uint8))

    def _share_observer(self, node: Node) -> bool:
        """Make all inputs and the result share the first input's observer, if there is one."""
        first = next((a for a in node.args if isinstance(a, (Node, list, tuple))), None)
        group = list(first) if isinstance(first, (list, tuple)) else [first]
        origins = [self._find_observer_above(arg) for arg in group]
        if None in origins:
            return False
        shared = self.modules[str(origins[0].target)]  # type: ignore[union-attr]
        for origin in (*origins[1:], *node.users):
            set_module(self.model, str(origin.target), shared)  # type: ignore[union-attr]
            self.modules[str(origin.target)] = shared  # type: ignore[union-attr]
        return True

    def _find_observer_above(self, node: Any) -> Node | None:
        """The observer that a value comes from, skipping unobserved nodes."""
        while isinstance(node, Node) and not self._is_observer_node(node):
            if node.op == "placeholder":
                return None
            node = next((arg for arg in node.args if isinstance(arg, Node)), None)
        return node if isinstance(node, Node) else None

    def _observe_result(self, value: Any, output: Node) -> Any:
        """Return the model's result; observe it if it must stay quantized and is not observed."""
        if isinstance(value, dict):
            return {key: self._observe_result(element, output) for key, element in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self._observe_result(element, output) for element in value])
        if not isinstance(value, Node):
            if value is not None:
                raise Exception("Unhandled type for returned node:", value)
            return value
        expected = self.expected.get(value)
        if expected is None or expected.input is None:
            return value
        observer = expected.input()
        if observer.dtype in (float32, self._find_result_dtype(value)):
            return value
        return self._insert(value, observer)

    # -------------------------------------------------------------- modules of the user's own

    def _is_standalone(self, node: Node) -> bool:
        module = self.modules[str(node.target)]
        return (node.target in self.custom.standalone_module_names
                or type(module) in self.custom.standalone_module_classes
                or is_prepared_standalone(module))

    def _find_standalone_entry(self, path: str) -> StandaloneModuleConfigEntry:
        by_class = self.custom.standalone_module_classes.get(
            type(self.originals.get(path, self.modules[path])))
        return self.custom.standalone_module_names.get(path) or by_class \
            or StandaloneModuleConfigEntry(None, (), None, None)

    def _prepare_standalone(self) -> None:
        """Prepare the standalone modules."""
        self.originals: dict[str, Any] = {}
        for match in self.matches.values():
            path = str(match.last.target)
            if not match.is_standalone or path in self.originals:
                continue
            entry, module = self._find_standalone_entry(path), self.modules[path]
            self.originals[path] = module
            inner = trace_and_prepare(
                module, entry.qconfig_mapping or QConfigMapping().set_global(match.qconfig),
                self.attributes.is_qat, entry.prepare_custom_config or PrepareCustomConfig(),
                entry.backend_config or self.backend, True)
            set_module(self.model, path, inner)
            self.modules[path] = inner

    def _swap_custom(self, path: str, qconfig: Any) -> None:
        classes = self.custom.float_to_observed_mapping.get(get_quant_type(qconfig), {})
        module = self.modules[path]
        if type(module) not in classes:
            raise AssertionError("did not find corresponding observed module class for "
                                 f"{type(module)} in mapping: {classes}")
        observed_class: Any = classes[type(module)]
        observed = observed_class.from_float(module)
        set_module(self.model, path, observed)
        self.modules[path] = observed


def is_prepared_standalone(module: Any) -> bool:
    """Whether a module was prepared as a standalone module."""
    attributes = module.meta.get("_observed_graph_module_attrs") \
        if isinstance(module, GraphModule) else None
    return attributes is not None and attributes.is_observed_standalone_module


def _is_observed(dtype: Any) -> bool:
    """Whether values of this dtype are rounded: integers and short floats."""
    return dtype is not None and dtype is not float32 and hasattr(dtype, "itemsize")
