"""Graphs as TorchScript's code, which runs and is saved like any other."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator
from typing import Any

from ...tensor.devices import device
from ..torchscript.writing.classes import write_attribute_read, write_literal
from .nodes import Block, Graph, Node, Value
from .schemas import find_schema
from .types import split_type

__all__ = ["GraphWriter", "write_constant"]

_ENDLESS = 2**63 - 1
_BUILTINS = {"aten::__range": "range", "prim::Print": "print", "aten::list": "list",
             "aten::len": "len", "aten::str": "str", "aten::sum": None, "aten::wait": "wait",
             "aten::any": None}
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
# Names that mean something else in TorchScript's code.
_TAKEN = frozenset(("torch", "ops", "warnings", "math", "annotate", "uninitialized", "inf", "nan",
                    "isinstance", "unchecked_cast", "getattr", "hasattr", "fork", "CONSTANTS",
                    "infj", "nanj", "print", "range", "len", "list", "str", "wait"))


class GraphWriter:
    """Writes graphs of one program.

    `constants`: the program's tensors and objects, to which those of the graphs are added.
    `functions`: definitions of what the graphs fork, by qualified name.
    """

    def __init__(self, constants: list[Any], space: str = "__torch__.forked") -> None:
        self.constants, self.functions = constants, dict[str, str]()
        self._space = space

    def write(self, graph: Graph, name: str) -> str:
        """Return the definition of a function or method."""
        writer = _BodyWriter(self)
        parameters = []
        for value in graph.inputs():
            kind = value.type().annotation_str
            parameters.append(f"{writer.name(value)}: {kind}")
        lines = [*writer.write_sequence(graph, "  ")]
        result = ", ".join(writer.read(value) for value in graph.results)
        return (f"def {name}({', '.join(parameters)}):\n" + "".join(f"{x}\n" for x in lines)
                + f"  return {result if len(graph.results) == 1 else f'({result})'}\n")

    def add_fork(self, block: Block, captured: list[Value]) -> str:
        """Define a function of a fork's block; return its name."""
        name = f"forked_{len(self.functions)}"
        qualified = f"{self._space}.{name}"
        self.functions[qualified] = ""
        writer = _BodyWriter(self)
        parameters = [f"{writer.name(value)}: {value.type().annotation_str}"
                      for value in [*block.inputs(), *captured]]
        lines = list(writer.write_sequence(block, "  "))
        self.functions[qualified] = (
            f"def {name}({', '.join(parameters)}):\n" + "".join(f"{x}\n" for x in lines)
            + f"  return {writer.read(block.results[0])}\n")
        return qualified


