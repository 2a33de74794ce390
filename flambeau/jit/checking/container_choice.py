"""The container type that a literal has where the program declares a union of types."""

from __future__ import annotations

import ast

from .diagnostics import Refusal
from .types import UNKNOWN, Kind, fits, is_known, make_list, make_dict, make_union

__all__ = ["choose_dictionary", "choose_list"]


def _list_candidates(expected: Kind, name: str, errors: Refusal, node: ast.AST) -> list[Kind]:
    result = [kind for kind in expected.inner if kind.name == name]
    if not result and is_known(expected):
        errors.report("union-container", node, name=name, annotated=expected)
    return result


def _format_candidates(candidates: list[Kind]) -> str:
    return ", ".join(f"`{kind}`" for kind in candidates)


def choose_list(expected: Kind, elements: list[Kind], errors: Refusal, node: ast.AST) -> Kind:
    """Return the member of a union that a list of such elements is."""
    lists = _list_candidates(expected, "List", errors, node)
    if not elements and len(lists) > 1:
        errors.report("union-empty-list", node, annotated=expected)
    if not lists or not all(map(is_known, elements)):
        return lists[0] if len(lists) == 1 else make_list(UNKNOWN)
    matching = [kind for kind in lists if all(fits(e, kind.inner[0]) for e in elements)]
    if matching:
        return matching[0]
    actual = make_union(*elements)
    if len(lists) == 1:
        errors.report("list-elements", node, annotated=lists[0], actual=actual)
    errors.report("union-list", node, annotated=expected, candidates=_format_candidates(lists),
                  actual=actual)
    return lists[0]


def choose_dictionary(expected: Kind, keys: list[Kind], values: list[Kind], errors: Refusal,
                      node: ast.AST) -> Kind:
    """Return the member of a union that a dictionary of such keys and values is."""
    kinds = _list_candidates(expected, "Dict", errors, node)
    if not kinds or not keys or not all(map(is_known, (*keys, *values))):
        return kinds[0] if len(kinds) == 1 else make_dict(UNKNOWN, UNKNOWN)
    matching = [kind for kind in kinds if all(fits(k, kind.inner[0]) for k in keys)
                and all(fits(v, kind.inner[1]) for v in values)]
    if matching:
        return matching[0]
    if len(kinds) == 1:
        errors.report("dict-elements", node, annotated=kinds[0], value=make_union(*values))
    errors.report("union-dict", node, annotated=expected, candidates=_format_candidates(kinds),
                  key=make_union(*keys), value=make_union(*values))
    return kinds[0]
