"""Runs random graphs with every memory between guard pages: a touch outside ends the process.

    python guard_page_run.py FIRST LAST

States, arguments, outputs and the arena lie flush against pages that cannot be read or written, in
turn behind them and before them. Inside the arena nothing is shared, and poison lies in between.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
GAP = 256  # bytes of poison after each memory in the arena
POISON = 0xFF
_live_blocks: list[Any] = []


def guarded(size: int, at_end: bool) -> np.ndarray:
    """Bytes between two guard pages, flush against one of them."""
    pages = max(1, -(-size // PAGE))
    block = mmap.mmap(-1, (pages + 2) * PAGE)
    _live_blocks.append(block)
    whole = np.frombuffer(block, np.uint8)
    address = whole.ctypes.data
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for guard in (address, address + (pages + 1) * PAGE):
        if protect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = PAGE + (pages * PAGE - size if at_end else 0)
    return whole[start : start + size]


def array(shape: tuple[int, ...], dtype: Any, at_end: bool) -> np.ndarray:
    """An array between guard pages, full of poison."""
    dtype = np.dtype(dtype)
    memory = guarded(prod(shape) * dtype.itemsize, at_end)
    memory[...] = POISON
    return memory.view(dtype).reshape(shape)


class Numpy:
    """NumPy, whose `empty` gives memory between guard pages."""

    at_end = True

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any = float) -> np.ndarray:
        """Where a step's outputs go."""
        return array(tuple(shape), dtype, self.at_end)


def spread(plan: Any, tasks: Any, layout: Any) -> Any:
    """A plan in which no two values share memory; and where the poison lies."""
    from flambeau.compiler.fusion.placement import Home
    from flambeau.compiler.schedule.memory_plan import collect_task_memories

    offsets, size, margins = {}, 0, []
    for task in tasks:
        for memory in collect_task_memories(task, layout):
            if memory.home is Home.ARENA and id(memory) not in offsets:
                offsets[id(memory)] = size
                end = size + memory.bytes
                size = -(-(end + GAP) // 64) * 64
                margins.append((end, size))
    plan.offsets, plan.size, plan.margins = offsets, size, margins
    return plan


def install() -> Numpy:
    """Makes steps that are built from here on lie between guard pages."""
    from flambeau.compiler.driver import pipeline
    from flambeau.compiler.runtime import executable as module

    numpy = Numpy()
    plan_memory = pipeline.plan_memory

    class Guarded(module.Arena):
        def __init__(self, size: int) -> None:
            self.size = size
            self.array = guarded(-(-max(size, 1) // 64) * 64, numpy.at_end)
            self.array[...] = POISON
            self.base = int(self.array.ctypes.data)

    module.np = numpy
    module.Arena = pipeline.Arena = Guarded
    pipeline.plan_memory = lambda tasks, layout: spread(plan_memory(tasks, layout), tasks, layout)
    pipeline.make_key = lambda *args: None  # tables on disk are planned otherwise
    return numpy


def unharmed(step: Any) -> bool:
    """Whether all poison in a step's arena is as it was."""
    return all((step.arena[a:b] == POISON).all() for a, b in step.plan.margins)


def main(first: int, last: int) -> None:
    """Seeds from `first` up to `last`."""
    from flambeau.compiler.driver import pipeline

    from compiler.execution_routes import outcome
    from compiler.programs.test_wide_graphs import assert_close
    from compiler.wide_graphs import wide_graph, wide_values

    numpy = install()
    for seed in range(first, last):
        print(f"seed {seed}", flush=True)
        graph = wide_graph(seed)
        inputs = wide_values(graph, seed)
        expected = outcome(graph, inputs)
        for at_end in (True, False):
            numpy.at_end = at_end
            states = [array(source.shape, source.dtype, at_end) for source in inputs]
            for source, state in zip(graph.sources, states, strict=True):
                source.array = lambda state=state: state
            step = pipeline.build(graph)
            for threads in (1, 2):
                for state, value in zip(states, inputs, strict=True):
                    state[...] = value
                step.threads = threads
                assert_close([*step.run([]), *states], expected)
                assert unharmed(step), "the arena's poison was written over"
            del step
        if len(_live_blocks) > 500:
            _live_blocks.clear()  # memory is given back when nobody uses it


if __name__ == "__main__":
    tests = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(tests), str(tests.parent)]
    main(int(sys.argv[1]), int(sys.argv[2]))
