"""Graphs, blocks, nodes and values of programs: to look at, to change, and to print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .printing import describe_node, print_block, print_graph
from .types import IRType, TensorType

__all__ = ["Block", "Graph", "Node", "Use", "Value", "type_of_value"]


class Use(NamedTuple):
    """Where a value is an argument."""

    user: Node
    offset: int


class Value:
    """An input or result of nodes."""

    def __init__(self, name: str, kind: IRType, node: Node) -> None:
        self._name, self._kind, self._node = name, kind, node
        self.instance: Any = None  # the module or object, where it is known which

    def debugName(self) -> str:  # PyTorch's name
        """Return the name in the graph, without its %."""
        return self._name

    def setDebugName(self, name: str) -> Value:  # PyTorch's name
        """Rename the value, with a number if the graph has the name already."""
        used = {value._name for value in self._node.root().list_values()}
        number, base = 0, name
        while name in used and self._name != name:
            number += 1
            name = f"{base}.{number}"
        self._name = name
        return self

    def type(self) -> IRType:
        """Return the type."""
        return self._kind

    def setType(self, kind: IRType) -> Value:  # PyTorch's name
        """Change the type."""
        self._kind = kind
        return self

    def node(self) -> Node:
        """Return the node that computes the value."""
        return self._node

    def unique(self) -> int:
        """Return a number that no other value of the graph has."""
        return id(self)

    def offset(self) -> int:
        """Return the position among the node's results."""
        return next(i for i, value in enumerate(self._node.results) if value is self)

    def uses(self) -> list[Use]:
        """Return the nodes that the value is an argument of."""
        return [Use(node, i) for node in self._node.root().list_nodes(with_returns=True)
                for i, value in enumerate(node.arguments) if value is self]

    def replaceAllUsesWith(self, other: Value) -> None:  # PyTorch's name
        """Let nodes and results take another value in the place of this one."""
        self._node.root().replace_values({self: other})

    def replaceAllUsesAfterNodeWith(self, node: Node, other: Value) -> None:  # PyTorch's name
        """Let the nodes after one take another value."""
        order = self._node.root().list_nodes(with_returns=True)
        later = {id(n) for n in order[next(i for i, n in enumerate(order) if n is node) + 1:]}
        for use in self.uses():
            if id(use.user) in later:
                use.user.replaceInput(use.offset, other)

    def toIValue(self) -> Any:  # PyTorch's name
        """Return a constant's value, or None."""
        return self._node.constant

    def isCompleteTensor(self) -> bool:  # PyTorch's name
        """Return whether it is a tensor whose sizes are known."""
        return isinstance(self._kind, TensorType)

    def requires_grad(self) -> bool:
        """Return whether it is a tensor known to require gradients."""
        return isinstance(self._kind, TensorType) and self._kind.requires_grad()

    def __repr__(self) -> str:
        return f"{self._name} defined in ({self._node})"


