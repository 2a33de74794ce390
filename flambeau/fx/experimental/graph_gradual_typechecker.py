"""GraphTypeChecker: infer a graph's shapes and check them against partly unknown annotations.

`Refine` finds which unknown sizes must be equal; `unify_refinements` solves the constraints.
"""

from __future__ import annotations

import importlib
import itertools
import operator
from collections.abc import Callable
from typing import Any

from ...native.foundation.public_names import class_of
from ...nn.modules.activation import ReLU
from ...nn.modules.batchnorm import BatchNorm2d
from ...nn.modules.conv import Conv2d
from ...nn.modules.linear import Linear
from ...nn.modules.pooling import AdaptiveAvgPool2d, MaxPool2d
from ...tensor.tensor import Tensor
from ..graph_module import GraphModule
from ..module_paths import attribute_at
from ..node import Node, map_arg
from ..tensor_type import Dyn, TensorType
from .refinement_types import Equality
from .shape_rules import (
    INFERENCE_RULES, adaptiveavgpool2d_check, adaptiveavgpool2d_inference_rule,
    add_inference_rule, bn2d_inference_rule, broadcast_types, calculate_out_dimension,
    conv2d_inference_rule, expand_to_tensor_dim, flatten_check, flatten_inference_rule,
    find_flattened_axes, get_attr_inference_rule, get_greatest_upper_bound, linear_check,
    linear_inference_rule, maxpool2d_check, maxpool2d_inference_rule, find_public_function,
    relu_inference_rule, reshape_inference_rule, rule, transpose_inference_rule,
)
from .unification import Var

__all__ = [
    "GraphTypeChecker", "Refine", "adaptiveavgpool2d_check", "adaptiveavgpool2d_inference_rule",
    "add_inference_rule", "all_eq", "bn2d_inference_rule", "broadcast_types",
    "calculate_out_dimension", "conv2d_inference_rule", "conv_refinement_rule", "conv_rule",
    "element_wise_eq", "expand_to_tensor_dim", "first_two_eq", "flatten_check",
    "flatten_inference_rule", "flatten_refinement_rule", "get_attr_inference_rule",
    "get_greatest_upper_bound", "get_parameter", "linear_check", "linear_inference_rule",
    "linear_refinement_rule", "maxpool2d_check", "maxpool2d_inference_rule",
    "register_inference_rule", "relu_inference_rule", "reshape_inference_rule",
    "transpose_inference_rule",
]

register_inference_rule = rule
get_parameter = attribute_at


def _find_rule(rules: dict[Any, Callable[..., Any]], target: Any) -> Callable[..., Any] | None:
    """Return the rule for a function or class, or None; torch functions are keyed by name."""
    name = f"torch.{getattr(target, '__name__', '')}"
    if name in rules and find_public_function(name) is target:
        return rules[name]
    return rules.get(target)


def _list_types(n: Node) -> Any:
    return map_arg(n.args[0], lambda value: value.type)


class GraphTypeChecker:
    """Infers a type for every node of a graph from its input annotations.

    >>> from flambeau.fx.experimental.graph_gradual_typechecker import GraphTypeChecker
    >>> from flambeau.fx.tensor_type import Dyn, TensorType
    >>> gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2)))
    >>> next(iter(gm.graph.nodes)).type = TensorType((Dyn, 3))
    >>> GraphTypeChecker({}, gm).type_check(), gm.graph.output_node().type
    (True, TensorType[(Dyn, 2)])
    """

    def __init__(self, env: dict[str, Any], traced: GraphModule) -> None:
        self.env, self.traced = env, traced

    def type_check(self) -> bool:
        """Infer every node's type. TypeError at the first node whose shapes do not fit."""
        for node in self.traced.graph.nodes:
            self.type_check_node(node)
        return True

    def type_check_node(self, n: Node) -> Any:
        """Infer and return a node's type. RuntimeError if its target has no rule."""
        if n.type is None:
            n.type = Dyn
        if n.op == "get_attr":
            value = attribute_at(self.traced, n.target)
            if isinstance(value, Tensor):
                n.type = TensorType(value.shape)
        elif n.op == "call_function":
            infer = _find_rule(INFERENCE_RULES, n.target)
            if infer is None:
                raise RuntimeError(f"No inference rule registered for target {n.target}!")
            return infer(n, self.traced) if n.target is getattr else infer(n)
        elif n.op == "call_module":
            module = self.traced.get_submodule(n.target)
            infer = INFERENCE_RULES.get(type(module))
            if infer is None:
                raise RuntimeError(f"No inference rule registered for class {class_of(module)}!")
            return infer(n, module)
        elif n.op == "output":
            n.type = _list_types(n)
        elif n.op != "placeholder":
            raise NotImplementedError(f"Method {n.op} not yet implemented")
        return n.type


# ------------------------------------------------------------------------- which sizes are equal


