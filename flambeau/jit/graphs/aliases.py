"""Which values of a graph may share memory, and which memory nodes write to.

Steensgaard's analysis: values that may be the same object are in one class, and each class has one
class of contents, the elements of its lists, dicts and tuples. Near-linear, and never optimistic.
"""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from .nodes import Block, Graph, Node, Value
from .schemas import find_schema
from .types import split_type

__all__ = ["Memory", "list_parts"]

_EXTRACTS = frozenset(("prim::TupleUnpack", "prim::ListUnpack", "prim::TupleIndex", "aten::get",
                       "aten::__getitem__", "aten::values", "aten::items", "aten::wait",
                       "aten::keys"))
_INSERTS = frozenset(("aten::append", "aten::insert", "aten::extend", "aten::_set_item",
                      "aten::update", "aten::setdefault", "aten::pop", "aten::popitem",
                      "aten::clear", "aten::remove", "aten::sort", "aten::reverse",
                      "aten::Delete"))
_PURE = frozenset(("aten::len", "aten::str", "aten::format", "aten::__contains__", "prim::Print",
                   "prim::isinstance", "aten::__is__", "aten::__isnot__", "prim::dtype",
                   "prim::device", "prim::RaiseException", "aten::copy", "aten::index",
                   "aten::count", "aten::eq", "aten::ne", "aten::size", "aten::dim",
                   "aten::numel", "aten::item", "aten::percentFormat", "prim::Constant",
                   "aten::Bool", "aten::Int", "aten::Float", "aten::sum", "prim::Uninitialized",
                   "warnings::warn", "prim::requires_grad", "prim::is_cuda", "prim::layout",
                   "aten::warn", "prim::shape", "prim::ndim", "aten::sorted", "aten::join",
                   "prim::CreateObject"))


class _Place:
    """A class of values that may be the same object."""

    __slots__ = ("contents", "is_written", "parent")

    def __init__(self) -> None:
        self.parent: _Place | None = None
        self.contents: _Place | None = None
        self.is_written = False


class Memory:
    """The places of a graph's values and of the attributes that it reads.

    `attributes`: the place of each attribute read or assigned, by (id of its owner, name).
    `assigned`: names of attributes that are assigned. `escaped`: objects whose methods are called;
    `calls`: whether there are calls at all.
    """

    def __init__(self, graph: Graph) -> None:
        self._places: dict[Value, _Place] = {}
        self._parts: dict[Any, _Place] = {}
        self.attributes: dict[tuple[int, str], _Place] = {}
        self.assigned: set[str] = set()
        self.escaped: list[Any] = []
        self.calls = False
        self._everything = _Place()  # what is read of objects that are not known
        self._run(graph)

    def is_written(self, value: Value) -> bool:
        """Return whether a node may write to a value, or to what it holds."""
        if not value.type().is_mutable():
            return False
        place = find(self.place(value))
        return place.is_written or place.contents is not None and find(place.contents).is_written

    def writes_itself(self, value: Value) -> bool:
        """Return whether a node may write to a value, not only to what it holds."""
        return value.type().is_mutable() and find(self.place(value)).is_written

    def place(self, value: Value) -> _Place:
        """Return the place of a value."""
        if value not in self._places:
            self._places[value] = _Place()
            if value.node().kind() == "prim::Constant":
                self._add_constant(self._places[value], value.toIValue())
        return self._places[value]

    def _add_constant(self, place: _Place, constant: Any) -> None:
        if isinstance(constant, Tensor):
            for part in list_parts(constant):
                unite(place, self._parts.setdefault(part, _Place()))
            return
        for part in list_parts(constant):
            unite(contents(place), self._parts.setdefault(part, _Place()))

    def attribute(self, key: tuple[int, str]) -> _Place:
        """Return the place of an attribute."""
        return self.attributes.setdefault(key, _Place())

    # ---------------------------------------------------------------- nodes

    def _run(self, sequence: Graph | Block) -> None:
        for node in sequence.body:
            rule = _RULES.get(node.kind())
            if rule is not None:
                rule(self, node)
            elif node.kind() in _EXTRACTS:
                for value in node.results:
                    self._same(value, contents(self.place(node.arguments[0])))
            elif node.kind() in _INSERTS:
                self._insert(node)
            elif node.kind() not in _PURE:
                self._apply_schema(node)

    def _same(self, value: Value, place: _Place) -> None:
        if value.type().is_mutable():
            unite(self.place(value), place)

    def _unite(self, *values: Value) -> None:
        for value in values[1:]:
            if value.type().is_mutable() and values[0].type().is_mutable():
                unite(self.place(values[0]), self.place(value))

    def _insert(self, node: Node) -> None:
        owner, *rest = node.arguments
        find(self.place(owner)).is_written = True
        inside = contents(self.place(owner))
        for value in rest:
            self._same(value, inside)
            if node.kind() in ("aten::extend", "aten::update"):
                unite(inside, contents(self.place(value)))
        for value in node.results:
            if node.kind() == "aten::append":
                self._unite(owner, value)
            else:
                self._same(value, inside)

    def _apply_schema(self, node: Node) -> None:
        schema = find_schema(node)
        if schema is None:
            self._apply_unknown(node)
            return
        for argument, value in zip(schema.arguments, node.arguments, strict=True):
            alias = argument.alias_info
            if alias is None:
                continue
            place = self.place(value)
            if split_type(value.type().annotation_str)[0] == "List":
                place = contents(place)
            if alias.is_write:
                find(place).is_written = True
            for returned, result in zip(schema.returns, node.results, strict=False):
                if returned.alias_info is not None:
                    inside = split_type(result.type().annotation_str)[0] == "List"
                    unite(contents(self.place(result)) if inside else self.place(result), place)

    def _apply_unknown(self, node: Node) -> None:
        """Let results be arguments; an operator whose name ends in _ writes to its first."""
        for value in node.results:
            self._unite(value, *node.arguments)
        name = node.kind()
        if name.endswith("_") and not name.endswith("__") and node.arguments:
            find(self.place(node.arguments[0])).is_written = True

    def get_attribute(self, node: Node) -> None:
        """Read an attribute."""
        owner, result = node.arguments[0], node.results[0]
        if owner.instance is None:
            self._same(result, self._everything)
            unite(contents(self._everything), self._everything)
        else:
            self._same(result, self.attribute((id(owner.instance), node.s("name"))))

    def set_attribute(self, node: Node) -> None:
        """Assign an attribute."""
        owner, value = node.arguments
        self.assigned.add(node.s("name"))
        if owner.instance is None:
            self._same(value, self._everything)
            return
        key = (id(owner.instance), node.s("name"))
        self._same(value, self.attribute(key))

    def construct(self, node: Node) -> None:
        """Put values into a container."""
        inside = contents(self.place(node.results[0]))
        for value in node.arguments:
            self._same(value, inside)

    def branch(self, node: Node) -> None:
        """Join the results of branches."""
        for block in node.blocks():
            self._run(block)
            for result, value in zip(node.results, block.results, strict=True):
                self._unite(result, value)

    def loop(self, node: Node) -> None:
        """Join what rounds pass on."""
        (body,) = node.blocks()
        self._run(body)
        for group in zip(node.results, node.arguments[2:], body.results[1:],
                         body.parameters.results[1:], strict=True):
            self._unite(*group)

    def fork(self, node: Node) -> None:
        """Pass values to code that runs beside the rest, and may write to them."""
        (body,) = node.blocks()
        for value, parameter in zip(node.arguments, body.inputs(), strict=True):
            self._unite(value, parameter)
            if value.type().is_mutable():
                find(self.place(value)).is_written = True
        self._run(body)
        self._same(body.results[0], contents(self.place(node.results[0])))

    def call(self, node: Node) -> None:
        """Call what is not known: it may write to its arguments and return them."""
        self.calls = True
        for value in node.arguments:
            if value.instance is not None:
                self.escaped.append(value.instance)
            if value.type().is_mutable():
                place = find(self.place(value))
                place.is_written = True
                find(contents(place)).is_written = True
        for value in node.results:
            self._unite(value, *node.arguments)

    def cast(self, node: Node) -> None:
        """Return the argument under another type."""
        self._unite(node.results[0], *node.arguments)