class _BodyWriter:
    """Writes the statements of one function."""

    def __init__(self, unit: GraphWriter) -> None:
        self._unit = unit
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()

    def name(self, value: Value) -> str:
        """Return the local name of a value."""
        if value not in self._names:
            base = value.debugName().partition(".")[0]
            if not _PLAIN_NAME.fullmatch(base) or keyword.iskeyword(base) or base in _TAKEN \
                    or base.startswith("__"):
                base = f"_{re.sub(r'[^A-Za-z0-9_]', '_', base)}"
            name, number = base, 0
            while name in self._taken:
                number += 1
                name = f"{base}_{number}"
            self._taken.add(name)
            self._names[value] = name
        return self._names[value]

    def read(self, value: Value) -> str:
        """Return the expression that reads a value."""
        node = value.node()
        if node.kind() == "prim::Constant" and value.type().kind() != "FunctionType":
            return write_constant(node.constant, value.type().annotation_str,
                                  self._unit.constants)
        return self.name(value)

    def _list(self, values: list[Value]) -> str:
        return ", ".join(map(self.read, values))

    def write_sequence(self, sequence: Any, indent: str) -> Iterator[str]:
        """Return the lines of a graph or block."""
        start, depth = indent, list[str]()
        for node in sequence.body:
            if node.kind() == "prim::Constant":
                continue
            if node.kind() == "prim::Exit":
                indent = depth.pop()
                continue
            yield from self._write_node(node, indent)
            if node.kind() == "prim::Enter":
                depth.append(indent)
                indent += "  "
                yield f"{indent}pass"
        if indent != start:
            raise NotImplementedError("a with statement without an end")

    def _write_node(self, node: Node, indent: str) -> Iterator[str]:
        if node.kind() == "prim::If":
            yield from self._write_branch(node, indent)
        elif node.kind() == "prim::Loop":
            yield from self._write_loop(node, indent)
        elif node.kind() == "prim::Enter":
            target = f" as {self.name(node.results[0])}" if node.results else ""
            yield f"{indent}with {self.read(node.arguments[0])}{target}:"
        elif node.kind() == "prim::SetAttr":
            owner, value = node.arguments
            yield f"{indent}{self.read(owner)}.{node.s('name')} = {self.read(value)}"
        else:
            text = self._write_call(node)
            targets = [self.name(value) for value in node.results]
            comma = "," if node.kind().endswith("Unpack") and len(targets) == 1 else ""
            start = f"{', '.join(targets)}{comma} = " if targets else ""
            yield f"{indent}{start}{text}"

    def _write_branch(self, node: Node, indent: str) -> Iterator[str]:
        inner = indent + "  "
        for head, block in zip((f"if {self.read(node.arguments[0])}:", "else:"), node.blocks(),
                               strict=True):
            lines = [*self.write_sequence(block, inner),
                     *self._assign(node.results, block.results, inner)]
            if lines or head != "else:":
                yield f"{indent}{head}"
                yield from lines or [f"{inner}pass"]

    def _assign(self, targets: list[Value], values: list[Value], indent: str) -> Iterator[str]:
        pairs = [(self.name(t), self.read(v)) for t, v in zip(targets, values, strict=True)]
        pairs = [(target, value) for target, value in pairs if target != value]
        if len(pairs) == 1:
            yield f"{indent}{pairs[0][0]} = {pairs[0][1]}"
        elif pairs:
            yield (f"{indent}{', '.join(target for target, _ in pairs)} = "
                   f"{', '.join(value for _, value in pairs)}")

    def _write_loop(self, node: Node, indent: str) -> Iterator[str]:
        (body,) = node.blocks()
        number, *carried = body.parameters.results
        limit, condition, *first = node.arguments
        inner = indent + "  "
        for value, result in zip(carried, node.results, strict=True):
            self._names[result] = self.name(value)  # one variable for all rounds
        yield from self._assign(carried, first, indent)
        always = condition.toIValue() is True and body.results[0].toIValue() is True
        if always:  # a range
            yield f"{indent}for {self.name(number)} in range({self.read(limit)}):"
        else:
            again = self._unnamed("again")
            yield f"{indent}{again} = {self.read(condition)}"
            is_endless = limit.toIValue() == _ENDLESS
            if not is_endless:
                yield f"{indent}{self.name(number)} = 0"
                again = f"torch.__and__({again}, torch.lt({self.name(number)}, " \
                        f"{self.read(limit)}))"
            yield f"{indent}while {again}:"
        lines = list(self.write_sequence(body, inner))
        if not always:
            name = again.partition("(")[2].partition(",")[0] or again
            lines.append(f"{inner}{name} = {self.read(body.results[0])}")
        lines += self._assign(carried, body.results[1:], inner)
        if not always and limit.toIValue() != _ENDLESS:
            lines.append(f"{inner}{self.name(number)} = torch.add({self.name(number)}, 1)")
        yield from lines or [f"{inner}pass"]

    def _unnamed(self, base: str) -> str:
        number = 0
        while f"_{base}_{number}" in self._taken:
            number += 1
        self._taken.add(f"_{base}_{number}")
        return f"_{base}_{number}"

    def _write_call(self, node: Node) -> str:
        space, _, name = node.kind().partition("::")
        special = getattr(self, f"_write_{name}", None) if space == "prim" else None
        if special is not None:
            return str(special(node))
        if _BUILTINS.get(node.kind()):
            return f"{_BUILTINS[node.kind()]}({self._list(node.arguments)})"
        if space == "aten":
            return f"torch.{name}({self._write_arguments(node)})"
        prefix = "" if space in ("warnings", "math") else "ops."
        return f"{prefix}{space}.{name}({self._write_arguments(node)})"

    def _write_arguments(self, node: Node) -> str:
        """Return the arguments: those that only keywords may pass by name, defaults left out."""
        schema = find_schema(node)
        if schema is None:
            count = len(node.arguments) - len(node.keywords)
            return ", ".join([*map(self.read, node.arguments[:count]), *(
                f"{key}={self.read(value)}" for key, value in zip(
                    node.keywords, node.arguments[count:], strict=True))])
        pairs = list(zip(schema.arguments, node.arguments, strict=True))
        while pairs and not pairs[-1][0].required and _is_default(*pairs[-1]):
            pairs.pop()
        return ", ".join(f"{a.name}={self.read(v)}" if a.kwarg_only else self.read(v)
                         for a, v in pairs if not (a.kwarg_only and _is_default(a, v)))

    # ---------------------------------------------------------------- prim

    def _write_GetAttr(self, node: Node) -> str:
        return write_attribute_read(self.read(node.arguments[0]), node.s("name"))

    def _write_CallMethod(self, node: Node) -> str:
        owner, *rest = node.arguments
        return f"({self.read(owner)}).{node.s('name')}({self._list(rest)})"

    def _write_CallFunction(self, node: Node) -> str:
        function, *rest = node.arguments
        return f"{function.node().constant}({self._list(rest)})"

    def _write_CreateObject(self, node: Node) -> str:
        kind = node.results[0].type().annotation_str
        return f"{kind}.__new__({kind})"

    def _write_TupleConstruct(self, node: Node) -> str:
        kind = node.results[0].type().annotation_str
        if split_type(kind)[0] != "Tuple":
            return f"{kind}({self._list(node.arguments)})"
        return f"({self._list(node.arguments)}{',' if len(node.arguments) == 1 else ''})"

    def _write_ListConstruct(self, node: Node) -> str:
        return f"annotate({_write_type(node)}, [{self._list(node.arguments)}])"

    def _write_DictConstruct(self, node: Node) -> str:
        pairs = zip(node.arguments[::2], node.arguments[1::2], strict=True)
        inner = ", ".join(f"{self.read(key)}: {self.read(value)}" for key, value in pairs)
        return f"annotate({_write_type(node)}, {{{inner}}})"

    def _write_TupleUnpack(self, node: Node) -> str:
        return self.read(node.arguments[0])

    _write_ListUnpack = _write_TupleUnpack

    def _write_TupleIndex(self, node: Node) -> str:
        return f"({self.read(node.arguments[0])})[{self.read(node.arguments[1])}]"

    def _write_isinstance(self, node: Node) -> str:
        return f"isinstance({self.read(node.arguments[0])}, {node.annotation})"

    def _write_unchecked_cast(self, node: Node) -> str:
        kind = node.annotation or node.results[0].type().annotation_str
        return f"unchecked_cast({kind}, {self.read(node.arguments[0])})"

    def _write_Uninitialized(self, node: Node) -> str:
        return f"uninitialized({_write_type(node)})"

    def _write_EnumName(self, node: Node) -> str:
        return f"({self.read(node.arguments[0])}).name"

    def _write_EnumValue(self, node: Node) -> str:
        return f"({self.read(node.arguments[0])}).value"

    def _write_fork(self, node: Node) -> str:
        (block,) = node.blocks()
        inside = set(block.list_values())
        captured = list(dict.fromkeys(
            value for inner in block.list_nodes(with_returns=True) for value in inner.arguments
            if value not in inside and value.node().kind() != "prim::Constant"))
        name = self._unit.add_fork(block, captured)
        return f"fork({name}{''.join(f', {self.read(x)}' for x in [*node.arguments, *captured])})"


