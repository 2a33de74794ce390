"""torch._dynamo: what programs ask of PyTorch's compiler, as far as it means something here.

Settings are taken and have no effect: flambeau.compile has none of these choices to make.
"""

from __future__ import annotations

from typing import Any

from .compiler import allow_in_graph, disable, is_compiling, reset

__all__ = ["allow_in_graph", "config", "disable", "is_compiling", "mark_dynamic", "reset"]


class Settings:
    """Any setting may be set, and is remembered; one that was not set is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


config = Settings()


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Accepted: flambeau.compile(dynamic=True) keeps programs for several shapes."""
