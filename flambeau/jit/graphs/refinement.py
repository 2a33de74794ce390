"""Tests of types that the types of their arguments decide."""

from __future__ import annotations

import ast

from .types import IRType, split_type

__all__ = ["decide_instance", "decide_none"]


def decide_none(first: IRType, second: IRType, is_negated: bool) -> bool | None:
    """Return whether `first is second`, one of them None, or None if that depends on the value."""
    kinds = [first.annotation_str, second.annotation_str]
    if "NoneType" not in kinds:
        return None
    other = kinds[1 - kinds.index("NoneType")]
    if split_type(other)[0] in ("Optional", "Union", "Any"):
        return None
    return (other == "NoneType") != is_negated


def decide_instance(kind: IRType, annotation: str) -> bool | None:
    """Return whether values of a type are instances of another, or of one of several.

    None if that depends on the value.
    """
    tree = ast.parse(annotation, mode="eval").body
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    targets = [kind.derive(ast.unparse(part)) for part in parts]
    head, inner = split_type(kind.annotation_str)
    members = [*inner, "NoneType"] if head == "Optional" else inner if head == "Union" \
        else [kind.annotation_str]
    if "Any" in members or any(kind.derive(member).kind() == "ClassType" for member in members):
        return None
    fits = [any(kind.derive(member).isSubtypeOf(target) for target in targets)
            for member in members]
    return True if all(fits) else False if not any(fits) else None
