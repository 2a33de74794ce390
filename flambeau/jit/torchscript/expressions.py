"""Translate TorchScript expressions to Python expressions that can access only operators.

Local names get a prefix. Other names must resolve to an operator, class or constant of the archive.
Attributes and methods go through runtime.py, which checks what a value declares.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NoReturn

from .type_expressions import format_dotted_path

__all__ = ["BINARY", "Expressions", "ScriptSyntaxError", "build_runtime_call", "mangle_local"]

_NUMBERS = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf")),
            "nanj": complex(0, float("nan"))}
BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__",
    ast.BitOr: "__or__", ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__",
}
_COMPARISONS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "__is__", ast.IsNot: "__isnot__", ast.In: "__contains__",
}
# Operators called by their bare names.
_BUILTINS = frozenset("""
    int float bool str complex len print range list tuple dict min max abs sum all any round sorted
    zip enumerate ord chr hex oct bin pow divmod unchecked_unwrap_optional fork awaitable reversed
    wait getattr hasattr _to_tensor
""".split())


class ScriptSyntaxError(RuntimeError):
    """Raised for code that is not TorchScript or that uses an unknown operator."""


class Expressions:
    """Translates expressions and assignment targets, one method each."""

    def __init__(self, filename: str, bind: Callable[[str, str], str]) -> None:
        self.filename, self.bind = filename, bind
        self.locals: set[str] = set()

    def refuse(self, node: ast.AST, reason: str) -> NoReturn:
        """Raise an error that names the line."""
        line = getattr(node, "lineno", 0)
        raise ScriptSyntaxError(f"{self.filename}, line {line}: {reason}")

    def expression(self, node: ast.expr) -> ast.expr:
        """Translate one expression."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None or isinstance(node, ast.stmt):
            self.refuse(node, f"{type(node).__name__} is no expression of TorchScript")
        result: ast.expr = method(node)
        return ast.copy_location(result, node)

    def _constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, (int, float, str, bool, complex, type(None), type(...))):
            self.refuse(node, "no constant of TorchScript")
        return ast.Constant(node.value)

    def _name(self, node: ast.Name) -> ast.expr:
        if node.id in self.locals:
            return ast.Name(mangle_local(node.id), ast.Load())
        if node.id in _NUMBERS:
            return ast.Constant(_NUMBERS[node.id])
        self.refuse(node, f"undefined value {node.id}")

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        path = format_dotted_path(node) or ""
        first = path.partition(".")[0]
        if first not in self.locals:
            if first == "CONSTANTS":
                return ast.Name(self.bind("constant", node.attr), ast.Load())
            if first == "__torch__":
                return self.reference(node, path)
            if first in ("torch", "ops"):
                self.refuse(node, f"{path} is no value: operators are called")
        return build_runtime_call("g_get", self.expression(node.value), ast.Constant(node.attr))

    def reference(self, node: ast.expr, path: str) -> ast.expr:
        """Refer to a class or function of the archive, or an Enum member."""
        return ast.Name(self.bind("reference", path), ast.Load())

    def _call(self, node: ast.Call) -> ast.expr:
        function = node.func
        if isinstance(function, ast.Name) and function.id not in self.locals:
            special = getattr(self, f"special_{function.id}", None)
            if special is not None:
                result: ast.expr = special(node)
                return result
            if function.id in _BUILTINS:
                return self.applied(ast.Name(self.bind("operator", function.id), ast.Load()), node)
            self.refuse(node, f"undefined value {function.id}")
        path = format_dotted_path(function) or ""
        first = path.partition(".")[0]
        if first in ("torch", "ops", "warnings", "math") and first not in self.locals:
            name = self.bind("operator", _find_operator_name(path))
            return self.applied(ast.Name(name, ast.Load()), node)
        if first == "__torch__" and path.endswith(".__new__"):
            owner = self.reference(function, path.removesuffix(".__new__"))
            return build_runtime_call("g_new", owner)
        if isinstance(function, ast.Attribute) and first != "__torch__":
            operator = ast.Constant(function.attr)
            bound = build_runtime_call("g_method", self.expression(function.value), operator)
            return self.applied(bound, node)
        return self.applied(build_runtime_call("g_invocable", self.expression(function)), node)

    def applied(self, function: ast.expr, node: ast.Call) -> ast.expr:
        """Build a call with a node's arguments."""
        if any(k.arg is None for k in node.keywords):
            self.refuse(node, "keywords are named one by one")
        keywords = [ast.keyword(k.arg, self.expression(k.value)) for k in node.keywords]
        args = [self.expression(a) for a in node.args]
        return ast.Call(function, args, keywords)

    def special_annotate(self, node: ast.Call) -> ast.expr:
        """Translate `annotate(type, value)` to the value."""
        return self.expression(self._translate_arguments(node, 2)[1])

    special_unchecked_cast = special_annotate

    def special_uninitialized(self, node: ast.Call) -> ast.expr:
        """Translate to None, since the value is never read."""
        return ast.Constant(None)

    def special_isinstance(self, node: ast.Call) -> ast.expr:
        """Translate a type test. The type stays text until run time."""
        value, kind = self._translate_arguments(node, 2)
        kind_text = ast.Constant(ast.unparse(kind))
        return build_runtime_call("g_isinstance", self.expression(value), kind_text)

    def special_getattr(self, node: ast.Call) -> ast.expr:
        """Read an attribute whose name is not an identifier."""
        return self._call_by_name("g_get", node)

    def special_hasattr(self, node: ast.Call) -> ast.expr:
        """Test whether a value declares an attribute."""
        return self._call_by_name("g_has", node)

    def _call_by_name(self, function: str, node: ast.Call) -> ast.expr:
        value, name = self._translate_arguments(node, 2)
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            self.refuse(node, "an attribute's name is a string")
        return build_runtime_call(function, self.expression(value), ast.Constant(name.value))

    def special___new__(self, node: ast.Call) -> ast.expr:
        """Create an object without attributes from its class."""
        return build_runtime_call("g_new", self.expression(self._translate_arguments(node, 1)[0]))

    def _translate_arguments(self, node: ast.Call, count: int) -> list[ast.expr]:
        if node.keywords or len(node.args) < count:
            self.refuse(node, f"{count} arguments were expected")
        return node.args

    def _unaryop(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(ast.Not(), operand)
        if isinstance(operand, ast.Constant) and isinstance(node.op, ast.USub):
            return ast.UnaryOp(ast.USub(), operand)
        name = {ast.USub: "neg", ast.Invert: "bitwise_not"}.get(type(node.op))
        return operand if name is None else build_runtime_call(self.bind("operator", name), operand)

    def _binop(self, node: ast.BinOp) -> ast.expr:
        name = BINARY.get(type(node.op))
        if name is None:
            self.refuse(node, "an unknown operator")
        return build_runtime_call(self.bind("operator", name), self.expression(node.left),
                                  self.expression(node.right))

    def _compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) != 1:
            self.refuse(node, "a chain of comparisons")
        left, right = self.expression(node.left), self.expression(node.comparators[0])
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            inside = build_runtime_call(self.bind("operator", "__contains__"), right, left)
            return inside if isinstance(node.ops[0], ast.In) else ast.UnaryOp(ast.Not(), inside)
        comparison = self.bind("operator", _COMPARISONS[type(node.ops[0])])
        return build_runtime_call(comparison, left, right)

    def _boolop(self, node: ast.BoolOp) -> ast.expr:
        op: ast.boolop = ast.And() if isinstance(node.op, ast.And) else ast.Or()
        return ast.BoolOp(op, [self.expression(v) for v in node.values])

    def _ifexp(self, node: ast.IfExp) -> ast.expr:
        return ast.IfExp(self.expression(node.test), self.expression(node.body),
                         self.expression(node.orelse))

    def _tuple(self, node: ast.Tuple) -> ast.expr:
        return ast.Tuple([self.expression(e) for e in node.elts], ast.Load())

    def _list(self, node: ast.List) -> ast.expr:
        return ast.List([self.expression(e) for e in node.elts], ast.Load())

    def _dict(self, node: ast.Dict) -> ast.expr:
        if any(k is None for k in node.keys):
            self.refuse(node, "a dict that is unpacked")
        return ast.Dict([self.expression(k) for k in node.keys if k is not None],
                        [self.expression(v) for v in node.values])

    def _listcomp(self, node: ast.ListComp) -> ast.expr:
        return ast.ListComp(self.expression(node.elt), self._translate_generators(node))

    def _dictcomp(self, node: ast.DictComp) -> ast.expr:
        return ast.DictComp(self.expression(node.key), self.expression(node.value),
                            self._translate_generators(node))

    def _translate_generators(self, node: ast.ListComp | ast.DictComp) -> list[ast.comprehension]:
        return [ast.comprehension(self.target(g.target), build_runtime_call("g_iterate",
                                  self.expression(g.iter)),
                                  [self.expression(i) for i in g.ifs], 0) for g in node.generators]

    def _subscript(self, node: ast.Subscript) -> ast.expr:
        value, key = self.expression(node.value), self.expression(node.slice)
        return build_runtime_call("g_getitem", value, key)

    def _slice(self, node: ast.Slice) -> ast.expr:
        parts = [ast.Constant(None) if p is None else self.expression(p)
                 for p in (node.lower, node.upper, node.step)]
        return build_runtime_call("g_slice", *parts)

    def target(self, node: ast.expr) -> ast.expr:
        """Translate an assignment target: a name, or tuples of them."""
        if isinstance(node, ast.Name):
            return ast.Name(mangle_local(node.id), ast.Store())
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple([self.target(e) for e in node.elts], ast.Store())
        if isinstance(node, ast.Starred):
            return ast.Starred(self.target(node.value), ast.Store())
        self.refuse(node, "no target of an assignment")


def mangle_local(name: str) -> str:
    return f"v_{name}"


def _find_operator_name(path: str) -> str:
    """Convert `torch.relu` to relu, `ops.prim.dtype` to prim.dtype."""
    return path.removeprefix("torch.").removeprefix("ops.")


def build_runtime_call(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), list(args), [])