class _Sequence:
    """Nodes in order, with the inputs and results of the whole."""

    def __init__(self, owner: Node | None) -> None:
        self._owner = owner
        self.parameters = Node("prim::Param", self)
        self.returned = Node("prim::Return", self)
        self.body: list[Node] = []

    @property
    def results(self) -> list[Value]:
        """The values passed out, which are the arguments of the return node."""
        return self.returned.arguments

    @results.setter
    def results(self, values: list[Value]) -> None:
        self.returned.arguments = list(values)

    def nodes(self) -> Iterator[Node]:
        """Return the nodes."""
        return iter(list(self.body))

    def inputs(self) -> Iterator[Value]:
        """Return the values passed in."""
        return iter(list(self.parameters.results))

    def outputs(self) -> Iterator[Value]:
        """Return the values passed out."""
        return iter(list(self.results))

    def param_node(self) -> Node:
        """Return the node whose results are the inputs."""
        return self.parameters

    def return_node(self) -> Node:
        """Return the node that takes the results."""
        return self.returned

    paramNode, returnNode = param_node, return_node  # PyTorch's names

    def list_nodes(self, with_returns: bool = False) -> list[Node]:
        """Return all nodes, those of inner blocks included."""
        result = []
        for node in self.body:
            result.append(node)
            for block in node._blocks:
                result += block.list_nodes(with_returns)
        if with_returns:
            result.append(self.returned)
        return result

    def list_values(self) -> list[Value]:
        """Return all values, those of inner blocks included."""
        result = list(self.parameters.results)
        for node in self.body:
            result += node.results
            for block in node._blocks:
                result += block.list_values()
        return result

    def replace_values(self, table: dict[Value, Value]) -> None:
        """Let nodes and results take other values in the place of the table's keys."""
        for node in self.list_nodes(with_returns=True):
            if not table.keys().isdisjoint(node.arguments):
                node.arguments = [_follow(value, table) for value in node.arguments]
        self.mark_changed()

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:  # PyTorch's name
        """Return the first node of a kind, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:  # PyTorch's name
        """Return the nodes of a kind, in order."""
        nodes = self.list_nodes() if recurse else self.body
        return [node for node in nodes if node.kind() == kind]

    def root(self) -> Graph:
        """Return the whole graph."""
        assert self._owner is not None
        return self._owner.root()

    def mark_changed(self) -> None:
        """Note that code made from the graph is out of date."""
        self.root().version += 1

    def registerOutput(self, value: Value) -> int:  # PyTorch's name
        """Add a result; return the number of results."""
        self.results.append(value)
        self.mark_changed()
        return len(self.results)

    def eraseOutput(self, position: int) -> None:  # PyTorch's name
        """Remove a result."""
        del self.results[position]
        self.mark_changed()

    def eraseInput(self, position: int) -> None:  # PyTorch's name
        """Remove an input."""
        del self.parameters.results[position]
        self.mark_changed()

    def addInput(self, name: str = "") -> Value:  # PyTorch's name
        """Add a tensor as an input."""
        value = Value(name or self.root().fresh_name(), IRType("Tensor"), self.parameters)
        self.parameters.results.append(value)
        self.mark_changed()
        return value

    addInputToBlock = addInput  # PyTorch's name


def _follow(value: Value, table: dict[Value, Value]) -> Value:
    while value in table:
        value = table[value]
    return value


class Block(_Sequence):
    """A branch or loop body."""

    def owningNode(self) -> Node | None:  # PyTorch's name
        """Return the node that the block belongs to."""
        return self._owner

    def lines(self, number: int, indent: str) -> Iterator[str]:
        """Return the lines of the block, which is its node's `number`th."""
        return print_block(self, number, indent)


class Graph(_Sequence):
    """A function or method. `version` counts changes, so that code is made anew after them."""

    def __init__(self) -> None:
        self.version = 0
        self.build_inlined: Callable[[], Graph] | None = None  # the same without calls
        super().__init__(None)
        self._point: tuple[_Sequence, Node | None] = (self, None)  # where insertNode puts nodes

    def root(self) -> Graph:
        """Return this graph."""
        return self

    def block(self) -> Graph:
        """Return the nodes outside of branches and loops."""
        return self

    def fresh_name(self) -> str:
        """Return a number that no value has as its name."""
        numbers = [int(v._name) for v in self.list_values() if v._name.isdigit()]
        return str(max(numbers, default=-1) + 1)

    def create(self, kind: str, *args: Any) -> Node:
        """Return a node outside of the graph. `args`: arguments and the number of results."""
        count = next((x for x in args if isinstance(x, int)), 1)
        node = Node(kind, self)
        node.arguments = list(next((x for x in args if isinstance(x, (list, tuple))), ()))
        start = int(self.fresh_name())
        node.results = [Value(str(start + i), IRType("Tensor"), node) for i in range(count)]
        return node

    def insertNode(self, node: Node) -> Node:  # PyTorch's name
        """Add a node where `setInsertPoint` pointed, or at the end."""
        place, before = self._point
        node._place = place
        at = len(place.body) if before is None else _locate(before)
        place.body.insert(at, node)
        self.mark_changed()
        return node

    appendNode = insertNode  # PyTorch's name

    def prependNode(self, node: Node) -> Node:  # PyTorch's name
        """Add a node at the start."""
        node._place = self
        self.body.insert(0, node)
        self.mark_changed()
        return node

    def setInsertPoint(self, place: Any) -> None:  # PyTorch's name
        """Let `insertNode` add nodes before one, or at the end of a block."""
        self._point = (place, None) if isinstance(place, _Sequence) else (place._place, place)

    def insertPoint(self) -> Node:  # PyTorch's name
        """Return the node before which `insertNode` adds."""
        place, before = self._point
        return place.returned if before is None else before

    def insertConstant(self, value: Any) -> Value:  # PyTorch's name
        """Add a constant where `insertNode` adds nodes."""
        return self.insertNode(self.create_constant(value)).results[0]

    def create_constant(self, value: Any, kind: IRType | None = None) -> Node:
        """Return the node of a constant, outside of the graph."""
        node = Node("prim::Constant", self, {} if value is None else {"value": value})
        node.constant = value
        node.results = [Value(self.fresh_name(), kind or IRType(name_type(value)), node)]
        return node

    def makeMultiOutputIntoTuple(self) -> None:  # PyTorch's name
        """Return several results as one tuple."""
        node = self.create("prim::TupleConstruct", list(self.results))
        inner = ", ".join(value.type().annotation_str for value in self.results)
        node.results[0]._kind = IRType(f"Tuple[{inner}]")
        self.body.append(node)
        self.results = node.results
        self.mark_changed()

    def copy(self) -> Graph:
        """Return a graph with copies of all nodes."""
        result = Graph()
        copy_sequence(self, result, {})
        return result

    def adopt(self, other: Graph) -> None:
        """Take the place of another graph's contents."""
        self.parameters, self.returned, self.body = other.parameters, other.returned, other.body
        for node in (self.parameters, self.returned, *self.body):
            node._place = self
        self.mark_changed()

    def lint(self) -> None:
        """Raise RuntimeError if a node takes a value that is not defined before it."""
        _check_order(self, set())

    def __str__(self) -> str:
        return print_graph(self)

    __repr__ = __str__

    def str(self, print_source_ranges: bool = True) -> Text:
        """Return the graph as text."""
        return print_graph(self)


