"""Models whose layers run in several forms side by side: in floats, and under each QConfig.

Layer number i is `shadow_i_0`'s input; its form under QConfig number j is the module
`shadow_wrapper_i_j`, whose output `shadow_i_j` compares with the float layer's.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .... import ops
from ....fx import Graph, GraphModule, Node
from ....fx.interpreter import Interpreter
from ....fx.node import map_arg
from ....nn.module import Module
from ....tensor import Tensor
from ....tensor.dtypes import dtype
from ...quantization.backend_config import BackendConfig
from ...quantization.fx.match_utils import find_matches, list_nodes
from ...quantization.fx.qconfig_mapping_utils import resolve_qconfigs
from ...quantization.fx.tracer import QuantizationTracer
from ...quantization.qconfig_mapping import QConfigMapping
from ...quantization.quantize_fx import convert_fx, prepare_fx
from ...quantization.utils import getattr_from_fqn
from .logged_graph import find_path
from .loggers import OutputComparisonLogger, OutputLogger
from .node_types import get_normalized_nth_input, get_target_type_str
from .ns_types import NSSingleResultValuesType
from .qconfig_multi_mapping import QConfigMultiMapping

__all__ = ["SHADOW_NODE_NAME_PREFIX", "SHADOW_WRAPPER_NODE_NAME_PREFIX", "OutputProp",
           "convert_n_shadows_model", "create_submodule_from_subgraph", "prepare_add_loggers_model",
           "prepare_n_shadows_model"]

SHADOW_NODE_NAME_PREFIX = "shadow"
SHADOW_WRAPPER_NODE_NAME_PREFIX = "shadow_wrapper"
BINARY_FUNCTIONS = {ops.add, ops.mul, operator.add, operator.mul, Tensor.add, Tensor.mul}


class _Recorder(Interpreter):
    """Runs a graph and keeps the tensors that its nodes compute, as `node.traced_result`."""

    def run_node(self, n: Node) -> Any:
        """Run a node."""
        result = super().run_node(n)
        if isinstance(result, Tensor) and n.op != "output":
            n.traced_result = result
        return result


class OutputProp:
    """Runs a traced model and keeps the tensors that its nodes compute."""

    def __init__(self, mod: GraphModule) -> None:
        self.mod = mod

    def propagate(self, *args: Any) -> None:
        """Run the model on these inputs; its nodes get `traced_result`."""
        _Recorder(self.mod).run(*args)


def create_submodule_from_subgraph(
    model: Module, first_node: Node, last_node: Node
) -> GraphModule:
    """Return a module that computes a chain of nodes; its inputs are those of the first node.

    AssertionError if a node between has several users, or a later node takes further values.
    """
    root, graph, names = Module(), Graph(), set[str]()

    def add_input(node: Node) -> Node:
        number = next(i for i in range(len(names) + 1) if f"{node.name}_{i}" not in names)
        names.add(f"{node.name}_{number}")
        return graph.placeholder(f"{node.name}_{number}")

    node, result = first_node, None
    while True:
        if result is None:
            args, kwargs = map_arg((node.args, dict(node.kwargs)), add_input)
        else:
            args, kwargs = (result, *_check_plain(node)), dict(node.kwargs)
        target = node.target
        if node.op == "call_module":
            target = f"mod_{len(root._modules)}"
            root.add_module(target, copy.deepcopy(getattr_from_fqn(model, str(node.target))))
        assert node.op.startswith("call_"), f"{node.op} not supported yet"
        result = graph.create_node(node.op, target, args, kwargs)
        if node is last_node:
            break
        assert len(node.users) == 1, f"{node} has more than 1 users, not supported yet"
        node, = node.users
    graph.output(result)
    return GraphModule(root, graph)


def _check_plain(node: Node) -> tuple[Any, ...]:
    """Return a node's arguments after the first, which must be numbers or dtypes."""
    assert node.target not in BINARY_FUNCTIONS, f"Unexpected binary function target: {node.target}"
    for arg in node.args[1:]:
        assert isinstance(arg, float | int | dtype), f"arg of type {type(arg)} not handled yet"
    return node.args[1:]


@dataclass
class _Layer:
    """A chain of nodes, its number, and its QConfigs, None where it stays in floats."""

    index: int
    nodes: list[Node]
    qconfigs: list[Any]

    @property
    def first(self) -> Node:
        """The node that takes the layer's inputs."""
        return self.nodes[0]

    @property
    def last(self) -> Node:
        """The node that computes the layer's output."""
        return self.nodes[-1]