_RULES: dict[str, Any] = {
    "prim::GetAttr": Memory.get_attribute, "prim::SetAttr": Memory.set_attribute,
    "prim::ListConstruct": Memory.construct, "prim::TupleConstruct": Memory.construct,
    "prim::DictConstruct": Memory.construct, "prim::If": Memory.branch, "prim::Loop": Memory.loop,
    "prim::fork": Memory.fork, "prim::CallMethod": Memory.call, "prim::CallFunction": Memory.call,
    "prim::unchecked_cast": Memory.cast, "prim::Enter": Memory.call, "prim::Exit": Memory.call,
}


def find(place: _Place) -> _Place:
    """Return the representative of a place's class."""
    while place.parent is not None:
        if place.parent.parent is not None:
            place.parent = place.parent.parent
        place = place.parent
    return place


def unite(first: _Place, second: _Place) -> None:
    """Join two classes, and the classes of their contents."""
    pairs = [(first, second)]
    while pairs:
        a, b = map(find, pairs.pop())
        if a is b:
            continue
        b.parent = a
        a.is_written |= b.is_written
        if a.contents is not None and b.contents is not None:
            pairs.append((a.contents, b.contents))
        a.contents = a.contents or b.contents


def contents(place: _Place) -> _Place:
    """Return the class of what a class's containers hold."""
    place = find(place)
    if place.contents is None:
        place.contents = _Place()
    return find(place.contents)


def list_parts(value: Any) -> set[Any]:
    """Return what identifies the memory of a value and of all that it holds."""
    if isinstance(value, Tensor):
        storage = value.detach().untyped_storage() if not value.is_quantized else None
        return {("tensor", id(value) if storage is None or not storage.nbytes()
                 else storage.data_ptr())}
    if isinstance(value, (list, dict)):
        inner = value.values() if isinstance(value, dict) else value
        return {("container", id(value))}.union(*map(list_parts, inner))
    if isinstance(value, tuple):
        return set().union(*map(list_parts, value))
    if hasattr(value, "_flambeau_type"):
        return {("object", id(value))}
    return set()
