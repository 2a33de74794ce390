"""Which kinds of batches a run compiles its step for, by their shapes and dtypes."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ...tensor.tree import describe


class Kinds:
    """The kinds of batches (shapes and dtypes) that are compiled; saved with the run."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}  # kind: how often its program was rebuilt
        self.plain: set[str] = set()  # kinds that stay eager
        self.compiled: set[str] = set()  # kinds that had a program, in this process or before

    def state_dict(self) -> dict[str, Any]:
        """Return the facts about each kind as strings and numbers, for checkpoints."""
        return {"known": dict(self.known), "plain": sorted(self.plain),
                "compiled": sorted(self.compiled)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; missing entries are empty."""
        self.known = dict(saved.get("known", {}))
        self.plain = set(saved.get("plain", ()))
        self.compiled = set(saved.get("compiled", ()))


def describe_kind(batch: Any) -> str:
    """Structure, shapes and dtypes of a batch, in words that a checkpoint can hold."""
    return describe(_describe_part, batch)


def _describe_part(part: Any) -> str:
    if isinstance(part, Tensor):
        return f"{part.dtype}{tuple(part.shape)}"
    plain = isinstance(part, (bool, int, float, type(None)))
    return repr(part) if plain else type(part).__name__
