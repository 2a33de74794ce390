"""Reference: a slow step run by evaluate(), which native programs must match."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.loop_ir.numpy_forms import dtype_of
from ..ir.graph import Graph, SourceKind
from ..ir.interpreter import evaluate


class Reference:
    """A graph as a step."""

    is_direct = False  # it takes arrays, not addresses

    def __init__(self, graph: Graph) -> None:
        self.graph = self.edges = graph
        self.ran = [0]  # run count
        self.size, self.key = 0, None  # of an arena, of a table
        self.changing = [k for k, s in enumerate(graph.sources) if s.kind is not SourceKind.STATE]
        self.states = {k: s.array() for k, s in enumerate(graph.sources)
                       if s.kind is SourceKind.STATE}

    def move(self, slot: int, array: np.ndarray) -> None:
        """Move a state to other memory."""
        self.states[slot] = array

    def run(self, values: list[Any]) -> list[np.ndarray]:
        """Run once with `values` for `changing`; write states back and return the outputs."""
        inputs = dict(zip(self.changing, values, strict=True))
        inputs.update(self.states)
        sources = [inputs[k] for k in range(len(self.graph.sources))]
        outputs, writes = evaluate(self.graph, sources)
        outputs = [np.array(y, dtype_of(n.type), order="C")
                   for y, n in zip(outputs, self.graph.outputs, strict=True)]
        written = [(inputs[slot], value.copy()) for slot, value in writes]
        self.ran[0] += 1
        for target, value in written:
            target[...] = value
        return outputs

    def run_into(self, values: list[Any], outputs: list[np.ndarray]) -> None:
        """Run once and write its outputs to the given arrays."""
        for target, result in zip(outputs, self.run(values), strict=True):
            target[...] = result