def _write_type(node: Node) -> str:
    return node.results[0].type().annotation_str


def _is_default(argument: Any, value: Value) -> bool:
    """Return whether an argument is what its schema has by default."""
    node = value.node()
    if argument.required:
        return False
    if node.kind() == "prim::ListConstruct":
        parts = [part.toIValue() for part in node.arguments]
        return all(part.node().kind() == "prim::Constant" for part in node.arguments) \
            and parts == argument.default_value
    if node.kind() != "prim::Constant":
        return False
    constant = node.constant
    return type(constant) is type(argument.default_value) and constant == argument.default_value


def write_constant(value: Any, kind: str, constants: list[Any]) -> str:
    """Return the expression of a constant. Adds tensors and objects to `constants`."""
    head, inner = split_type(kind)
    if isinstance(value, str) and value.startswith("__torch__") and head not in ("str", "Any"):
        return value  # an Enum's member
    if value is None or isinstance(value, (bool, int, str)):
        return write_literal(value)
    if isinstance(value, float):
        return write_literal(value) if math.isfinite(value) or math.isnan(value) else \
            ("inf" if value > 0 else "-inf")
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, device):
        return f'torch.device("{value}")'
    if head == "Optional":
        return write_constant(value, inner[0], constants)
    if isinstance(value, list):
        parts = [write_constant(part, inner[0], constants) for part in value]
        return f"annotate({kind}, [{', '.join(parts)}])"
    if isinstance(value, dict):
        pairs = [f"{write_constant(k, inner[0], constants)}: "
                 f"{write_constant(v, inner[1], constants)}" for k, v in value.items()]
        return f"annotate({kind}, {{{', '.join(pairs)}}})"
    if isinstance(value, tuple):
        if head != "Tuple":
            raise NotImplementedError(f"a constant of type {kind}")
        parts = [write_constant(part, k, constants) for part, k in zip(value, inner, strict=True)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    for number, known in enumerate(constants):
        if known is value:
            return f"CONSTANTS.c{number}"
    constants.append(value)
    return f"CONSTANTS.c{len(constants) - 1}"
