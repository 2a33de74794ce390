"""Gradient buffers: a program's gradients lie in its own memory, which each run overwrites.

Eager steps allocate new ones. If user code refers to a gradient of an earlier run, or to a view of
it, the program gives that memory away and writes to new memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.layout import find_owner
from ...tensor.tensor import GradReads, wrap
from ..trace.bindings import Bindings, State


class GradBuffers:
    """The gradients of one program. `checked_at`: the count of `.grad` reads at the last check."""

    def __init__(self, bindings: Bindings, step: Any) -> None:
        self.bindings, self.step = bindings, step
        self.due: set[int] = set()  # gradients to reallocate
        self.note_counts()

    def note_counts(self) -> None:
        """Record the gradients' arrays, and the reference counts while only the compiler refers to
        the gradients."""
        self.arrays = [None if grad is None else grad._array for _, grad in self.bindings.grads]
        self.counts = self.count_references()
        self.checked_at = GradReads.count

    def count_references(self) -> list[int]:
        """Return the number of references to each gradient."""
        return [self._count(i) for i in range(len(self.bindings.grads))]

    def restore_counts(self, before: list[int]) -> None:
        """Adjust the counts by the references that the compiler added or dropped since `before`."""
        pairs = zip(self.count_references(), before, self.counts, strict=True)
        self.counts = [count + now - old for now, old, count in pairs]

    def give_away_shared(self, replace: Callable[[int, Any], None]) -> None:
        """Reallocate gradients that user code refers to, or gave other memory; call replace(index,
        new gradient).

        Safe to interrupt: the next call completes the rest.
        """
        stored = zip(self.count_references(), self.counts, strict=True)
        self.due.update(i for i, (now, before) in enumerate(stored) if now > before)
        self.due.update(i for i, (_, grad) in enumerate(self.bindings.grads)
                        if grad is not None and grad._array is not self.arrays[i])
        for i in sorted(self.due):
            self._give_away(i, replace)
            self.due.discard(i)
        for i, (_, grad) in enumerate(self.bindings.grads):
            if grad is not None and grad._counter is not None:
                # Earlier writes were to the grad of an earlier run.
                grad._counter.value = self.bindings.grad_versions[i]
        self.note_counts()  # no local variable refers to them here

    def _give_away(self, i: int, replace: Callable[[int, Any], None]) -> None:
        leaf, grad = self.bindings.grads[i]
        reallocate_grad(self.bindings, self.step, i, self.arrays[i])
        _, result = self.bindings.grads[i]
        replace(i, result)
        if leaf._grad is grad:
            leaf._grad = result

    def _count(self, i: int) -> int:
        """Count references to a gradient and its memory, except the leaf's."""
        leaf, grad = self.bindings.grads[i]
        if grad is None:
            return 0
        memory = self.bindings.slots[_find_slot(self.bindings, i)].array
        return (sys.getrefcount(grad) + sys.getrefcount(grad._array) + sys.getrefcount(memory)
                - (leaf._grad is grad))


def _find_slot(bindings: Bindings, i: int) -> int:
    """Return the slot of a gradient's memory."""
    if i not in bindings.grad_slots:
        owner = find_owner(bindings.grads[i][1]._array)
        bindings.grad_slots[i] = next(number for number, slot in enumerate(bindings.slots)
                                 if isinstance(slot, State) and slot.array is owner)
    return bindings.grad_slots[i]


def reallocate_grad(bindings: Bindings, step: Any, i: int, like: Any) -> None:
    """Give gradient `i` new, uninitialized memory, laid out like an array."""
    leaf = bindings.grads[i][0]
    number = _find_slot(bindings, i)
    memory = np.empty_like(bindings.slots[number].array)
    elements = memory.reshape(-1).view(like.dtype)  # complex numbers lie there as pairs
    array = np.lib.stride_tricks.as_strided(elements, like.shape, like.strides)
    result = wrap(array)
    if bindings.grad_versions[i]:
        result._bump(bindings.grad_versions[i])
    step.move(number, memory)
    bindings.slots[number].array = memory
    bindings.grads[i] = leaf, result
