"""Checks that a memory plan is legal; all tests run them after scheduling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.placement import Home
from ..ir.verify import require
from .memory_plan import MemoryPlan
from .tasks import Task, collect_task_memories


def verify_plan(tasks: Sequence[Task], layout: BufferAssignment, plan: MemoryPlan) -> None:
    """Raise GraphError if two values that are live at the same time share a byte of the arena."""
    lives: dict[int, list[Any]] = {}
    for k, task in enumerate(tasks):
        for memory in collect_task_memories(task, layout):
            if memory.home is Home.ARENA:
                life = lives.setdefault(id(memory), [memory, k, k])
                life[2] = k
    spans = sorted((plan.offsets[key], plan.offsets[key] + memory.bytes, first, last)
                   for key, (memory, first, last) in lives.items())
    open_spans: list[tuple[int, int, int, int]] = []
    for span in spans:
        open_spans = [element for element in open_spans if element[1] > span[0]]
        for item in open_spans:
            require(item[3] < span[2] or span[3] < item[2], None, f"{item} and {span} overlap")
        open_spans.append(span)
        require(span[1] <= plan.size, None, f"{span} leaves an arena of {plan.size} bytes")