def _equate(n: Node, count: int | None) -> list[Equality]:
    """Constrain a node's first `count` sizes (None: all) to equal its input's."""
    source: Any = n.args[0]
    if not isinstance(source.type, TensorType) or not isinstance(n.type, TensorType):
        return []
    pairs = zip(source.type.dims, n.type.dims, strict=False)
    return [Equality(a, b) for a, b in itertools.islice(pairs, count)]


def conv_refinement_rule(n: Node) -> list[Equality]:
    """The batch size is unchanged."""
    return _equate(n, 1)


linear_refinement_rule = conv_refinement_rule


def all_eq(n: Node) -> list[Equality]:
    """All sizes are unchanged."""
    return _equate(n, None)


def first_two_eq(n: Node) -> list[Equality]:
    """Batch size and channels are unchanged."""
    return _equate(n, 2)


def element_wise_eq(n: Node) -> list[Equality]:
    """Constrain a result's size to the operands' if these agree after broadcasting."""
    types = [getattr(value, "type", None) for value in (*n.args[:2], n)]
    if not all(isinstance(kind, TensorType) for kind in types):
        return []
    first, second = broadcast_types(types[0], types[1])
    sizes = zip(first.dims, second.dims, types[2].dims, strict=False)  # type: ignore[union-attr]
    return [Equality(a, result) for a, b, result in sizes if a == b]


def flatten_refinement_rule(n: Node) -> list[Equality]:
    """Constrain the sizes outside the flattened range to equal the input's."""
    source: Any = n.args[0]
    if not isinstance(source.type, TensorType) or not isinstance(n.type, TensorType):
        return []
    start, end = find_flattened_axes(n)
    rank = len(n.type.dims)
    start = rank if start == -1 else start
    end = rank + end + 1 if end < 0 else end + 1
    output_dims, input_dims = n.type.dims, source.type.dims
    pairs = [*zip(output_dims[:start], input_dims[:start], strict=False),
             *zip(output_dims[end:], input_dims[end:], strict=False)]
    return [Equality(a, b) for a, b in pairs]


_REFINEMENT_RULES: dict[Any, Callable[[Node], list[Equality]]] = {
    Conv2d: conv_refinement_rule, Linear: linear_refinement_rule, BatchNorm2d: all_eq,
    ReLU: all_eq, AdaptiveAvgPool2d: first_two_eq, MaxPool2d: first_two_eq,
    "torch.add": element_wise_eq, operator.add: element_wise_eq,
    "torch.flatten": flatten_refinement_rule,
}


def conv_rule(n: Node, module_instance: Any) -> Any:
    """Express a convolution's output sizes in terms of its input's."""
    source: Any = n.args[0]
    if not isinstance(source.type, TensorType) or not isinstance(n.type, TensorType):
        return None
    height, width = (calculate_out_dimension(size, module_instance, i)
                     for i, size in enumerate(source.type.dims[2:4]))
    n.type = TensorType((*n.type.dims[:2], height, width))
    return n.type


class Refine:
    """Names the unknown sizes of a graph and lists in `constraints` which are equal."""

    def __init__(self, traced: Any) -> None:
        self.constraints: list[Equality] = []
        self.traced = traced
        self.symbol_iter = itertools.count()

    def refine(self) -> bool:
        """Refine every node."""
        for node in self.traced.graph.nodes:
            self.refine_node(node)
        return True

    def refine_node(self, n: Node) -> None:
        """Name a node's unknown sizes and add its constraints."""
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        target = n.target
        if n.op == "call_module":
            target = type(self.traced.get_submodule(target))
        if n.op in ("call_module", "call_function"):
            refine = _find_rule(_REFINEMENT_RULES, target)
            self.constraints += refine(n) if refine else []
        elif n.op == "output":
            n.type = _list_types(n)

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """Return the type with a fresh variable for each unknown size."""
        if typ == Dyn:
            return Var(next(self.symbol_iter))
        return _convert_parts(self.replace_dyn_with_fresh_var, typ)

    def symbolic_relations(self) -> bool:
        """Convert variables to sympy symbols, and sizes of convolutions to expressions."""
        for node in self.traced.graph.nodes:
            self.infer_symbolic_relations(node)
        return True

    def infer_symbolic_relations(self, n: Node) -> None:
        """Convert one node."""
        n.type = self.convert_to_sympy_symbols(n.type)
        if n.op == "call_module":
            module = self.traced.get_submodule(n.target)
            if type(module) is Conv2d:
                conv_rule(n, module)
        elif n.op == "output":
            n.type = _list_types(n)

    def convert_to_sympy_symbols(self, typ: Any) -> Any:
        """Return the type with variables replaced by sympy symbols."""
        if isinstance(typ, Var):
            return importlib.import_module("sympy").symbols(str(typ))
        return _convert_parts(self.convert_to_sympy_symbols, typ)


def _convert_parts(convert: Callable[[Any], Any], typ: Any) -> Any:
    if isinstance(typ, TensorType):
        return TensorType(tuple(map(convert, typ.dims)))
    if isinstance(typ, list | tuple):
        return type(typ)(map(convert, typ))
    return typ
