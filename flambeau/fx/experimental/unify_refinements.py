"""infer_symbolic_types: find which unknown sizes of a graph are equal, as variables or symbols."""

from __future__ import annotations

from typing import Any

from ..graph import Graph
from ..graph_module import GraphModule
from ..tensor_type import TensorType
from .graph_gradual_typechecker import Refine
from .refinement_types import Equality
from .unification import Var, unify

__all__ = ["check_for_type_equality", "convert_eq", "infer_symbolic_types",
           "infer_symbolic_types_single_pass", "substitute_all_types",
           "substitute_solution_one_type", "unify_eq"]


def infer_symbolic_types_single_pass(traced: GraphModule) -> Refine:
    """Name the unknown sizes of a graph, giving equal sizes the same variable."""
    refine = Refine(traced)
    refine.refine()
    substitute_all_types(traced.graph, unify_eq(refine.constraints))
    return refine


def infer_symbolic_types(traced: GraphModule) -> None:
    """Do the same, and turn sizes of convolutions into sympy expressions.

    Runs two passes: equalities that the first finds among operands make result sizes equal.
    """
    infer_symbolic_types_single_pass(traced)
    infer_symbolic_types_single_pass(traced).symbolic_relations()


def convert_eq(list_of_eq: list[Equality]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the left-hand and the right-hand sides of the constraints."""
    return tuple(eq.lhs for eq in list_of_eq), tuple(eq.rhs for eq in list_of_eq)


def unify_eq(list_of_eq: list[Equality]) -> Any:
    """Solve for the variables; return False if the constraints contradict each other."""
    return unify(*convert_eq(list_of_eq))


def substitute_solution_one_type(mapping: dict[Any, Any], t: Any) -> Any:
    """Return the type with solved variables replaced."""
    if isinstance(t, Var):
        return mapping.get(t, t)
    if isinstance(t, TensorType):
        return TensorType(tuple(mapping.get(size, size) for size in t.dims))
    if isinstance(t, list | tuple):
        return type(t)(substitute_solution_one_type(mapping, part) for part in t)
    return t


def substitute_all_types(graph: Graph, mapping: Any) -> None:
    """Apply a solution to every node, following chains of variables to the end.

    Raises TypeError if the sizes contradict each other (`mapping` is False).
    """
    if mapping is False:
        raise TypeError("the sizes of the graph contradict each other")
    solved = {variable: _follow(mapping, value) for variable, value in mapping.items()}
    for node in graph.nodes:
        node.type = substitute_solution_one_type(solved, node.type)


def _follow(mapping: dict[Any, Any], value: Any) -> Any:
    while isinstance(value, Var) and value in mapping:
        value = mapping[value]
    return value


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Return whether the nodes of two graphs have the same types."""
    return all(n.type == m.type for n, m in zip(g1.nodes, g2.nodes, strict=False))
