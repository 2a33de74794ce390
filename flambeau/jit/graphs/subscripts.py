"""Lists, tuples and dicts, and elements and slices of those and of tensors, as nodes."""

from __future__ import annotations

import ast

from .expressions import Expressions, unify_types
from .nodes import Value
from .types import split_type

__all__ = ["Subscripts"]


class Subscripts(Expressions):
    """Adds the nodes of containers and subscripts."""

    def _subscript(self, node: ast.Subscript) -> Value:
        owner = self.visit(node.value)
        kind = owner.type().annotation_str
        if kind == "Tensor":
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self._index(*self.locate(owner, items))
        if isinstance(node.slice, ast.Slice):
            return self._slice_container(owner, node.slice, kind)
        index = self.visit(node.slice)
        head, inner = split_type(kind)
        if head == "Tuple" or self.definitions.list_fields(kind) is not None:
            parts = inner if head == "Tuple" else list(
                (self.definitions.list_fields(kind) or {}).values())
            number = index.toIValue()
            if number is None:
                self.note_inexact(True, "an element of a tuple")
            return self.add("prim::TupleIndex", [owner, index], parts[int(number or 0)])
        if head not in ("List", "Dict", "str"):
            return self.call_method(owner, "__getitem__", [index])
        return self.add("aten::__getitem__", [owner, index], {
            "List": inner[:1], "Dict": inner[1:], "str": ["str"]}[head][0])

    def _slice_container(self, owner: Value, part: ast.Slice, kind: str) -> Value:
        head, inner = split_type(kind)
        if head == "Tuple":
            bounds = [None if x is None else ast.literal_eval(x)
                      for x in (part.lower, part.upper, part.step)]
            chosen = range(len(inner))[slice(*bounds)]
            parts = [self.add("prim::TupleIndex", [owner, self.constant(i, "int")], inner[i])
                     for i in chosen]
            return self.add("prim::TupleConstruct", parts,
                            f"Tuple[{', '.join(inner[i] for i in chosen)}]")
        return self.add("aten::slice", [owner, *self._bounds(part)], kind)

    def _bounds(self, part: ast.Slice) -> list[Value]:
        return [self.visit(x) if x is not None else self.constant(default, kind)
                for x, default, kind in ((part.lower, None, "NoneType"),
                                         (part.upper, None, "NoneType"), (part.step, 1, "int"))]

    def locate(self, owner: Value, items: list[ast.expr]) -> tuple[Value, list[Value]]:
        """Take the parts of a tensor by slices and numbers; return it and the tensors that index.

        An axis without a tensor has None among those.
        """
        axis, tensors = 0, list[Value]()
        for position, item in enumerate(items):
            number = self.constant(axis, "int")
            if isinstance(item, ast.Slice):
                owner = self.add("aten::slice", [owner, number, *self._bounds(item)], "Tensor")
                axis += 1
            elif isinstance(item, ast.Constant) and item.value is None:
                owner = self.add("aten::unsqueeze", [owner, number], "Tensor")
                axis += 1
            elif isinstance(item, ast.Constant) and item.value is Ellipsis:
                rest = items[position + 1:]
                if tensors or any(not isinstance(x, ast.Slice) for x in rest[1:]):
                    raise NotImplementedError("numbers and tensors behind an ellipsis in a graph")
                axis = -len(rest)
            else:
                value = self.visit(item)
                if value.type().annotation_str in ("int", "number"):
                    owner = self.add("aten::select", [owner, number, value], "Tensor")
                elif value.type().annotation_str == "NoneType":
                    owner = self.add("aten::unsqueeze", [owner, number], "Tensor")
                    axis += 1
                elif axis < 0:
                    raise NotImplementedError("tensors behind an ellipsis in a graph")
                else:
                    none = self.constant(None, "NoneType")
                    tensors += [none] * (axis - len(tensors)) + [self._as_index(value)]
                    axis += 1
        return owner, tensors

    def _as_index(self, value: Value) -> Value:
        kind = value.type().annotation_str
        if kind.startswith("List["):
            return self.add_operator("tensor", [value], {}, is_known=False)
        if kind == "bool":
            raise NotImplementedError("an index that is a bool in a graph")
        return value

    def _index(self, owner: Value, tensors: list[Value]) -> Value:
        """Take the elements that tensors index."""
        if not tensors:
            return owner
        indices = self.add("prim::ListConstruct", tensors, "List[Optional[Tensor]]")
        return self.add("aten::index", [owner, indices], "Tensor")

    def _list(self, node: ast.List) -> Value:
        parts = [self.visit(part) for part in node.elts]
        kinds = list(dict.fromkeys(part.type().annotation_str for part in parts))
        inner = kinds[0] if len(kinds) == 1 else "Tensor" if not kinds else unify_types(kinds)
        return self.add("prim::ListConstruct", parts, f"List[{inner}]")

    def _tuple(self, node: ast.Tuple) -> Value:
        parts = [self.visit(part) for part in node.elts]
        inner = ", ".join(part.type().annotation_str for part in parts)
        return self.add("prim::TupleConstruct", parts, f"Tuple[{inner}]" if parts else "Tuple[()]")

    def _dict(self, node: ast.Dict) -> Value:
        parts = [self.visit(part) for pair in zip(node.keys, node.values, strict=True)
                 for part in pair if part is not None]
        kinds = [part.type().annotation_str for part in parts[:2]] or ["str", "Tensor"]
        return self.add("prim::DictConstruct", parts, f"Dict[{', '.join(kinds)}]")
