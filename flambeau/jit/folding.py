"""Programs of frozen modules: batch norms folded into the layers before them, dropout left out,
and whatever depends on parameters only computed once.

A traced module has a graph; a scripted one is traced symbolically if its methods only compute.
"""

from __future__ import annotations

import copy
import dis
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, cast

from ..autograd import no_grad
from ..fx._symbolic_trace import Tracer
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import RANDOM_OPERATORS, Node
from ..fx.proxy import Proxy
from ..nn.module import Module
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.conv import _ConvNd
from ..nn.modules.dropout import _DropoutNd
from ..nn.modules.linear import Linear
from ..nn.utils.fusion import (
    fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights,
)
from ..ops.core.aten import aten
from ..overrides import TorchFunctionMode
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .boundary import STATE
from .checking.source import is_library
from .torchscript.script_module import ScriptModule

__all__ = ["Folding", "fold_program"]

# Names by which a method does more than compute, or asks what a symbolic value cannot answer.
_IMPURE = frozenset((
    "print", "isinstance", "hasattr", "getattr", "setattr", "warn", "append", "extend", "insert",
    "update", "pop", "clear", "setdefault", "fork", "wait", "is_grad_enabled", "no_grad",
    "enable_grad", "set_grad_enabled", "autocast", "manual_seed"))


class _Unfoldable(Exception):
    """The program cannot be traced without changing what it does."""


