"""A model that runs another model's subgraphs beside its own, on the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .... import ops
from ....fx import GraphModule, Node
from ....nn.modules import Identity
from ....tensor import Tensor
from ....tensor.dtypes import dtype, float16, quint8
from ...quantization.utils import getattr_from_fqn
from .logged_graph import NODE_INPUT, NODE_OUTPUT, LoggedGraph, Subject, find_path
from .mappings import OperatorSets, get_node_type_to_io_type_map
from .node_types import (
    NodeInputOrOutputType, get_node_first_input_and_output_type, get_node_input_qparams,
    get_normalized_nth_input, get_number_of_non_param_args, get_target_type_str, list_arguments,
    op_type_supports_shadowing, return_first_non_observer_node,
)
from .ns_types import NSSubgraph

__all__ = ["create_a_shadows_b"]

_FP32, _FP16, _INT8 = (NodeInputOrOutputType.FP32, NodeInputOrOutputType.FP16,
                       NodeInputOrOutputType.INT8)
_CASTS = (("call_method", "dequantize"), ("call_method", "to"))  # of weights, copied with them


@dataclass(frozen=True)
class _Pair:
    """Corresponding subgraphs of both models, and how their loggers name them."""

    a: NSSubgraph
    b: NSSubgraph
    subject_a: Subject
    subject_b: Subject


def _list_chain(subgraph: NSSubgraph, gm: GraphModule) -> list[Node]:
    """Return a subgraph's nodes in the order in which they run."""
    nodes = [subgraph.end_node]
    while nodes[-1] is not subgraph.start_node:
        nodes.append(get_normalized_nth_input(nodes[-1], gm, 0))
    return nodes[::-1]


def _can_copy(arg: Any, gm: GraphModule) -> bool:
    """Whether an argument can be copied: weights, casts of weights, and plain values."""
    if isinstance(arg, list | tuple):
        return not arg
    if not isinstance(arg, Node):
        return True
    source = return_first_non_observer_node(arg, gm)
    return source.op == "get_attr" or (source.op, source.target) in _CASTS


def _can_copy_subgraph(subgraph: NSSubgraph, gm: GraphModule) -> bool:
    for node in _list_chain(subgraph, gm):
        inputs = get_number_of_non_param_args(node, gm) if node is subgraph.start_node else 1
        args, kwargs = list_arguments(node, gm)
        if not all(_can_copy(arg, gm) for arg in [*args, *kwargs.values()][inputs:]):
            return False
    return True


