"""Memory: what kernels read and write, and where in it a node's value lies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any

from ...native.loop_ir.ir import Type
from ..ir.graph import Node
from ..ir.strided_view import Window, whole


class Home(Enum):
    """Whose memory it is."""

    ARENA = auto()  # the program's own, for as long as something needs it
    SOURCE = auto()  # a parameter's, a state's or an argument's: index is the slot
    OUTPUT = auto()  # a returned tensor's, new at each call: index is the output's number
    CONSTANT = auto()  # an array known when the program was made: value


@dataclass(eq=False)
class Memory:
    """A stretch of memory: its elements' type and how many there are."""

    home: Home
    type: Type
    elements: int
    index: int = 0
    value: Any = None
    name: str = ""

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.elements * self.type.size


@dataclass(frozen=True)
class Place:
    """Where a value lies: a window on memory, of the value's shape."""

    memory: Memory
    window: Window


def in_arena(node: Node) -> Place:
    """New memory of a node's own, in row-major order."""
    memory = Memory(Home.ARENA, node.type, max(1, prod(node.shape)), name=node.origin)
    return Place(memory, whole(node.shape))