def _list_inputs(node: Node) -> tuple[Node, ...]:
    """Return the nodes among a node's arguments, as often as they occur."""
    inputs: list[Node] = []
    map_arg((node.args, dict(node.kwargs)), inputs.append)
    return tuple(inputs)


class _NShadows:
    """Adds forms of layers and loggers to a traced model."""

    def __init__(
        self, model: Module, example_inputs: Sequence[Any], backend: BackendConfig,
        mappings: Sequence[QConfigMapping], tracer: Any = None,
        prepare: Callable[..., Any] = prepare_fx, prepare_kwargs: dict[str, Any] | None = None,
    ) -> None:
        tracer = tracer or QuantizationTracer([], [])
        self.model: Any = GraphModule(model, tracer.trace(model))
        self.graph = self.model.graph
        self.model._node_name_to_scope = tracer.node_name_to_scope
        OutputProp(self.model).propagate(*example_inputs)
        modules = dict(self.model.named_modules(remove_duplicate=False))
        matches = find_matches(self.graph, modules, backend, [], lambda node: False)
        ends = {match.last: sorted(list_nodes(match.bound)) for match in matches.values()}
        self.chains = [ends[node] for node in self.graph.nodes if node in ends]
        self.qconfigs = [resolve_qconfigs(modules, self.graph, mapping, tracer.node_name_to_scope)
                         for mapping in mappings]
        self.prepare, self.prepare_kwargs = prepare, prepare_kwargs or {}

    def find_qconfigs(self, first: Node) -> list[Any]:
        """Return a layer's QConfigs, one of each mapping."""
        return [by_name[first.name] for by_name in self.qconfigs]

    def _add_logger(
        self, layer: _Layer, candidate: int, after: Node, args: tuple[Node, ...],
        qconfig: Any = None,
    ) -> Node:
        """Add a logger of a layer's form; it compares if it takes two values."""
        logger_cls = OutputComparisonLogger if len(args) > 1 else OutputLogger
        logger = logger_cls(
            layer.first.name, layer.last.name, f"subgraph_{layer.index}_{candidate}", "model",
            get_target_type_str(layer.last, self.model),
            get_target_type_str(layer.first, self.model),
            NSSingleResultValuesType.NODE_OUTPUT.value, 0, 0,
            find_path(layer.first, self.model) or "", "" if qconfig is None else str(qconfig))
        logger.enabled = False  # only what follows convert_n_shadows_model is of interest
        return self._call(f"{SHADOW_NODE_NAME_PREFIX}_{layer.index}_{candidate}", logger, after,
                          args)

    def _call(self, name: str, module: Module, after: Node, args: tuple[Node, ...]) -> Node:
        assert not hasattr(self.model, name), f"Unexpected attribute '{name}' found in {self.model}"
        setattr(self.model, name, module)
        with self.graph.inserting_after(after):
            return self.graph.call_module(name, args=args)

    def _find_example(self, node: Node) -> Any:
        """Return the values that a node takes first, for `prepare_fx`; None if they are unknown."""
        value = get_normalized_nth_input(node, self.model, 0)
        values = value if isinstance(value, list | tuple) else (value,)
        if not all(hasattr(element, "traced_result") for element in values):
            return None
        return tuple(element.traced_result for element in values)

    def add_forms(self, layer: _Layer) -> list[Node]:
        """Add a logger of a layer and its form under each QConfig; return the forms' nodes."""
        example = self._find_example(layer.first)
        if example is None:
            print(f"unable to get example input for node {layer.first.format_node()}, skipping")
            return []
        if not any(layer.qconfigs):
            print("unable to find at least one qconfig for node "
                  f"{layer.first.format_node()}, skipping")
            return []
        last, forms = self._add_logger(layer, 0, layer.last, (layer.last,)), []
        for candidate, qconfig in enumerate(layer.qconfigs, start=1):
            if qconfig is None:
                continue
            inner = create_submodule_from_subgraph(self.model, layer.first, layer.last)
            for name in ("example_inputs", "prepare_custom_config", "qconfig_mapping"):
                assert name not in self.prepare_kwargs, (
                    f"cannot specify {name} in custom_prepare_kwargs")
            inner = self.prepare(inner, example_inputs=example, **self.prepare_kwargs,
                                 qconfig_mapping=QConfigMapping().set_global(qconfig))
            name = f"{SHADOW_WRAPPER_NODE_NAME_PREFIX}_{layer.index}_{candidate}"
            forms.append(self._call(name, inner, last, _list_inputs(layer.first)))
            last = self._add_logger(layer, candidate, forms[-1], (forms[-1], layer.last), qconfig)
        return forms

    def add_float_copy(self, layer: _Layer) -> list[Node]:
        """Add a logger of a layer and a copy of it in floats; return the copy's nodes."""
        after = self._add_logger(layer, 0, layer.last, (layer.last,))
        copies: list[Node] = []
        for node in layer.nodes:
            args = (copies[-1], *node.args[1:]) if copies else node.args
            with self.graph.inserting_after(after):
                after = self.graph.create_node(node.op, node.target, args, dict(node.kwargs))
            copies.append(after)
        self._add_logger(layer, 1, after, (after, layer.last))
        return copies

    def add_second_path(self) -> None:
        """Add a second path through the model, quantized where there is a QConfig."""
        chains = {node: chain for chain in self.chains for node in chain}
        outputs: dict[Node, Node] = {}
        entries: list[Node] = []
        index = 0
        for node in list(self.graph.nodes):
            if node.op in ("placeholder", "get_attr", "output") or node in outputs:
                continue
            matched = node in chains
            layer = _Layer(index, chains.get(node, [node]),
                           self.find_qconfigs(chains[node][0]) if matched else [None])
            path = self.add_forms(layer) if any(layer.qconfigs) else self.add_float_copy(layer)
            assert path, "Expected new_shadow_mod to be non-None"
            entries.append(path[0])
            outputs.update(dict.fromkeys(layer.nodes, path[-1]))
            index += 1
        for entry in entries:
            entry.args, entry.kwargs = map_arg(
                (entry.args, dict(entry.kwargs)), lambda node: outputs.get(node, node))

    def finish(self) -> Any:
        """Return the model with its new code."""
        self.model.recompile()
        return self.model


