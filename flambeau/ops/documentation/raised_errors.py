"""The errors that an operator raises, read from its declaration and from the code of its checks."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from ...tensor.dtypes import BOOL, COMPLEX, FLOATING, FROM_NUMPY, INTEGER
from .stub_removal import Stubs

_CATEGORIES = {BOOL: "bool", INTEGER: "an integer", FLOATING: "floating", COMPLEX: "complex"}
# How deep to follow calls from the body: checks are one or two calls away.
_DEPTH = 2
# Messages with fewer letters outside their values are not informative.
_LEAST_LETTERS = 8
# Modules whose errors are documented once for all operators with an axis.
_SAID_ELSEWHERE = ("flambeau.ops.core", "flambeau.native", "flambeau.autograd", "flambeau.tensor")


def list_raised_errors(function: Callable, operator: Any) -> list[str]:
    """List the entries of a `Raises:` section: each error's type, and its condition or message."""
    names = list(inspect.signature(function).parameters)
    tensors = () if operator is None else getattr(operator, "tensor_names", ())
    if names[:1] == ["self"]:  # defined as a method
        tensors = tensors[1:]
    entries = []
    if tensors:
        expected = _describe_tensors(operator, tensors)
        entries.append(f"TypeError: {_enumerate(tensors)} must be {expected}.")
    if operator is not None and operator.pointwise and len(operator.tensor_names) > 1:
        entries.append("RuntimeError: The shapes do not broadcast.")
    if operator is not None and operator.refuse is not None:
        entries += _list_refusals(operator)
    if "dim" in names and "input" in names:
        entries.append("IndexError: `dim` is not an axis of `input`.")
    body = operator.body if operator is not None else inspect.unwrap(
        function, stop=lambda f: not isinstance(getattr(f, "__wrapped__", None), FunctionType))
    for kind, words in _find_raises(body, set(), _DEPTH):
        entry = f"{kind}: {words}"
        if entry not in entries:
            entries.append(entry)
    return entries


def _enumerate(names: Any) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _describe_tensors(operator: Any, names: Any) -> str:
    if operator.has_sequence and len(names) == 1:
        return "a tuple or list of Tensors"
    notes = {str(p.annotation) for p in operator.parameters if p.name in names}
    numbers = any("Number" in note for note in notes)
    if len(names) > 1:
        return "Tensors or numbers" if numbers else "Tensors"
    return "a Tensor or a number" if numbers else "a Tensor"


def _list_refusals(operator: Any) -> Iterator[str]:
    """Yield the entries for `refuse=` of a pointwise declaration."""
    categories = getattr(operator.refuse, "categories", None)
    if not categories:
        return
    kinds = [_CATEGORIES[category] for category in categories]
    words = kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"
    yield f"{_find_refusal_type(operator, categories[0])}: The dtype is {words}."


def _find_refusal_type(operator: Any, category: Any) -> str:
    kind = next(d for d in FROM_NUMPY.values() if d.category == category)
    return type(operator.refuse.error(operator, kind)).__name__


def _find_raises(function: Any, seen: set[Any], depth: int) -> Iterator[tuple[str, str]]:
    """Yield type and message of each `raise` in a function and the flambeau functions it calls."""
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    code = Stubs.take_off(function).__code__
    tree = _parse_functions(code.co_filename).get(code.co_firstlineno)
    if tree is None:  # generated code
        return
    called: list[Any] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and (entry := _read_raise(node.exc)) is not None:
            yield entry
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.append(function.__globals__.get(node.func.id))
    for callee in called if depth else ():
        home = getattr(callee, "__module__", None) or ""
        if home.startswith("flambeau.ops.") and not home.startswith(_SAID_ELSEWHERE) \
                and not hasattr(callee, "operator"):
            yield from _find_raises(callee, seen, depth - 1)


@functools.cache
def _parse_functions(filename: str) -> dict[int, ast.AST]:
    """The functions of a file, by the line at which their code begins."""
    try:
        tree = ast.parse(Path(filename).read_text(encoding="utf-8"))
    except OSError:
        return {}
    return {
        min([node.lineno, *(d.lineno for d in node.decorator_list)]): node
        for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    }


def _read_raise(error: ast.expr | None) -> tuple[str, str] | None:
    """Return type and message of `raise Type("message")`, with values in braces."""
    if not isinstance(error, ast.Call) or not isinstance(error.func, ast.Name):
        return None
    kind = getattr(builtins, error.func.id, None)
    known = isinstance(kind, type) and issubclass(kind, Exception)
    if not (known or error.func.id == "LinAlgError") or not error.args:
        return None
    words = _read_message(error.args[0])
    if words is None or len(re.sub(r"\{\w+\}|\W", "", words)) < _LEAST_LETTERS:
        return None
    return error.func.id, " ".join(words.split())


def _read_message(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [_read_message(v) if isinstance(v, ast.Constant) else _name_value(v)
                 for v in node.values]
        return None if None in parts else "".join(p or "" for p in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _read_message(node.left), _read_message(node.right)
        return None if left is None or right is None else left + right
    return None


def _name_value(node: Any) -> str:
    """A value within a message: its name if it is an identifier, else "..."."""
    expression = ast.unparse(node.value)
    return f"{{{expression}}}" if expression.isidentifier() else "..."
