"""TorchScript's functions in torch._C: passes over graphs, freezing, graphs as text."""

from __future__ import annotations

from typing import Any

from .frozen import freeze_graphs
from .graphs.nodes import Graph
from .graphs.passes.constants import propagate_constants
from .graphs.passes.dead_code import eliminate_dead_code
from .graphs.passes.frozen_layers import (
    concat_frozen_linear, convert_frozen_ops_to_mkldnn, fold_frozen_conv_add_or_sub,
    fold_frozen_conv_bn, fold_frozen_conv_mul_or_div, fold_frozen_linear_bn,
    optimize_frozen_graph, remove_dropout, transpose_frozen_linear,
)
from .graphs.passes.peephole import (
    lower_all_tuples, lower_simple_tuples, remove_detach, simplify_peepholes,
)
from .graphs.passes.subexpressions import eliminate_common_subexpressions

__all__ = ["PASSES", "_freeze_module", "inline_calls"]


def _freeze_module(module: Any, preservedAttrs: Any = (), freezeInterfaces: bool = True,
                   preserveParameters: bool = False) -> Any:
    """Return the object of a module whose methods run on constants where nothing changes them."""
    return freeze_graphs(module._module, tuple(preservedAttrs), preserveParameters)._c


def inline_calls(graph: Graph) -> None:
    """Put the nodes of called functions and methods in the place of the calls."""
    if graph.build_inlined is not None and not graph.version:
        graph.adopt(graph.build_inlined())
    elif graph.findNode("prim::CallMethod") or graph.findNode("prim::CallFunction"):
        raise NotImplementedError("torch._C._jit_pass_inline of a graph that passes changed")


def _lint(graph: Graph) -> None:
    graph.lint()


def _canonicalize(graph: Graph, keep_unique_names: bool = True) -> Graph:
    """Return a copy whose values are numbered in order."""
    result = graph.copy()
    values = result.list_values()
    if not keep_unique_names:
        for number, value in enumerate(values):
            value._name = str(number)
    return result


def _peephole(graph: Graph, disable_shape_peepholes: bool = False) -> bool:
    changed = simplify_peepholes(graph) | propagate_constants(graph)
    if changed:
        eliminate_dead_code(graph)
    return changed


PASSES: dict[str, Any] = {
    "inline": inline_calls, "dce": eliminate_dead_code, "lint": _lint,
    "constant_propagation": propagate_constants, "cse": eliminate_common_subexpressions,
    "peephole": _peephole, "lower_simple_tuples": lower_simple_tuples,
    "lower_all_tuples": lower_all_tuples, "canonicalize": _canonicalize,
    "fold_frozen_conv_bn": fold_frozen_conv_bn, "fold_frozen_linear_bn": fold_frozen_linear_bn,
    "fold_frozen_conv_add_or_sub": fold_frozen_conv_add_or_sub,
    "fold_frozen_conv_mul_or_div": fold_frozen_conv_mul_or_div, "remove_dropout": remove_dropout,
    "concat_frozen_linear": concat_frozen_linear, "frozen_linear_transpose":
    transpose_frozen_linear, "transpose_frozen_linear": transpose_frozen_linear,
    "optimize_frozen_graph": optimize_frozen_graph, "remove_detach": remove_detach,
    "convert_frozen_ops_to_mkldnn": convert_frozen_ops_to_mkldnn,
    "constant_pooling": eliminate_common_subexpressions,
}
