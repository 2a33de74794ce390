"""GradMemory: the gradients that a program leaves, on memory of its own, which each run overwrites.

Eager steps make new ones. So where somebody holds a gradient of an earlier run, or a view of it,
that memory is left to him, and the program writes to another.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.storage import owner_of
from ...tensor.tensor import GradLooks, wrap
from ..trace.bindings import Bindings, State


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
        stored = zip(self.counted(), self.counts, strict=True)
        self.due.update(i for i, (now, before) in enumerate(stored) if now > before)
        for i in sorted(self.due):
            self._part(i, put)
            self.due.discard(i)
        for _, grad in self.bindings.grads:
            if grad is not None and grad._counter is not None:
                grad._counter.value = 0  # who wrote to it wrote to the grad of an earlier run
        self.settle()  # with no names here that refer to them

    def _part(self, i: int, put: Callable[[int, Any], None]) -> None:
        leaf, grad = self.bindings.grads[i]
        move(self.bindings, self.step, i)
        _, result = self.bindings.grads[i]
        put(i, result)
        if leaf._grad is grad:
            leaf._grad = result

    def _count(self, i: int) -> int:
        """How many references there are to a gradient and its memory, but for the leaf's."""
        leaf, grad = self.bindings.grads[i]
        if grad is None:
            return 0
        memory = self.bindings.slots[_home(self.bindings, i)].array
        return (sys.getrefcount(grad) + sys.getrefcount(grad._array) + sys.getrefcount(memory)
                - (leaf._grad is grad))


def _home(bindings: Bindings, i: int) -> int:
    """The slot with a gradient's memory."""
    if i not in bindings.grad_slots:
        owner = owner_of(bindings.grads[i][1]._array)
        bindings.grad_slots[i] = next(number for number, slot in enumerate(bindings.slots)
                                 if isinstance(slot, State) and slot.array is owner)
    return bindings.grad_slots[i]


def move(bindings: Bindings, step: Any, i: int) -> None:
    """Gives the gradient with a number new memory, without values yet."""
    leaf, grad = bindings.grads[i]
    number = _home(bindings, i)
    memory = np.empty_like(bindings.slots[number].array)
    array = np.lib.stride_tricks.as_strided(memory, grad._array.shape, grad._array.strides)
    result = wrap(array)
    step.move(number, memory)
    bindings.slots[number].array = memory
    bindings.grads[i] = leaf, result


def move_all(bindings: Bindings, step: Any) -> None:
    """Gives all gradients new memory: the call before has handed them out."""
    for i in range(len(bindings.grads)):
        if bindings.grads[i][1] is not None:
            move(bindings, step, i)
