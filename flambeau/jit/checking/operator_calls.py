"""Calls of aten operators: argument counts, keywords, and types that no overload takes."""

from __future__ import annotations

import ast
from typing import Any

from ...ops.registration.aten_schemas import get_schemas
from .diagnostics import Refusal
from .types import NONE, STR, TENSOR, Kind, is_known

__all__ = ["check_operator"]

# Functions and methods that are Python's in PyTorch, with other parameters than the operator.
_PYTHON = frozenset("""
    einsum split stft istft norm meshgrid unique unique_consecutive cdist block_diag lu tensordot
    broadcast_tensors cartesian_prod chain_matmul align_tensors atleast_1d atleast_2d atleast_3d
    size stride type to new_tensor rename refine_names unflatten tensor sort argsort item
""".split())


def check_operator(name: str, args: list[Kind], keywords: dict[str, Kind], errors: Refusal,
                   node: ast.Call) -> None:
    """Refuse a call that fits no overload of an operator."""
    known = list(get_schemas(name).values())
    if not known or name in _PYTHON or name.endswith("_like") or errors.muted or any(
            isinstance(arg, ast.Starred) for arg in node.args):
        return
    reasons = []
    for schema in known:
        reason = _explain_mismatch(schema, args, keywords)
        if not reason:
            return
        reasons.append(f"  {schema}:\n  {reason}\n")
    if len(reasons) == 1:
        errors.report("operator", node.func, reason=reasons[0].replace("\n  ", "\n").strip())
    errors.report("operators", node.func, reasons="  \n".join(reasons))


def _explain_mismatch(schema: Any, args: list[Kind], keywords: dict[str, Kind]) -> str:
    """Return why a call does not fit a schema, or ""."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    is_variadic = any(str(a.type).endswith("]") for a in positional)
    if len(args) > len(positional) and not is_variadic:
        return (f"Expected at most {len(positional)} arguments but found {len(args)} positional "
                "arguments.")
    by_name = {a.name: a for a in schema.arguments}
    for name in keywords:
        if name not in by_name and name != "out":
            return f"Keyword argument {name} unknown."
    passed = {} if is_variadic and len(args) > len(positional) else dict(
        zip([a.name for a in positional], args, strict=False))
    for name, argument in by_name.items():
        actual = passed.get(name, keywords.get(name))
        if actual is None:
            is_given = is_variadic and len(args) >= len(positional)
            if argument.required and not is_given:
                return f"Argument {name} not provided."
        elif not _may_take(str(argument.type), actual):
            return (f"Expected a value of type '{argument.type}' for argument '{name}' but "
                    f"instead found type '{actual}'.")
    return ""


def _may_take(expected: str, actual: Kind) -> bool:
    """Return False if a value certainly does not fit, leaving doubtful cases alone."""
    is_optional = expected.endswith("?") or expected.startswith("Optional")
    if not is_known(actual):
        return True
    if actual == NONE:
        return is_optional
    bare = expected.rstrip("?").removeprefix("Optional[").partition("[")[0].rstrip("]")
    return not (actual == STR and bare == "Tensor" or actual == TENSOR and bare == "str")
