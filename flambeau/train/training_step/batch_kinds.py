"""The kinds of batches (structure, shapes, dtypes) for which a run compiles its step."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ...tensor.tree import describe


class Kinds:
    """The kinds of batches (shapes and dtypes) that are compiled; saved with the run."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}  # number of rebuilds of each kind's program
        self.plain: set[str] = set()  # kinds that stay eager
        self.compiled: set[str] = set()  # kinds with a program, in this process or an earlier one

    def state_dict(self) -> dict[str, Any]:
        """Return the kinds as strings and numbers, for checkpoints."""
        return {"known": dict(self.known), "plain": sorted(self.plain),
                "compiled": sorted(self.compiled)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; missing entries are empty."""
        self.known = dict(saved.get("known", {}))
        self.plain = set(saved.get("plain", ()))
        self.compiled = set(saved.get("compiled", ()))


def describe_kind(batch: Any) -> str:
    """Describe a batch's structure, shapes and dtypes as a string, for checkpoints."""
    return describe(_describe_part, batch)


def _describe_part(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"{leaf.dtype}{tuple(leaf.shape)}"
    is_plain = isinstance(leaf, (bool, int, float, type(None)))
    return repr(leaf) if is_plain else type(leaf).__name__
