"""Infer the TorchScript types of expressions in a script class's `__init__`.

They give the types of unannotated attributes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

__all__ = ["TypeInference"]

_BUILTIN_RESULTS = {"int": "int", "len": "int", "ord": "int", "float": "float", "str": "str",
                    "bool": "bool", "complex": "complex", "chr": "str", "hex": "str",
                    "isinstance": "bool"}
_TENSOR_RESULTS = {"dim": "int", "numel": "int", "tolist": None, "item": None, "shape": "List[int]",
                   "is_floating_point": "bool", "dtype": "int", "device": "Device", "ndim": "int",
                   "split": "List[Tensor]", "chunk": "List[Tensor]", "unbind": "List[Tensor]",
                   "requires_grad": "bool", "is_tensor": "bool", "max": None, "min": None,
                   "topk": None, "sort": None}


class TypeInference:
    """Types of local names and of expressions over them, as text; None means unknown."""

    def __init__(self, names: dict[str, str], result_of: Callable[[ast.Call], str | None]) -> None:
        self.names, self._result_of = dict(names), result_of

    def infer(self, node: ast.expr) -> str | None:
        """Return the type of an expression, or None if it cannot be inferred."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        result: str | None = None if method is None else method(node)
        return result

    def _constant(self, node: ast.Constant) -> str | None:
        kind = type(node.value).__name__
        return kind if kind in ("int", "float", "bool", "str", "complex") else None

    def _name(self, node: ast.Name) -> str | None:
        return self.names.get(node.id)

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        return "str"

    def _list(self, node: ast.List) -> str | None:
        return self._infer_container("List", node.elts[:1])

    def _tuple(self, node: ast.Tuple) -> str | None:
        return self._infer_container("Tuple", node.elts)

    def _dict(self, node: ast.Dict) -> str | None:
        first = node.keys[0] if node.keys else None
        return None if first is None else self._infer_container("Dict", [first, node.values[0]])

    def _infer_container(self, name: str, parts: list[ast.expr]) -> str | None:
        inner = [self.infer(part) for part in parts]
        if not inner or None in inner:
            return None
        return f"{name}[{', '.join(kind for kind in inner if kind)}]"

    def _listcomp(self, node: ast.ListComp) -> str | None:
        generator = node.generators[0]
        source = self.infer(generator.iter)
        item = "int" if _find_called_name(generator.iter) == "range" else _find_element(source)
        if not isinstance(generator.target, ast.Name) or item is None:
            return None
        inner = TypeInference({**self.names, generator.target.id: item}, self._result_of)
        kind = inner.infer(node.elt)
        return None if kind is None else f"List[{kind}]"

    def _unaryop(self, node: ast.UnaryOp) -> str | None:
        return "bool" if isinstance(node.op, ast.Not) else self.infer(node.operand)

    def _compare(self, node: ast.Compare) -> str:
        kinds = [self.infer(part) for part in (node.left, *node.comparators)]
        return "Tensor" if "Tensor" in kinds else "bool"

    def _boolop(self, node: ast.BoolOp) -> str:
        return "bool"

    def _ifexp(self, node: ast.IfExp) -> str | None:
        return self.infer(node.body) or self.infer(node.orelse)

    def _binop(self, node: ast.BinOp) -> str | None:
        left, right = self.infer(node.left), self.infer(node.right)
        if "Tensor" in (left, right):
            return "Tensor"
        if left is None or right is None:
            return None
        if left.partition("[")[0] in ("List", "str"):
            return left
        if {left, right} <= {"int", "bool"}:
            return "float" if isinstance(node.op, ast.Div) else "int"
        return "float" if {left, right} <= {"int", "float", "bool"} else None

    def _subscript(self, node: ast.Subscript) -> str | None:
        owner = self.infer(node.value)
        return owner if isinstance(node.slice, ast.Slice) else _find_element(owner)

    def _attribute(self, node: ast.Attribute) -> str | None:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return self.names.get(f"self.{node.attr}")
        return _TENSOR_RESULTS.get(node.attr, "Tensor") if self.infer(node.value) == "Tensor" \
            else None

    def _call(self, node: ast.Call) -> str | None:
        name = _find_called_name(node)
        if name in _BUILTIN_RESULTS:
            return _BUILTIN_RESULTS[name]
        if name in ("list", "abs", "sum", "min", "max", "sorted") and node.args:
            kind = self.infer(node.args[0])
            return _find_element(kind) if name in ("sum", "min", "max") and kind is not None \
                and kind.startswith("List") else kind
        if isinstance(node.func, ast.Attribute) and self.infer(node.func.value) == "Tensor":
            if node.func.attr == "size":
                return "int" if node.args else "List[int]"
            return _TENSOR_RESULTS.get(node.func.attr, "Tensor")
        return self._result_of(node)


def _find_called_name(node: Any) -> str:
    """Return the name of the function if a call's callee is a bare name, else ""."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _find_element(kind: str | None) -> str | None:
    """Return the common type of all elements, or None if they differ."""
    if kind in ("Tensor", "str"):
        return kind
    if kind is not None and kind.startswith("List["):
        return kind[5:-1]
    if kind is not None and kind.startswith("Dict["):
        return kind[5:-1].partition(", ")[2]
    return None
