"""What functions change on modules, and what the writer took for constant: the two must not meet.

A setting that no function changes is written into the code as a constant. Which ones change is
known only when all functions are written; `Script` writes them again while the two overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....nn.module import Module

__all__ = ["ModuleState"]

Place = tuple[int, str]  # a module's id, and the name of an attribute


@dataclass
class ModuleState:
    """The attributes that are read at run time, and those that were written as constants."""

    changing: set[Place] = field(default_factory=set)
    frozen: set[Place] = field(default_factory=set)

    def change(self, module: Module, name: str) -> None:
        """Note that a function assigns an attribute, or may change the list or dict in it."""
        self.changing.add((id(module), name))

    def is_changing(self, module: Module, name: str) -> bool:
        """Return whether an attribute is read at run time; if not, note it as a constant."""
        place = id(module), name
        if place in self.changing:
            return True
        self.frozen.add(place)
        return False

    def names(self, module: Module) -> set[str]:
        """Return the attributes of a module that change."""
        return {name for key, name in self.changing if key == id(module)}

    def settled(self) -> bool:
        """Return whether no constant changes; forget the constants."""
        settled = self.changing.isdisjoint(self.frozen)
        self.frozen.clear()
        return settled