Text = str  # within the class that has a method of this name


class Node:
    """An operator, call or branch."""

    def __init__(self, kind: str, place: _Sequence,
                 attributes: dict[str, Any] | None = None) -> None:
        self._kind, self._place = kind, place
        self.attributes: dict[str, Any] = attributes or {}
        self.arguments: list[Value] = []
        self.results: list[Value] = []
        self._blocks: list[Block] = []
        self.constant: Any = None
        self.annotation: str | None = None  # a type that the node tests or creates
        self.scope = ""
        self.keywords: tuple[str, ...] = ()  # names of the last arguments, without a schema

    def kind(self) -> str:
        """Return the name, such as aten::add."""
        return self._kind

    def root(self) -> Graph:
        """Return the whole graph."""
        return self._place.root()

    def inputs(self) -> Iterator[Value]:
        """Return the arguments."""
        return iter(list(self.arguments))

    def outputs(self) -> Iterator[Value]:
        """Return the results."""
        return iter(list(self.results))

    def inputsAt(self, position: int) -> Value:  # PyTorch's name
        """Return an argument."""
        return self.arguments[position]

    def outputsAt(self, position: int) -> Value:  # PyTorch's name
        """Return a result."""
        return self.results[position]

    def input(self) -> Value:
        """Return the only argument."""
        (value,) = self.arguments
        return value

    def output(self) -> Value:
        """Return the only result."""
        (value,) = self.results
        return value

    def inputsSize(self) -> int:  # PyTorch's name
        """Return the number of arguments."""
        return len(self.arguments)

    def outputsSize(self) -> int:  # PyTorch's name
        """Return the number of results."""
        return len(self.results)

    def hasMultipleOutputs(self) -> bool:  # PyTorch's name
        """Return whether there is more than one result."""
        return len(self.results) > 1

    def addInput(self, value: Value) -> Value:  # PyTorch's name
        """Add an argument."""
        self.arguments.append(value)
        self._place.mark_changed()
        return value

    def replaceInput(self, position: int, value: Value) -> None:  # PyTorch's name
        """Replace an argument."""
        self.arguments[position] = value
        self._place.mark_changed()

    def replaceInputWith(self, old: Value, new: Value) -> None:  # PyTorch's name
        """Replace an argument wherever it is passed."""
        self.arguments = [new if value is old else value for value in self.arguments]
        self._place.mark_changed()

    def removeInput(self, position: int) -> None:  # PyTorch's name
        """Remove an argument."""
        del self.arguments[position]
        self._place.mark_changed()

    def removeAllInputs(self) -> None:  # PyTorch's name
        """Remove all arguments."""
        self.arguments = []
        self._place.mark_changed()

    def addOutput(self) -> Value:  # PyTorch's name
        """Add a tensor as a result."""
        self.results.append(Value(self.root().fresh_name(), IRType("Tensor"), self))
        return self.results[-1]

    def eraseOutput(self, position: int) -> None:  # PyTorch's name
        """Remove a result."""
        del self.results[position]

    def destroy(self) -> None:
        """Remove the node from the graph."""
        self._place.body[:] = [node for node in self._place.body if node is not self]
        self._place.mark_changed()

    def insertBefore(self, other: Node) -> Node:  # PyTorch's name
        """Add the node before another."""
        self._place = other._place
        self._place.body.insert(_locate(other), self)
        self._place.mark_changed()
        return self

    def insertAfter(self, other: Node) -> Node:  # PyTorch's name
        """Add the node after another."""
        self._place = other._place
        self._place.body.insert(_locate(other) + 1, self)
        self._place.mark_changed()
        return self

    def moveBefore(self, other: Node) -> None:  # PyTorch's name
        """Move the node before another."""
        self.destroy()
        self.insertBefore(other)

    def moveAfter(self, other: Node) -> None:  # PyTorch's name
        """Move the node after another."""
        self.destroy()
        self.insertAfter(other)

    def replaceAllUsesWith(self, other: Node) -> None:  # PyTorch's name
        """Let nodes take another node's results in the place of this one's."""
        self.root().replace_values(dict(zip(self.results, other.results, strict=True)))

    def blocks(self) -> Iterator[Block]:
        """Return the branches, or the loop's body."""
        return iter(list(self._blocks))

    def addBlock(self) -> Block:  # PyTorch's name
        """Add and return a branch."""
        self._blocks.append(Block(self))
        return self._blocks[-1]

    def owningBlock(self) -> Any:  # PyTorch's name
        """Return the block or graph that holds the node."""
        return self._place

    def prev(self) -> Node:
        """Return the node before this one."""
        at = _locate(self)
        return self._place.body[at - 1] if at else self._place.parameters

    def next(self) -> Node:
        """Return the node after this one."""
        at = _locate(self) + 1
        return self._place.body[at] if at < len(self._place.body) else self._place.returned

    def schema(self) -> str:
        """Return the operator's schema, or "(no schema)"."""
        from .schemas import find_schema

        schema = find_schema(self)
        return "(no schema)" if schema is None else str(schema)

    def namedInput(self, name: str) -> Value:  # PyTorch's name
        """Return the argument that the operator's schema has under a name."""
        from .schemas import find_schema

        schema = find_schema(self)
        names = [] if schema is None else [argument.name for argument in schema.arguments]
        return self.arguments[names.index(name)]

    def attributeNames(self) -> list[str]:  # PyTorch's name
        """Return the names of the attributes."""
        return list(self.attributes)

    def hasAttributes(self) -> bool:  # PyTorch's name
        """Return whether there are attributes."""
        return bool(self.attributes)

    def hasAttribute(self, name: str) -> bool:  # PyTorch's name
        """Return whether there is an attribute."""
        return name in self.attributes

    def kindOf(self, name: str) -> str:  # PyTorch's name
        """Return the kind of an attribute: i for ints, f, s, t, or their plural."""
        value = self.attributes[name]
        first = (value[0] if value else 0) if isinstance(value, (list, tuple)) else value
        kind = {bool: "i", int: "i", float: "f", str: "s", complex: "c"}.get(type(first), "t")
        return kind + ("s" if isinstance(value, (list, tuple)) else "")

    def copyAttributes(self, other: Node) -> None:  # PyTorch's name
        """Take the attributes of another node."""
        self.attributes, self.constant = dict(other.attributes), other.constant

    def removeAttribute(self, name: str) -> None:  # PyTorch's name
        """Remove an attribute."""
        del self.attributes[name]
        self._place.mark_changed()

    def _set_attribute(self, name: str, value: Any) -> Node:
        self.attributes[name] = value
        if name == "value" and self._kind == "prim::Constant":
            self.constant = value
        self._place.mark_changed()
        return self

    def s(self, name: str) -> str:
        """Return an attribute that is a text."""
        return str(self.attributes[name])

    def i(self, name: str) -> int:
        """Return an attribute that is a number."""
        return int(self.attributes[name])

    def f(self, name: str) -> float:
        """Return an attribute that is a number."""
        return float(self.attributes[name])

    def t(self, name: str) -> Any:
        """Return an attribute that is a tensor."""
        return self.attributes[name]

    ival = z = fs = ss = ts = t
    i_ = f_ = s_ = t_ = z_ = ival_ = fs_ = ss_ = ts_ = is_ = _set_attribute

    def g(self, name: str) -> Any:
        """Return an attribute that is a graph."""
        return self.attributes[name]

    def scopeName(self) -> str:  # PyTorch's name
        """Return the names of the modules that ran the call, joined by slashes."""
        return self.scope

    def mustBeNone(self) -> bool:  # PyTorch's name
        """Return whether the only result is None."""
        return len(self.results) == 1 and self.results[0].type().kind() == "NoneType"

    def sourceRange(self) -> str:  # PyTorch's name
        """Return "": lines are not kept."""
        return ""

    def lines(self, indent: str) -> Iterator[str]:
        """Return the node's lines and those of its blocks."""
        yield f"{indent}{describe_node(self)}"
        for number, block in enumerate(self._blocks):
            yield from block.lines(number, indent + "  ")

    def __repr__(self) -> str:
        return "\n".join(self.lines(""))


