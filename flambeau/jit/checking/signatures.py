"""The parameters of a function: their types, and whether a call fits them."""

from __future__ import annotations

import ast
import inspect
import typing
from dataclasses import dataclass
from typing import Any

from ...tensor.tensor import Tensor
from .annotations import read_annotation
from .diagnostics import Refusal
from .source import Source
from .types import UNKNOWN, Kind, accepts_argument, format_schema

__all__ = ["Signature", "derive_signature", "parse_type_comment"]

_INFERRED_HINT = ("Inferred '{name}' to be of type 'Tensor' because it was not annotated with an "
                  "explicit type.\n")
_INFERRED = Kind("Tensor", is_inferred=True)


@dataclass
class Signature:
    """A function's name, types of parameters, defaults as text, and the annotated result."""

    name: str
    kinds: dict[str, Kind]
    defaults: dict[str, str]
    returns: Kind | None

    def schema(self, owner: str = "") -> str:
        """Return PyTorch's schema of the function; of a method if `owner` names its class."""
        written = [f"{owner} self"] if owner else []
        written += [f"{format_schema(kind)} {name}"
                    + (f"={self.defaults[name]}" if name in self.defaults else "")
                    for name, kind in self.kinds.items()]
        result = "Tensor" if self.returns is None else format_schema(self.returns)
        return f"{self.name}({', '.join(written)}) -> {result}"

    def __str__(self) -> str:
        written = [f"{str(kind).removesuffix(' (inferred)')} {name}"
                   + (f"={self.defaults[name]}" if name in self.defaults else "")
                   for name, kind in self.kinds.items()]
        return f"{self.name}({', '.join(written)}) -> {self.returns or _INFERRED.name}"

    def check(self, args: list[Kind], keywords: dict[str, Kind], errors: Refusal,
              node: ast.Call) -> None:
        """Refuse a call with too many, too few or wrong arguments."""
        if any(isinstance(arg, ast.Starred) for arg in node.args):
            return
        passed = dict(zip(self.kinds, args, strict=False))
        for name, actual in {**passed, **keywords}.items():
            expected = self.kinds.get(name)
            if expected is None:
                errors.report("argument-unknown", node.func, schema=self, name=name)
            elif not accepts_argument(actual, expected):
                hint = _INFERRED_HINT.format(name=name) if expected.is_inferred else ""
                errors.report("argument", node.func, schema=self, name=name, actual=actual,
                              expected=expected, hint=hint)
        if len(args) > len(self.kinds):
            errors.report("argument-count", node.func, schema=self, most=len(self.kinds),
                          actual=len(args))
        for name in self.kinds:
            if name not in passed and name not in keywords and name not in self.defaults:
                errors.report("argument-missing", node.func, schema=self, name=name)


def _format_default(default: Any) -> str:
    """Return a default as schemas show it: strings in quotes, `1.` for a whole float."""
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, float) and default == int(default) and abs(default) < 1e6:
        return f"{int(default)}."
    return f"{default}"


def derive_signature(function: Any, source: Source, is_method: bool) -> Signature:
    """Return the signature of a function, or of a method without `self`."""
    hints, has_comments = _read_hints(function, source, is_method)
    kinds, defaults = {}, {}
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters[1:] if is_method else parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        name, default = parameter.name, parameter.default
        if default is not parameter.empty:
            defaults[name] = _format_default(default)
        if hints.get(name) is not None:  # BroadcastingList2[int] is None
            kinds[name] = read_annotation(hints[name])
        else:
            is_tensor = default is parameter.empty or isinstance(default, Tensor)
            annotated = parameter.annotation is not parameter.empty or has_comments
            kinds[name] = _INFERRED if is_tensor and not annotated else UNKNOWN
    is_annotated = "return" in hints
    returns = read_annotation(hints["return"]) if is_annotated else (
        UNKNOWN if "return" in function.__annotations__ or has_comments else None)
    return Signature(function.__name__, kinds, defaults, returns)


def parse_type_comment(text: str) -> ast.FunctionType:
    """Return the types in a comment such as `(Tensor, int) -> Tensor`; the result may be missing.
    """
    return ast.parse(text if "->" in text else f"{text} -> None", mode="func_type")


def _read_hints(function: Any, source: Source, is_method: bool) -> tuple[dict[str, Any], bool]:
    """Return the annotations that can be evaluated, and whether there are type comments."""
    space: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            space[name] = cell.cell_contents
        except ValueError:
            continue
    hints: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        try:
            hints[name] = eval(annotation, function.__globals__, space) if isinstance(
                annotation, str) else annotation
        except Exception:  # the name belongs to a scope that is gone
            continue
    tree = source.tree
    arguments = [*tree.args.args, *tree.args.kwonlyargs]
    if any(argument.type_comment for argument in arguments):
        return hints, True
    if tree.type_comment is None:
        return hints, False
    try:
        written = parse_type_comment(tree.type_comment)
        namespace: Any = {"Tensor": Tensor, **vars(typing), **function.__globals__, **space}
        kinds = [eval(ast.unparse(kind), namespace) for kind in written.argtypes]
        result = eval(ast.unparse(written.returns), namespace)
    except Exception:  # as above
        return hints, True
    names = [argument.arg for argument in arguments[is_method:]]
    if "->" in tree.type_comment:
        hints = {**hints, "return": result}
    return ({**hints, **dict(zip(names, kinds, strict=True))}
            if len(names) == len(kinds) else hints), True
