"""Eager functions between the parts of a program: their arguments and results are its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..fusion.placement import Home, Place
from ..ir.graph import Node
from ..ir.interpreter import numpy_type

if TYPE_CHECKING:
    from .executable import Step


class EagerCalls:
    """Calls the functions of a step's nodes on arrays over the step's memory."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self._results: dict[int, Any] = {}  # by group of nodes, while a run lasts

    def forget(self) -> None:
        """Drops the results of a run."""
        self._results.clear()

    def run(self, node: Node, supplied: dict[int, Any], outputs: list[np.ndarray]) -> None:
        """Calls an eager function, once for all nodes that are its results."""
        results = self._results.get(id(node.group))
        if results is None:
            seen = map(self.step.layout.seen, node.inputs)
            arrays = [self._view(place, supplied, outputs) for place in seen]
            results = node.function(*arrays)
            self._results[id(node.group)] = results
        result = results[node.output] if isinstance(results, tuple | list) else results
        for place in self.step.layout.targets(node):
            self._view(place, supplied, outputs)[...] = result

    def _view(
        self, place: Place, supplied: dict[int, Any], outputs: list[np.ndarray]
    ) -> np.ndarray:
        """A place as a NumPy array."""
        memory, window = place.memory, place.window
        dtype = numpy_type(memory.type)
        if memory.home is Home.ARENA:
            start = self.step.plan.offsets[id(memory)]
            flat = self.step.arena[start : start + memory.bytes].view(dtype)
        elif memory.home is Home.CONSTANT:
            flat = np.ascontiguousarray(memory.value, dtype).reshape(-1)
        elif memory.home is Home.OUTPUT:
            flat = outputs[memory.index].reshape(-1)
        else:
            source = self._source(memory.index, supplied)
            extent = (window.offset + 1,)
            flat = np.lib.stride_tricks.as_strided(source, extent, (dtype.itemsize,))
        strides = tuple(s * dtype.itemsize for s in window.strides)
        return np.lib.stride_tricks.as_strided(flat[window.offset :], window.shape, strides)

    def _source(self, slot: int, supplied: dict[int, Any]) -> np.ndarray:
        if slot in self.step.states:
            return self.step.states[slot]
        return self.step.cells[slot] if slot in self.step.cells else np.asarray(supplied[slot])