# Python's `is` is no name of a method; PyTorch reads lists of ints by it all the same.
setattr(Node, "is", Node.t)


def _locate(node: Node) -> int:
    return next(i for i, other in enumerate(node._place.body) if other is node)


def name_type(value: Any) -> str:
    """Return the type of a constant."""
    if value is None:
        return "NoneType"
    if isinstance(value, (list, tuple)):
        inner = [name_type(part) for part in value] or ["Tensor"]
        return f"List[{inner[0]}]" if isinstance(value, list) else f"Tuple[{', '.join(inner)}]"
    plain = (bool, int, float, str, complex)
    return type(value).__name__ if isinstance(value, plain) else "Tensor"


def type_of_value(value: Any) -> IRType:
    """Return the type of an object; a tensor's with its sizes."""
    return TensorType(value) if hasattr(value, "layout") else IRType(name_type(value))


def copy_sequence(source: Any, target: Any, table: dict[Value, Value],
                  name: Callable[[Value], str] = Value.debugName) -> None:
    """Copy the inputs, nodes and results of a graph or block into an empty one.

    `table`: what stands for the values of the source, to which those created here are added.
    """
    for value in source.parameters.results:
        if value not in table:
            table[value] = _copy_value(value, target.parameters, name)
            target.parameters.results.append(table[value])
    for node in source.body:
        target.body.append(copy_node(node, target, table, name))
    target.results = [table.get(value, value) for value in source.results]


def copy_node(node: Node, place: Any, table: dict[Value, Value],
              name: Callable[[Value], str] = Value.debugName) -> Node:
    """Return a copy of a node with its blocks."""
    result = Node(node._kind, place, dict(node.attributes))
    result.constant, result.annotation = node.constant, node.annotation
    result.scope, result.keywords = node.scope, node.keywords
    result.arguments = [table.get(value, value) for value in node.arguments]
    for block in node._blocks:
        copy_sequence(block, result.addBlock(), table, name)
    for value in node.results:
        table[value] = _copy_value(value, result, name)
        result.results.append(table[value])
    return result


def _copy_value(value: Value, node: Node, name: Callable[[Value], str]) -> Value:
    result = Value(name(value), value._kind, node)
    result.instance = value.instance
    return result


def _check_order(sequence: _Sequence, known: set[int]) -> None:
    known = known | {id(value) for value in sequence.parameters.results}
    for node in [*sequence.body, sequence.returned]:
        for value in node.arguments:
            if id(value) not in known:
                raise RuntimeError(f"%{value.debugName()} not in scope: {node}")
        for block in node._blocks:
            _check_order(block, known)
        known |= {id(value) for value in node.results}
