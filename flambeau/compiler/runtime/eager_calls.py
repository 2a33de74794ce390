"""Calls of eager functions between parts of a program, on arrays that view its memory.

Arrays over the arena and constants are created once and reused in every run. The overhead per call
is a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...native.loop_ir.numpy_forms import dtype_of
from ..fusion.placement import Home, Place
from ..ir.graph import Node
from ..trace.trace import address

if TYPE_CHECKING:
    from .executable import Step

# An array, or a function that returns it, given the run's inputs by slot and its outputs.
Located = np.ndarray | Callable[[dict[int, Any], list[np.ndarray]], np.ndarray]


class EagerCalls:
    """Caller of the eager functions of a step, on arrays that view the step's memory."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self._runs: dict[int, Callable[[dict[int, Any], list[np.ndarray]], None]] = {}  # by node id
        self._results: dict[int, Any] = {}  # by group of nodes, during a run

    def forget(self) -> None:
        """Drop the results of a run."""
        self._results.clear()

    def run(self, node: Node, inputs: dict[int, Any], outputs: list[np.ndarray]) -> None:
        """Call a node's function and store the result; nodes of one call share its results."""
        run = self._runs.get(id(node))
        if run is None:
            run = self._runs[id(node)] = self._prepare(node)
        run(inputs, outputs)

    def _prepare(self, node: Node) -> Callable[[dict[int, Any], list[np.ndarray]], None]:
        layout, known, call = self.step.layout, self._results, node.attributes
        group, number = id(node.group), node.output
        replaced = layout.list_replaced(node)
        options = {"replaced": replaced} if replaced else {}
        operands = [self._locate(layout.locate(operand)) for operand in node.inputs]
        targets = [self._locate(place) for place in layout.targets(node)]

        def run(inputs: dict[int, Any], outputs: list[np.ndarray]) -> None:
            results = known.get(group)
            if results is None:
                results = known[group] = call["function"](
                    *[x if isinstance(x, np.ndarray) else x(inputs, outputs) for x in operands],
                    **options)
            kind = results.__class__
            result = results[number] if kind is list or kind is tuple else results
            for x in targets:
                target = x if isinstance(x, np.ndarray) else x(inputs, outputs)
                if not _is_same_memory(target, result):
                    target[...] = result

        return run

    def _locate(self, place: Place) -> Located:
        """Return a buffer as an array, or a function that returns it if it differs between runs."""
        memory, window = place.memory, place.window
        dtype = dtype_of(memory.type)
        strides = tuple(s * dtype.itemsize for s in window.strides)
        as_strided, shape, offset = np.lib.stride_tricks.as_strided, window.shape, window.offset
        if memory.home is Home.ARENA or memory.home is Home.CONSTANT:
            if memory.home is Home.ARENA:
                start = self.step.plan.offsets[id(memory)]
                flat = self.step.arena[start : start + memory.bytes].view(dtype)
            else:
                flat = np.ascontiguousarray(memory.value, dtype).reshape(-1)
            return as_strided(flat[offset:], shape, strides)
        index, is_output = memory.index, memory.home is Home.OUTPUT

        def locate(inputs: dict[int, Any], outputs: list[np.ndarray]) -> np.ndarray:
            array = outputs[index] if is_output else self._find_source(index, inputs)
            if array.shape == shape and array.strides == strides:
                return array
            flat = as_strided(array, (offset + 1,), (dtype.itemsize,))
            return as_strided(flat[offset:], shape, strides)

        return locate

    def _find_source(self, slot: int, inputs: dict[int, Any]) -> np.ndarray:
        if slot in self.step.states:
            return self.step.states[slot]
        return self.step.cells[slot] if slot in self.step.cells else np.asarray(inputs[slot])


def _is_same_memory(target: np.ndarray, result: Any) -> bool:
    """Return whether a function wrote its result directly to the target."""
    if result is target:
        return True
    if result.__class__ is not np.ndarray or result.base is None:  # a new array
        return False
    return (result.shape == target.shape and result.strides == target.strides
            and result.dtype == target.dtype and address(result) == address(target))
