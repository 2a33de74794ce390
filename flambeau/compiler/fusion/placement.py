"""Placement: the allocations that kernels read and write, and where values lie in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any

from ...native.loop_ir.ir import Type
from ..ir.graph import Node
from ..ir.strided_view import StridedView, make_contiguous_view


class Home(Enum):
    """Who owns an allocation."""

    ARENA = auto()  # the program: reused once the value is dead
    SOURCE = auto()  # a parameter, a state or an argument: index is the slot
    OUTPUT = auto()  # a returned tensor, new in each call: index is the output's number
    CONSTANT = auto()  # an array known at compile time: value


@dataclass(eq=False)
class Allocation:
    """A contiguous block of memory."""

    home: Home
    type: Type
    elements: int
    index: int = 0
    value: Any = None
    name: str = ""

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return self.elements * self.type.size


@dataclass(frozen=True)
class Place:
    """Where a value lies: a view, of the value's shape, into an allocation."""

    memory: Allocation
    window: StridedView


def allocate_in_arena(node: Node) -> Place:
    """Allocate a row-major place in the arena for a node's value."""
    memory = Allocation(Home.ARENA, node.type, max(1, prod(node.shape)), name=node.origin)
    return Place(memory, make_contiguous_view(node.shape))
