"""Stateful: the protocol of objects that provide their own state to a checkpoint."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """An object with `state_dict()` and `load_state_dict(state)`, such as a module."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Restore a state."""
        ...
