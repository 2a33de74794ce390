"""Track which module attributes functions change and which the writer inlined as constants.

Settings that no function changes become constants in the code. Since changes are known only once
all functions are written, `Script` rewrites them until the two sets are disjoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....nn.module import Module

__all__ = ["ModuleState"]

Place = tuple[int, str]  # a module's id, and the name of an attribute


@dataclass
class ModuleState:
    """The attributes read at run time, and those inlined as constants."""

    changing: set[Place] = field(default_factory=set)
    frozen: set[Place] = field(default_factory=set)

    def change(self, module: Module, name: str) -> None:
        """Record that a function assigns an attribute or may mutate its list or dict."""
        self.changing.add((id(module), name))

    def is_changing(self, module: Module, name: str) -> bool:
        """Return whether an attribute is read at run time; if not, record it as a constant."""
        place = id(module), name
        if place in self.changing:
            return True
        self.frozen.add(place)
        return False

    def names(self, module: Module) -> set[str]:
        """Return the names of a module's changing attributes."""
        return {name for key, name in self.changing if key == id(module)}

    def settled(self) -> bool:
        """Return whether no constant changes, and clear the constants."""
        settled = self.changing.isdisjoint(self.frozen)
        self.frozen.clear()
        return settled