class Folding:
    """A graph that computes what `forward` does for tensors, given in `count` arguments."""

    def __init__(self, module: GraphModule, count: int) -> None:
        self.module, self._count = module, count

    def accepts(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Return whether the graph stands for a call."""
        return not kwargs and len(args) == self._count and all(type(x) is Tensor for x in args)


def fold_program(program: Any, folds_numerics: bool = True) -> Folding | None:
    """Return the graph of a module in eval mode, or None for one that cannot be traced.

    `folds_numerics`: whether to fold batch norms, which changes roundings.
    """
    own = program.__dict__.get("_flambeau_own")
    try:
        module = _trace(program) if own is None else GraphModule(own, copy.deepcopy(own.graph))
    except Exception:  # decisions by values, arguments of other types, effects
        return None
    graph = module.graph
    _drop_dropout(module, graph)
    if folds_numerics:
        _fold_norms(module, graph)
    _fold_constants(module, graph)
    graph.eliminate_dead_code()
    module.recompile()
    return Folding(module, sum(node.op == "placeholder" for node in graph.nodes))


# ------------------------------------------------------------------------------ tracing


class _Computed(TorchFunctionMode):
    """Refuses calls on nothing symbolic: a trace would keep their results."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not any(isinstance(x, Proxy) for x in pytree.tree_leaves((args, kwargs or {}))):
            raise _Unfoldable
        return func(*args, **(kwargs or {}))


def _trace(program: Module) -> GraphModule:
    parameters = inspect.signature(type(program).forward).parameters.values()
    if any(p.default is not p.empty or p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        raise _Unfoldable
    for module in program.modules():
        if "_flambeau_type" in module.__dict__ or module._forward_hooks \
                or module._forward_pre_hooks:
            raise _Unfoldable
        if not is_library(kind := _find_written_class(module)):
            _refuse_effects(kind)
    tracer = Tracer()
    STATE.is_inside = True
    try:
        with _Computed():
            graph = tracer.trace(program)
    finally:
        STATE.is_inside = False
    return GraphModule(tracer.root, graph)


def _find_written_class(module: Module) -> type:
    """Return the class that the program defines, from which a scripted one derives."""
    kind = next(kind for kind in type(module).__mro__ if not issubclass(kind, ScriptModule))
    if kind is Module:  # its methods are scripted one by one
        raise _Unfoldable
    return kind


def _refuse_effects(kind: type) -> None:
    """Raise _Unfoldable if what `forward` reaches assigns attributes or elements, or is impure."""
    open_functions, seen = [kind.forward], set()  # type: ignore[attr-defined]
    while open_functions:
        function = inspect.unwrap(open_functions.pop())
        if function in seen:
            continue
        seen.add(function)
        for code in _list_codes(function.__code__):
            if not _IMPURE.isdisjoint(code.co_names) or any(
                    step.opname in ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "DELETE_SUBSCR")
                    for step in dis.get_instructions(code)):
                raise _Unfoldable
            for name in code.co_names:
                value = getattr(kind, name, function.__globals__.get(name))
                if isinstance(value, FunctionType) and not is_library(value):
                    open_functions.append(value)


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_codes(constant)


# ------------------------------------------------------------------------------ passes


def _drop_dropout(module: GraphModule, graph: Graph) -> None:
    modules = dict(module.named_modules())
    for node in list(graph.nodes):
        layer = modules.get(str(node.target)) if node.op == "call_module" else None
        name = getattr(getattr(node.target, "overloadpacket", node.target), "__name__", "")
        is_off = node.op == "call_function" and name.endswith("dropout") and \
            (node.args[2:3] == (False,) or node.kwargs.get("training") is False)
        if isinstance(layer, _DropoutNd) or is_off:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _fold_norms(module: GraphModule, graph: Graph) -> None:
    for node in list(graph.nodes):
        source = node.args[0] if node.args else None
        if not isinstance(source, Node) or len(source.users) > 1:
            continue
        folded = _fold_layers(module, source, node) if node.op == "call_module" else \
            _fold_calls(module, graph, source, node)
        if folded:
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _fold_layers(module: GraphModule, source: Node, node: Node) -> bool:
    """Fold a layer of batch norm into the layer before it."""
    modules = dict(module.named_modules())
    norm = modules[str(node.target)]
    layer = modules.get(str(source.target)) if source.op == "call_module" else None
    if not isinstance(norm, _BatchNorm) or norm.running_mean is None \
            or not isinstance(layer, (_ConvNd, Linear)) or not _has_single_call(source):
        return False
    if isinstance(layer, Linear):
        if norm.num_features not in (layer.out_features, 1):
            return False
        fused: Module = fuse_linear_bn_eval(layer, norm)
    elif layer.transposed and layer.groups > 1:
        return False
    else:
        fused = fuse_conv_bn_eval(layer, norm, layer.transposed)
    module.add_submodule(name := f"_folded_{node.name}", fused)
    source.target = name
    return True


def _has_single_call(node: Node) -> bool:
    return sum(other.target == node.target for other in node.graph.nodes
               if other.op == "call_module") == 1


_LAYERS = {**{getattr(aten, f"conv{n}d").default: False for n in (1, 2, 3)},
           aten.conv_transpose1d.default: True, aten.conv_transpose2d.input: True,
           aten.conv_transpose3d.input: True, aten.linear.default: None}  # whether transposed


def _fold_calls(module: GraphModule, graph: Graph, source: Node, node: Node) -> bool:
    """Fold a call of batch norm into the call before it."""
    if node.target is not aten.batch_norm.default or source.target not in _LAYERS or node.kwargs \
            or source.kwargs or node.args[5] is not False:
        return False
    weight, bias = [*source.args[1:3], None][:2]
    norm = [*node.args[3:5], *node.args[1:3]]
    if any(isinstance(x, Node) and x.op != "get_attr" for x in (weight, bias, *norm)) \
            or _LAYERS[source.target] is not False and source.target is not aten.linear.default \
            and len(source.args) > 6 and source.args[6] != 1:  # groups of a transposed one
        return False
    tensors: list[Any] = [None if x is None else _read_attribute(module, x)
                          for x in (weight, bias, *norm)]
    (w, b, mean, var, gain, shift), epsilon = tensors, cast(float, node.args[7])
    if mean is None or (_LAYERS[source.target] is None and len(mean) not in (len(w), 1)):
        return False
    with no_grad():
        fused = fuse_linear_bn_weights(w, b, mean, var, epsilon, gain, shift) \
            if _LAYERS[source.target] is None else \
            fuse_conv_bn_weights(w, b, mean, var, epsilon, gain, shift,
                                 bool(_LAYERS[source.target]))
    names = [f"_folded_{node.name}_{part}" for part in ("weight", "bias")]
    with graph.inserting_before(source):
        for name, value in zip(names, fused, strict=True):
            module.register_buffer(name, value.detach())
        read = [graph.create_node("get_attr", name) for name in names]
    source.args = (source.args[0], *read, *source.args[3:])
    return True


def _read_attribute(module: Module, node: Node) -> Any:
    """Return the tensor that a get_attr node reads."""
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def _fold_constants(module: GraphModule, graph: Graph) -> None:
    """Compute what depends on parameters and buffers only, unless the graph writes to some."""
    constants: dict[Node, Any] = {}
    for node in graph.nodes:
        name = str(getattr(getattr(node.target, "overloadpacket", node.target), "__name__",
                           node.target))
        if node.op == "get_attr":
            value = _read_attribute(module, node)
            if isinstance(value, Tensor):
                constants[node] = value
        elif node.op in ("call_function", "call_method"):
            inputs = node.all_input_nodes
            if any(x in constants for x in inputs) and name.endswith("_") \
                    and not name.endswith("__"):
                return
            if inputs and all(x in constants for x in inputs) and name not in RANDOM_OPERATORS:
                args, kwargs = pytree.tree_map(
                    lambda x: constants[x] if isinstance(x, Node) else x,
                    (list(node.args), dict(node.kwargs)))
                with no_grad():
                    value = node.target(*args, **kwargs) if node.op == "call_function" else \
                        getattr(args[0], str(node.target))(*args[1:], **kwargs)
                if isinstance(value, Tensor):
                    constants[node] = value
    for node, value in constants.items():
        if node.op == "get_attr" or all(user in constants for user in node.users):
            continue
        module.register_buffer(name := f"_constant_{node.name}", value.detach())
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.create_node("get_attr", name))
        graph.erase_node(node)
