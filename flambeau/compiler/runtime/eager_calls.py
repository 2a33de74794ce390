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

if TYPE_CHECKING:
    from .executable import Step

# Return the array of a place, given the run's inputs by slot and its outputs.
Locate = Callable[[dict[int, Any], list[np.ndarray]], np.ndarray]


class EagerCalls:
    """Caller of the eager functions of a step, on arrays that view the step's memory."""

    def __init__(self, step: Step) -> None:
        self.step = step
        # By node id: the function's options, locations of arguments, locations of results.
        self._places: dict[int, tuple[dict[str, Any], list[Locate], list[Locate]]] = {}
        self._results: dict[int, Any] = {}  # by group of nodes, during a run

    def forget(self) -> None:
        """Drop the results of a run."""
        self._results.clear()

    def run(self, node: Node, inputs: dict[int, Any], outputs: list[np.ndarray]) -> None:
        """Call a node's function and store the result; nodes of one call share its results."""
        calls = self._places.get(id(node))
        if calls is None:
            calls = self._places[id(node)] = self._locate_all(node)
        options, operands, targets = calls
        results = self._results.get(id(node.group))
        if results is None:
            results = node.function(*[locate(inputs, outputs) for locate in operands], **options)
            self._results[id(node.group)] = results
        result = results[node.output] if isinstance(results, tuple | list) else results
        for locate in targets:
            target = locate(inputs, outputs)
            if not _is_same_memory(target, result):
                target[...] = result

    def _locate_all(self, node: Node) -> tuple[dict[str, Any], list[Locate], list[Locate]]:
        layout = self.step.layout
        replaced = layout.list_replaced(node)
        return ({"replaced": replaced} if replaced else {},
                [self._locate(layout.locate(operand)) for operand in node.inputs],
                [self._locate(place) for place in layout.targets(node)])

    def _locate(self, place: Place) -> Locate:
        """Return a function that returns a buffer as a NumPy array."""
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
            fixed = as_strided(flat[offset:], shape, strides)
            return lambda inputs, outputs: fixed
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
    return (isinstance(result, np.ndarray) and result.shape == target.shape
            and result.strides == target.strides and result.dtype == target.dtype
            and result.ctypes.data == target.ctypes.data)
