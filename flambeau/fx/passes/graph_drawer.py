"""FxGraphDrawer: draw a graph with the `pydot` package and graphviz."""

from __future__ import annotations

import hashlib
import importlib
from itertools import chain
from typing import Any

from ...nn.module import Module
from ...nn.parameter import Parameter
from .._compatibility import compatibility
from ..graph import _parse_stack_trace
from ..graph_module import GraphModule
from ..module_paths import attribute_at, has_attribute
from ..node import Node, _format_arg
from ..operator_schemas import normalize_function
from ..qualified_names import qualified_name
from .shape_prop import TensorMetadata
from .tools_common import class_name

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": '"AliceBlue"', "call_module": "LemonChiffon1", "get_param": "Yellow2",
    "get_attr": "LightGrey", "output": "PowderBlue",
}
# Colors for functions and methods, chosen by a hash of the name.
_FUNCTION_COLORS = (
    "CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1",
    "LavenderBlush1", "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1",
    "Salmon", "Thistle1", "Thistle3", "Wheat1",
)
_BREAK = r"\n"


@compatibility(is_backward_compatible=False)
class FxGraphDrawer:
    r"""Draws a graph: `FxGraphDrawer(gm, "net").get_dot_graph().write_svg("net.svg")`.

    Draws a box per node with its target, arguments and, after ShapeProp, shape and dtype, and a box
    per parameter unless `ignore_parameters_and_buffers`. `get_dot_graph` returns a `pydot.Dot`,
    whose `to_string` does not need graphviz.
    """

    def __init__(
        self, graph_module: GraphModule, name: str, ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False, dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        try:
            pydot = importlib.import_module("pydot")
        except ModuleNotFoundError:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot "
                "through your favorite Python package manager."
            ) from None
        self._pydot, self._name = pydot, name
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self._skip_names, self._with_lines = skip_node_names_in_args, parse_stack_trace
        self._skip_attributes = ignore_getattr
        self._skip_parameters = ignore_parameters_and_buffers
        self._dot_graphs = {name: self._draw_graph(graph_module, name)}
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                module = self._find_module(graph_module, node)
                if isinstance(module, GraphModule):
                    inner = f"{name}_{node.target}"
                    self._dot_graphs[inner] = self._draw_graph(module, inner)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """Return the drawing of the graph, or of one of its submodules."""
        return self._dot_graphs[f"{self._name}_{submod_name}" if submod_name else self._name]

    def get_main_dot_graph(self) -> Any:
        """Return the drawing of the whole graph."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """Return the drawing of a submodule's graph."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """Return all drawings by name."""
        return self._dot_graphs

    def _draw_graph(self, gm: GraphModule, name: str) -> Any:
        pydot = self._pydot
        dot = pydot.Dot(name, rankdir="TB")
        nodes = [n for n in gm.graph.nodes if n.op != "get_attr" or not self._skip_attributes]
        for node in nodes:
            box = pydot.Node(node.name, label=self._label(gm, node), **self._get_node_style(node))
            dot.add_node(box)
            if node.op == "call_module" and not self._skip_parameters:
                module = self._find_module(gm, node)
                if not isinstance(module, GraphModule):
                    self._draw_parameters(dot, node, module)
        for node in nodes:
            for user in node.users:
                dot.add_edge(pydot.Edge(node.name, user.name))
        return dot

    def _draw_parameters(self, dot: Any, node: Node, module: Module) -> None:
        for name, value in chain(module.named_parameters(), module.named_buffers()):
            path = f"{node.name}.{name}"
            kind = f"{path}|op_code=get_parameter" if isinstance(value, Parameter) \
                else r"buffer\l"
            shape = f"{value.dtype}{list(value.shape)}{_BREAK}"
            style = {"fillcolor": "Salmon", "style": '"filled,rounded"', "fontcolor": "#000000",
                     "shape": self.dot_graph_shape}
            dot.add_node(self._pydot.Node(path, label="{" + kind + shape + "}", **style))
            dot.add_edge(self._pydot.Edge(path, node.name))

    def _get_node_style(self, node: Node) -> dict[str, str]:
        color = _COLORS.get(node.op)
        if color is None:
            name = node._pretty_print_target(node.target)
            digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
            color = _FUNCTION_COLORS[int(digest[:8], 16) % len(_FUNCTION_COLORS)]
        return {"shape": self.dot_graph_shape, "fillcolor": color, "style": '"filled,rounded"',
                "fontcolor": "#000000"}

    @staticmethod
    def _find_module(gm: GraphModule, node: Node) -> Module:
        if not has_attribute(gm, node.target):
            raise RuntimeError(f"{gm} does not have attribute {node.target}!")
        module: Module = attribute_at(gm, node.target)
        return module

    def _label(self, gm: GraphModule, node: Node) -> str:
        """Return the text in a node's box, in graphviz record syntax."""
        text = "{" + f"name=%{node.name}|op_code={node.op}\n"
        if node.op == "call_module":
            module = self._find_module(gm, node)
            constants = [f"{c}: {getattr(module, c)}"
                         for c in getattr(module, "__constants__", ())]
            text += f"{_BREAK}{_escape(class_name(type(module)))}{_BREAK}|"
            text += _BREAK.join(constants) + _BREAK
        else:
            target = node.target if isinstance(node.target, str) else qualified_name(node.target)
            args, kwargs = self._list_arguments(node)
            items = [f"{name}: {_format_arg(value, max_list_len=8)}"
                     for name, value in kwargs.items()]
            text += f"|target={_escape(target)}{_BREAK}"
            text += self._list(r"|args=(\l", r",\n)\l",
                               [_format_arg(value, max_list_len=8) for value in args])
            text += self._list(r"|kwargs={\l", r",\n}\l", items)
            text += f"|num_users={len(node.users)}{_BREAK}"
        text += _describe(node.meta.get("tensor_meta"))
        return text + self._line_of(node) + "}"

    def _list_arguments(self, node: Node) -> tuple[Any, Any]:
        if self.normalize_args:
            try:
                normal = normalize_function(node.target, node.args, node.kwargs,
                                            normalize_to_only_use_kwargs=True)
            except Exception:  # cannot be normalized: keep the arguments unchanged
                normal = None
            if normal is not None:
                return normal.args, normal.kwargs
        return node.args, node.kwargs

    def _list(self, start: str, end: str, items: list[str]) -> str:
        shown = [item for item in items if "%" not in item or not self._skip_names]
        if not shown:
            return ""
        text = start + r",\n".join(shown) + end
        if len(shown) == 1:
            text = text.replace(r"\l", "").replace(_BREAK, "")
        return _escape(text)

    def _line_of(self, node: Node) -> str:
        if not self._with_lines or node.stack_trace is None:
            return ""
        place = _parse_stack_trace(node.stack_trace)
        if place is None:
            return ""
        file = "/".join(place.file.split("/")[-2:])
        return f"|file={file}:{place.lineno} {place.code}{_BREAK}"


def _escape(text: str) -> str:
    """Escape braces, which delimit fields in record labels."""
    return text.replace("{", r"\{").replace("}", r"\}")


def _describe(meta: Any) -> str:
    """Return the dtype, shape and strides that ShapeProp recorded, as text."""
    if isinstance(meta, TensorMetadata):
        parts = {"dtype": meta.dtype, "shape": tuple(meta.shape),
                 "requires_grad": meta.requires_grad, "stride": meta.stride}
        parts |= meta.qparams if meta.is_quantized else {}
        return "".join(f"|{name}={value}{_BREAK}" for name, value in parts.items())
    if isinstance(meta, dict):
        return "".join(map(_describe, meta.values()))
    if isinstance(meta, list | tuple):
        return "".join(map(_describe, meta))
    return ""
