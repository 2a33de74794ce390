"""GradMemory: the gradients that a program leaves, on memory of its own, which each run overwrites.

Eager steps make new ones. So where somebody holds a gradient of an earlier run, or a view of it,
that memory is left to him, and the program writes to another.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor.tensor import GradLooks, wrap
from .bindings import Bindings


class GradMemory:
    """Of one program. `looked`: how often `.grad` had been asked for when it was last seen to."""

    def __init__(self, bindings: Bindings, step: Any) -> None:
        self.bindings, self.step = bindings, step
        self.due: set[int] = set()  # that are to get other memory
        self.settle()

    def settle(self) -> None:
        """Takes it that nobody but the compiler holds the gradients now."""
        self.counts = self.counted()
        self.looked = GradLooks.count

    def counted(self) -> list[int]:
        """How many references there are to each."""
        return [self._count(i) for i in range(len(self.bindings.grads))]

    def shift(self, before: list[int]) -> None:
        """What came to `before` meanwhile, or went, was the compiler's: other calls were recorded,
        or got a program."""
        pairs = zip(self.counted(), before, self.counts, strict=True)
        self.counts = [count + now - old for now, old, count in pairs]

    def part(self, put: Callable[[int, Any], None]) -> None:
        """Gives other memory to those that somebody holds; put(which, the new gradient).

        An interrupt may strike anywhere in it: what was begun is begun again by the next call.
        """
        held = zip(self.counted(), self.counts, strict=True)
        self.due.update(i for i, (now, before) in enumerate(held) if now > before)
        for i in sorted(self.due):
            self._part(i, put)
            self.due.discard(i)
        self.settle()  # with no names here that refer to them

    def _part(self, i: int, put: Callable[[int, Any], None]) -> None:
        leaf, grad = self.bindings.grads[i]
        made = move(self.bindings, self.step, i)
        put(i, made)
        if leaf._grad is grad:
            leaf._grad = made

    def _count(self, i: int) -> int:
        """How many references there are to a gradient and its memory, but for the leaf's."""
        leaf, grad = self.bindings.grads[i]
        if grad is None:
            return 0
        memory = self.bindings.slots[self.bindings.homes[i][0]].array
        return (sys.getrefcount(grad) + sys.getrefcount(grad._array) + sys.getrefcount(memory)
                - (leaf._grad is grad))  # fmt: skip


def move(bindings: Bindings, step: Any, i: int) -> Any:
    """Gives the gradient with a number new memory; the new gradient, without values yet."""
    leaf, _ = bindings.grads[i]
    number, axes = bindings.homes[i]
    slot = bindings.slots[number]
    memory = np.empty_like(slot.array)
    made = wrap(memory.transpose(axes) if axes else memory)
    step.move(number, memory)
    slot.array = memory
    bindings.grads[i] = leaf, made
    return made


def move_all(bindings: Bindings, step: Any) -> None:
    """Gives all gradients new memory: the call before has handed them out."""
    for i, (_, grad) in enumerate(bindings.grads):
        if grad is not None:
            move(bindings, step, i)
