"""Graphs from their text: torch.parse_ir."""

from __future__ import annotations

import ast
import re
from typing import Any

from .nodes import Block, Graph, Node, Value
from .types import IRType

__all__ = ["parse_ir"]

_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*)?(?:(?P<value>%[\w.]+)|(?P<text>"(?:\\.|[^"\\])*")|(?P<arrow>->)"""
    r"""|(?P<number>-?(?:inf|nan|\d+\.?\d*(?:[eE][-+]?\d+)?\b|\.\d+))"""
    r"""|(?P<name>[A-Za-z_]\w*(?:(?:::|\.)\w+)*)|(?P<sign>[()\[\]{}<>,:=?*!]))""")


def parse_ir(input: str, parse_tensor_constants: bool = False) -> Graph:
    """Return the graph that a text shows. Raises RuntimeError for one that is no graph.

    >>> graph = torch._C.parse_ir('''graph(%x : Tensor):
    ...   %y : Tensor = aten::relu(%x)
    ...   return (%y)''')
    >>> [node.kind() for node in graph.nodes()]
    ['aten::relu']
    """
    return _Parser(input).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                rest = re.sub(r"(?m)#.*$", "", text[position:]).strip()
                if not rest:
                    break
                raise RuntimeError(f"unexpected text in a graph: {rest[:40]!r}")
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()
        self._at = 0
        self._values: dict[str, Value] = {}

    # ---------------------------------------------------------------- tokens

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1] if self._at <= len(self._tokens) else ""

    def _accept(self, text: str) -> bool:
        if self._peek() == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise RuntimeError(f"expected {text} but found '{self._peek() or 'eof'}' here")

    # ---------------------------------------------------------------- graphs

    def parse(self) -> Graph:
        """Return the graph."""
        self._expect("graph")
        graph = Graph()
        self._read_inputs(graph)
        self._expect(":")
        while not self._accept("return"):
            self._read_node(graph)
        graph.results = self._read_values()
        graph.version = 0
        return graph

    def _read_inputs(self, place: Any) -> None:
        self._expect("(")
        while not self._accept(")"):
            place.parameters.results.append(self._read_declaration(place.parameters))
            self._accept(",")

    def _read_declaration(self, node: Node) -> Value:
        name = self._next().removeprefix("%")
        kind = self._read_type() if self._accept(":") else "Tensor"
        value = self._values[name] = Value(name, IRType(kind), node)
        return value

    def _read_values(self) -> list[Value]:
        self._expect("(")
        values = []
        while not self._accept(")"):
            name = self._next().removeprefix("%")
            if name not in self._values:
                raise RuntimeError(f"Cannot find a variable with name '{name}'")
            values.append(self._values[name])
            self._accept(",")
        return values

    def _read_node(self, place: Any) -> None:
        node = Node("", place)
        results = []
        if self._peek().startswith("%"):
            while not self._accept("="):
                results.append(self._read_declaration(node))
                self._accept(",")
        else:
            self._accept("=")
        node._kind, node.results = self._next(), results
        if self._accept("["):
            self._read_attributes(node)
        node.arguments = self._read_values()
        if node._kind == "prim::Constant":
            node.constant = node.attributes.get("value")
        place.body.append(node)
        while re.fullmatch(r"block\d+", self._peek()):
            self._next()
            self._read_block(node.addBlock())

    def _read_block(self, block: Block) -> None:
        self._read_inputs(block)
        self._expect(":")
        while not self._accept("->"):
            self._read_node(block)
        block.results = self._read_values()

    def _read_attributes(self, node: Node) -> None:
        while not self._accept("]"):
            name = self._next()
            self._expect("=")
            node.attributes[name] = self._read_constant(node)
            self._accept(",")

    def _read_constant(self, node: Node) -> Any:
        kind, text = self._tokens[self._at]
        if text == "[":
            self._next()
            parts = []
            while not self._accept("]"):
                parts.append(self._read_constant(node))
                self._accept(",")
            return parts
        self._next()
        if kind == "text":
            return ast.literal_eval(text)
        if kind == "number":
            number = float(text) if re.search(r"[.einf]", text) else int(text)
            is_bool = bool(node.results) and node.results[0].type().annotation_str == "bool"
            return bool(number) if is_bool else number
        return text

    # ---------------------------------------------------------------- types

    def _read_type(self) -> str:
        if self._accept("("):
            parts = self._read_types()
            kind = f"Tuple[{', '.join(parts) or '()'}]"
        else:
            kind = self._next()
            if kind in ("Float", "Double", "Long", "Int", "Half", "Bool", "BFloat16", "Byte"):
                kind = "Tensor"
                self._skip_sizes()
            elif self._accept("("):
                head = {"Dict": "Dict", "Future": "Future", "Union": "Union"}.get(kind, kind)
                if kind == "Tensor":
                    self._at -= 1
                    self._skip_sizes()
                else:
                    kind = f"{head}[{', '.join(self._read_types())}]"
        while self._peek() in ("?", "[") :
            if self._accept("?"):
                kind = f"Optional[{kind}]"
            else:
                self._expect("[")
                self._expect("]")
                kind = f"List[{kind}]"
        return kind

    def _read_types(self) -> list[str]:
        parts = []
        while not self._accept(")"):
            parts.append(self._read_type())
            self._accept(",")
        return parts

    def _skip_sizes(self) -> None:
        depth = 0
        while self._peek() == "(" or depth:
            depth += {"(": 1, ")": -1}.get(self._next(), 0)
