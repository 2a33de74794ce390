"""Sized kernels: one kernel for all lengths, merged from the kernels of a few lengths.

The compiler's output at several lengths is compared statement by statement. If only extents and
strides differ, and are polynomials of the length, they become arguments of one kernel. At the
lengths it was made from, the kernel is the original. These lie far enough apart that a number with
another dependence on the length (blocks that are rounded up) does not fit a polynomial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from ...native.loop_ir.ir import (
    Apply, Axis, Buffer, Constant, Kernel, Load, Loop, Scalar, Size, SizeValue, Store, Affine,
    Type,
)
from ..fusion.placement import Allocation, Home
from .polynomials import NoCommonForm, Polynomial, fit
from .tasks import Task

# Fields that may hold a Size instead of an integer.
_EXTENTS = {(Loop, "extent"), (Axis, "extent"), (Affine, "terms"), (Load, "indirect"),
            (Store, "indirect")}


@dataclass(eq=False)
class SizedTask:
    """A task whose kernel takes `sizes`; `starts`: each buffer's start, in elements."""

    task: Task
    kernel: Kernel
    sizes: list[Polynomial]
    starts: list[int | Polynomial]


class CommonTasks:
    """Merge the tasks of one step at several lengths into tasks for all lengths up to `capacity`.

    elements: the size of each allocation, by id. is_bounded: whether the capacity is a hard limit.
    Raises NoCommonForm.
    """

    def __init__(self, lengths: Sequence[int], plans: Sequence[Sequence[Task]], capacity: int
                 ) -> None:
        self.lengths, self.capacity = lengths, capacity
        self.elements: dict[int, int | Polynomial] = {}
        self.is_bounded = False
        self._memories: dict[tuple[int, ...], Allocation] = {}
        self._plans = plans  # kept alive, as ids of its parts are keys
        if len({len(tasks) for tasks in plans}) > 1:
            raise NoCommonForm("a number of kernels that differs between lengths")
        self.tasks = [self._merge_task(tasks) for tasks in zip(*plans, strict=True)]

    def work(self, k: int, length: int) -> int:
        """The approximate work of a task at a length, in elements."""
        (first, *_, last), (n, *_, m) = [tasks[k].work for tasks in self._plans], self.lengths
        return max(0, first + (last - first) * (length - n) // (m - n))

    def _merge_task(self, tasks: Sequence[Task]) -> SizedTask:
        kernels = [task.kernel for task in tasks]
        if None in kernels:
            raise NoCommonForm(f"{tasks[0].name} is called eagerly")
        common = _CommonKernel(self.lengths, self.capacity)
        kernel = common.merge(kernels)
        self.is_bounded = self.is_bounded or common.is_bounded
        if len({len(task.memories) for task in tasks}) > 1:
            raise NoCommonForm("kernels of different buffers")
        memories = [self._merge_memories(memories)
                    for memories in zip(*(task.memories for task in tasks), strict=True)]
        starts = [fit(self.lengths, offsets)
                  for offsets in zip(*(task.offsets for task in tasks), strict=True)]
        last = tasks[-1]
        result = Task(last.name, kernel, memories, work=last.work, flops=last.flops,
                      origins=last.origins, group=last.group)
        return SizedTask(result, kernel, [*common.sizes], starts)

    def _merge_memories(self, memories: Sequence[Allocation]) -> Allocation:
        key = tuple(map(id, memories))
        known = self._memories.get(key)
        if known is not None:
            return known
        first = memories[0]
        if any((m.home, m.type, m.index) != (first.home, first.type, first.index)
               for m in memories):
            raise NoCommonForm("kernels on different memory")
        if first.home is Home.CONSTANT and any(
            m.value.shape != first.value.shape or (m.value != first.value).any() for m in memories
        ):
            raise NoCommonForm("numbers that depend on the length")
        size = fit(self.lengths, [m.elements for m in memories])
        if isinstance(size, Polynomial) and min(size.slope, size.square) < 0:
            raise NoCommonForm("memory that shrinks as the length grows")
        result = Allocation(first.home, first.type, first.elements, first.index, first.value,
                            first.name)
        self._memories[key], self.elements[id(result)] = result, size
        return result


class _CommonKernel:
    """Merge the kernels of one task. `sizes`: the Size that stands for each polynomial."""

    def __init__(self, lengths: Sequence[int], capacity: int) -> None:
        self.lengths, self.capacity = lengths, capacity
        self.sizes: dict[Polynomial, Size] = {}
        self.is_bounded = False  # whether scratch depends on the length
        self._merged: dict[tuple[int, ...], Any] = {}

    def merge(self, kernels: Sequence[Any]) -> Kernel:
        """Return the common kernel; raise NoCommonForm if there is none."""
        try:
            result: Kernel = self._merge_any(kernels, False)
        except RecursionError:
            raise NoCommonForm("expressions that are too deep") from None
        result.sizes = [*self.sizes.values()]
        return result

    def _merge_any(self, items: Sequence[Any], may_vary: bool) -> Any:
        first = items[0]
        kind = first.__class__
        if any(item.__class__ is not kind for item in items):
            raise NoCommonForm("statements that differ between lengths")
        if kind is list or kind is tuple:
            if len({len(item) for item in items}) > 1:
                raise NoCommonForm("a number of statements that differs between lengths")
            return kind([self._merge_any(parts, may_vary) for parts in zip(*items, strict=True)])
        if kind is int and may_vary:
            return self._merge_extents(items)
        if is_dataclass(first) and not isinstance(first, Enum):
            return self._node(items)
        if any(item != first for item in items) and kind is not str:  # names may differ
            raise NoCommonForm(f"{first!r} and others, depending on the length")
        return first

    def _merge_extents(self, items: Sequence[int]) -> int | Size:
        form = fit(self.lengths, items)
        if isinstance(form, int):
            return form
        return self.sizes.setdefault(form, Size(f"n{len(self.sizes)}"))

    def _node(self, items: Sequence[Any]) -> Any:
        key = tuple(map(id, items))
        known = self._merged.get(key)
        if known is not None:
            return known
        kind = items[0].__class__
        if kind is Constant:
            result = self._merge_constants(items)
        elif kind is Buffer:
            result = self._merge_buffers(items)
        else:
            result = kind(**{
                f.name: self._merge_any([getattr(item, f.name) for item in items],
                                        (kind, f.name) in _EXTENTS)
                for f in fields(kind) if f.init
            })
        self._merged[key] = result
        return result

    def _merge_constants(self, items: Sequence[Constant]) -> Any:
        first = items[0]
        if all(item.type is first.type and repr(item.value) == repr(first.value)
               for item in items):
            return Constant(first.type, first.value)
        if any(item.type is not first.type or item.value != int(item.value) for item in items):
            raise NoCommonForm("numbers that depend on the length")
        size = self._merge_extents([int(item.value) for item in items])
        assert isinstance(size, Size)
        value = SizeValue(size)
        return value if first.type is Type.I64 else Apply(Scalar.CAST, (value,), first.type)

    def _merge_buffers(self, items: Sequence[Buffer]) -> Buffer:
        """Merge buffers; a thread's scratch is as large as the longest step needs."""
        first = items[0]
        if any((b.type, b.aliased, b.parts) != (first.type, first.aliased, first.parts)
               or (b.local is None) != (first.local is None) for b in items):
            raise NoCommonForm("kernels of different buffers")
        local = first.local
        if local is not None:
            form = fit(self.lengths, [b.local or 0 for b in items])
            self.is_bounded = self.is_bounded or not isinstance(form, int)
            local = form if isinstance(form, int) else form(self.capacity)
        return Buffer(first.type, first.name, local, first.aliased, first.parts)
