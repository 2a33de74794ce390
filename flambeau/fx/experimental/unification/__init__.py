"""Unification: find values of variables that make two terms equal."""

from __future__ import annotations

import itertools
from typing import Any

__all__ = ["Var", "isvar", "reify", "unify", "var"]

_fresh = itertools.count(1)


class Var:
    """A logic variable; variables with the same token are equal.

    >>> from flambeau.fx.experimental.unification import unify, var
    >>> unify((1, var("n")), (1, 5))
    {~n: 5}
    """

    def __init__(self, *token: Any) -> None:
        self.token = token[0] if token else f"_{next(_fresh)}"

    def __str__(self) -> str:
        return f"~{self.token}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.token == other.token

    def __hash__(self) -> int:
        return hash((type(self), self.token))


def var(*token: Any) -> Var:
    """Return a variable with this token, or a fresh one if none is given."""
    return Var(*token)


def isvar(n: Any) -> bool:
    """Return whether a term is a variable."""
    return isinstance(n, Var)


def _walk(term: Any, known: dict[Any, Any]) -> Any:
    while isinstance(term, Var) and term in known:
        term = known[term]
    return term


def unify(u: Any, v: Any, s: dict[Any, Any] | None = None) -> Any:
    """Return the substitution that makes two terms equal, or False if there is none.

    `s` holds known substitutions. Terms are variables, constants, and tuples or lists of terms.
    """
    known: dict[Any, Any] = dict(s or {})
    pairs = [(u, v)]
    while pairs:
        left, right = pairs.pop()
        left, right = _walk(left, known), _walk(right, known)
        if left is right or (type(left) is type(right) and left == right):
            continue
        if isinstance(left, Var):
            known[left] = right
        elif isinstance(right, Var):
            known[right] = left
        elif isinstance(left, tuple | list) and type(left) is type(right) \
                and len(left) == len(right):
            pairs += reversed(list(zip(left, right, strict=True)))
        elif left != right:
            return False
    return known


def reify(e: Any, s: dict[Any, Any]) -> Any:
    """Return the term with known variables replaced."""
    e = _walk(e, s)
    if isinstance(e, tuple | list):
        return type(e)(reify(part, s) for part in e)
    return e