def prepare_n_shadows_model(
    model: Module, example_inputs: Sequence[Any], qconfig_multi_mapping: QConfigMultiMapping,
    backend_config: BackendConfig, custom_prepare_fn: Callable[..., Any] | None = None,
    custom_prepare_kwargs: dict[str, Any] | None = None, custom_tracer: Any = None,
) -> Any:
    """Return a model that also runs each layer prepared with each of its QConfigs.

    Run it on samples, then call `convert_n_shadows_model`.

    Args:
        example_inputs: Inputs of the model, on which it runs once.
        custom_prepare_fn: Used in place of `prepare_fx`.
        custom_prepare_kwargs: Further keyword arguments of it.
        custom_tracer: Used in place of QuantizationTracer.
    """
    shadows = _NShadows(model, example_inputs, backend_config,
                        qconfig_multi_mapping.qconfig_mappings_list, custom_tracer,
                        custom_prepare_fn or prepare_fx, custom_prepare_kwargs)
    for index, chain in enumerate(shadows.chains):
        shadows.add_forms(_Layer(index, chain, shadows.find_qconfigs(chain[0])))
    return shadows.finish()


def prepare_add_loggers_model(
    model: Module, example_inputs: Sequence[Any], qconfig_mapping: QConfigMapping,
    backend_config: BackendConfig,
) -> Any:
    """Return a model with a second, quantized path in which errors add up from layer to layer."""
    shadows = _NShadows(model, example_inputs, backend_config, [qconfig_mapping])
    shadows.add_second_path()
    return shadows.finish()


def convert_n_shadows_model(
    model: GraphModule, custom_convert_fn: Callable[..., Any] | None = None,
    custom_convert_kwargs: dict[str, Any] | None = None,
) -> GraphModule:
    """Convert the prepared layers of a `prepare_n_shadows_model` model to integers.

    Args:
        custom_convert_fn: Used in place of `convert_fx`.
        custom_convert_kwargs: Further keyword arguments of it.
    """
    convert = custom_convert_fn or convert_fx
    for node in model.graph.nodes:
        if node.name.startswith(SHADOW_WRAPPER_NODE_NAME_PREFIX):
            prepared = getattr(model, node.name)
            setattr(model, node.name, convert(prepared, **(custom_convert_kwargs or {})))
    return model