class _ShadowGraph(LoggedGraph):
    """Model b's graph with copies of model a's subgraphs."""

    def __init__(
        self, gm_a: GraphModule, gm_b: GraphModule, logger_cls: Callable[..., Any],
        should_log_inputs: bool, io_types: OperatorSets,
    ) -> None:
        super().__init__(gm_b, logger_cls)
        self.gm_a, self.should_log_inputs, self.io_types = gm_a, should_log_inputs, io_types

    def _find_types(self, node: Node, gm: GraphModule) -> tuple[Any, Any]:
        return get_node_first_input_and_output_type(node, gm, self.logger_cls, self.io_types)

    def find_obstacle(self, node_b: Node, pair: _Pair) -> str | None:
        """Return why a subgraph of model a cannot run beside a node, or None."""
        start = pair.a.start_node
        if not op_type_supports_shadowing(start) or not op_type_supports_shadowing(node_b):
            return "unsupported"
        types = self._find_types(start, self.gm_a) + self._find_types(node_b, self.gm)
        if NodeInputOrOutputType.UNKNOWN in types:
            return "unknown dtype cast"
        if types[0] is _INT8 and types[2] is _FP32 \
                and get_node_input_qparams(start, self.gm_a, self.io_types) is None:
            return "unknown input qparams"
        if not _can_copy_subgraph(pair.a, self.gm_a):
            return "unhandled logic in subgraph copy"
        return None

    def add(self, node_b: Node, pair: _Pair) -> None:
        """Copy the first or last node of model b's subgraph, with loggers and with a shadow."""
        obstacle = self.find_obstacle(node_b, pair)
        if obstacle is not None:
            print(f"skipping shadow loggers for node_b: {get_target_type_str(node_b, self.gm)}, "
                  f"start_node_a: {get_target_type_str(pair.a.start_node, self.gm_a)}, {obstacle}")
            self.copy(node_b)
            return
        is_start = node_b is pair.b.start_node
        sources = self.load(get_normalized_nth_input(node_b, self.gm, 0)) if is_start else None
        if is_start and self.should_log_inputs:
            self.log_inputs(node_b, "_ns_logger_b_inp_", pair.subject_b, 0)
        copy = self.copy(node_b)
        if is_start:
            self._add_shadow(node_b, copy, sources, pair)
        if node_b is pair.b.end_node:
            self.env[node_b.name] = self.log(copy, "_ns_logger_b_", pair.subject_b, NODE_OUTPUT,
                                             node_b.name)

    def _add_shadow(self, node_b: Node, copy: Node, sources: Any, pair: _Pair) -> None:
        """Add a copy of model a's subgraph that takes the inputs of a copied node."""
        start = pair.a.start_node
        prefix = f"{node_b.name}_dtype_cast_"
        inputs = [self._cast(source, node_b, start, prefix)
                  for source in (sources if isinstance(sources, list) else [sources])]
        if self.should_log_inputs:
            inputs = [self.log(node, "_ns_logger_a_inp_", pair.subject_a, NODE_INPUT, "", place)
                      for place, node in enumerate(inputs)]
        takes: list[Any] = [inputs if isinstance(sources, list) else inputs[0]]
        if get_number_of_non_param_args(start, self.gm_a) == 2:
            takes.append(get_normalized_nth_input(copy, self.gm, 1))
        shadows: list[Node] = []
        for node_a in _list_chain(pair.a, self.gm_a):
            shadows.append(self._copy_from_a(node_a, shadows[-1:] or takes,
                                             f"{copy.name}_shadow_copy_"))
        if self.should_log_inputs:
            for node in inputs:
                getattr(self.gm, str(node.target)).ref_node_name = shadows[0].name
        self.log(shadows[-1], "_ns_logger_a_", pair.subject_a, NODE_OUTPUT, shadows[-1].name)

    def _cast(self, source: Any, node_b: Node, start_a: Node, prefix: str) -> Node:
        """Cast a value that a node of model b takes to the dtype that one of model a takes."""
        type_a, type_b = (self._find_types(start_a, self.gm_a)[0],
                          self._find_types(node_b, self.gm)[0])
        create = self.graph.create_node
        if type_a is type_b:
            name = self.attach(prefix, Identity())
            return create("call_module", name, (source,), {}, name)
        name = f"{prefix}0"
        if type_a is _FP32:
            return create("call_function", ops.dequantize, (source,), {}, name)
        if type_a is _INT8 and type_b is _FP32:
            parameters: Any = get_node_input_qparams(start_a, self.gm_a, self.io_types)
            scale, zero_point = (
                self._get_attribute(f"{start_a.name}_input_{parameter}_", value)
                for parameter, value in zip(("scale", "zero_point"), parameters, strict=True))
            return create("call_function", ops.quantize_per_tensor,
                          (source, scale, zero_point, quint8), {}, name)
        if type_a is _FP16 and type_b is _FP32:
            return create("call_method", "to", (source, float16), {}, name)
        raise AssertionError(f"dtype cast from {type_b} {node_b.format_node()} to {type_a} "
                             f"{start_a.format_node()} needs to be implemented")

    def _get_attribute(self, prefix: str, value: Any) -> Node:
        """Attach a value and return a node that reads it."""
        name = self.attach(prefix, value)
        return self.graph.create_node("get_attr", name, (), {}, name)

    def _copy_argument(self, arg: Any) -> Any:
        """Copy an argument of a node of model a: a weight, perhaps cast, or a plain value."""
        if not isinstance(arg, Node):
            assert arg is None or isinstance(arg, int | float | dtype) or arg in ((), []), (
                f"handling for kwarg of type {type(arg)} is not implemented")
            return arg
        node = return_first_non_observer_node(arg, self.gm_a)
        prefix = f"{node.name}_shadow_copy_"
        if node.op == "get_attr":
            value = getattr_from_fqn(self.gm_a, str(node.target))
            return self._get_attribute(prefix, value.detach() if isinstance(value, Tensor)
                                       else value)
        assert (node.op, node.target) in _CASTS, (
            f"handling of node {node.format_node()} with op {node.op} is not implemented")
        args = (self._copy_argument(node.args[0]), *node.args[1:])
        return self.graph.create_node("call_method", node.target, args, {}, f"{prefix}0")

    def _copy_from_a(self, node_a: Node, inputs: list[Any], prefix: str) -> Node:
        """Copy a node of model a that takes `inputs` first; its module is shared."""
        args, kwargs = list_arguments(node_a, self.gm_a)
        values = [*args, *kwargs.values()]
        copied = inputs + [self._copy_argument(arg) for arg in values[len(inputs):]]
        target, name = node_a.target, f"{prefix}0"
        if node_a.op == "call_module":
            target = name = self.attach(prefix, getattr_from_fqn(self.gm_a, str(target)))
        return self.graph.create_node(
            node_a.op, target, tuple(copied[:len(args)]),
            dict(zip(kwargs, copied[len(args):], strict=True)), name)


def create_a_shadows_b(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule,
    matched_subgraph_pairs: dict[str, tuple[NSSubgraph, NSSubgraph]],
    logger_cls: Callable[..., Any], should_log_inputs: bool,
    node_type_to_io_type_map: OperatorSets | None = None,
) -> GraphModule:
    """Return model b with copies of model a's subgraphs beside its own, and loggers of both.

    The copies share model a's modules and take the inputs of model b's subgraphs, cast to the
    dtype that they expect. A subgraph that cannot be copied is named on standard output.
    """
    io_types = get_node_type_to_io_type_map() if node_type_to_io_type_map is None \
        else node_type_to_io_type_map
    pairs: dict[Node, _Pair] = {}
    for ref_name, (a, b) in matched_subgraph_pairs.items():
        subjects = [
            Subject(name, ref_name, get_target_type_str(subgraph.base_op_node, gm),
                    find_path(subgraph.base_op_node, gm))
            for name, subgraph, gm in ((name_a, a, gm_a), (name_b, b, gm_b))]
        pairs[b.end_node] = pairs[b.start_node] = _Pair(a, b, *subjects)
    shadowed = _ShadowGraph(gm_a, gm_b, logger_cls, should_log_inputs, io_types)
    for node_b in gm_b.graph.nodes:
        if node_b in pairs:
            shadowed.add(node_b, pairs[node_b])
        else:
            shadowed.copy(node_b)
    return shadowed.finish()
