"""Stateful: objects whose state a checkpoint takes by itself."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """Has `state_dict()` and `load_state_dict(state)`: a module, an optimizer, an own object."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take over a state."""
        ...
