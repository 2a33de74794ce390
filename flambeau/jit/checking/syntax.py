"""Syntax that TorchScript lacks, refused with the texts of PyTorch's front end."""

from __future__ import annotations

import ast

from .diagnostics import MESSAGES, NotSupportedError, Refusal, UnsupportedNodeError

__all__ = ["check_syntax"]

_NAMES = {
    ast.FunctionDef: ("function definitions", "def"),
    ast.AsyncFunctionDef: ("async function definitions", "async def"),
    ast.ClassDef: ("class definitions", "class"),
    ast.Import: ("import statements", "import"),
    ast.ImportFrom: ("import statements", "from"),
    ast.Global: ("global variables", "global"),
    ast.Nonlocal: ("nonlocal variables", "nonlocal"),
    ast.Try: ("try blocks", "try"),
    ast.AsyncFor: ("async for loops", "async for"),
    ast.AsyncWith: ("async with statements", "async with"),
    ast.Lambda: ("Lambda", " "), ast.Yield: ("Yield", " "), ast.YieldFrom: ("YieldFrom", " "),
    ast.Await: ("Await", " "), ast.Set: ("Set", " "), ast.SetComp: ("SetComp", " "),
    ast.NamedExpr: ("NamedExpr", " "), ast.Match: ("Match", " "),
}
_VARIADIC = ("Compiled functions can't take variable number of arguments or use keyword-only "
             "arguments with defaults")


def check_syntax(tree: ast.FunctionDef, errors: Refusal) -> None:
    """Raise PyTorch's error for the first construct that a function may not contain."""
    for argument in (tree.args.vararg, tree.args.kwarg):
        if argument is not None:
            errors.report_syntax(NotSupportedError, _VARIADIC, argument)
    for argument, default in zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True):
        if default is not None:
            errors.report_syntax(NotSupportedError, _VARIADIC, argument)
    for statement in tree.body:
        _check(statement, tree, errors)


def _check(node: ast.AST, tree: ast.FunctionDef, errors: Refusal) -> None:
    name, token = _NAMES.get(type(node), ("", ""))
    if name:
        errors.report_syntax(
            UnsupportedNodeError, f"{name} aren't supported", node, len(token))
    if isinstance(node, ast.AnnAssign):
        _check_annotated(node, tree, errors)
    if isinstance(node, ast.Dict) and None in node.keys:
        errors.report_syntax(
            NotSupportedError, "Dict expansion (e.g. `{**dict}`) is not supported", node, 1)
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg is None:
                errors.report_syntax(
                    NotSupportedError, "keyword-arg expansion is not supported", keyword.value)
    for child in ast.iter_child_nodes(node):
        _check(child, tree, errors)


def _check_annotated(node: ast.AnnAssign, tree: ast.FunctionDef, errors: Refusal) -> None:
    if node.value is None:
        message = "annotated assignments without assigned value aren't supported"
        errors.report_syntax(UnsupportedNodeError, message, node, 1)
    target = node.target
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) \
            and target.value.id == "self" and tree.name != "__init__":
        message = MESSAGES["annotated-elsewhere"].format(function=tree.name)
        width = len(f"self.{target.attr}")
        if isinstance(node.annotation, ast.Name):
            width += len(f": {node.annotation.id}")
        errors.report_syntax(ValueError, message, node, width)
