"""Graphs of one recurrent layer: all results, and all gradients of what they are made of."""

from __future__ import annotations

import numpy as np

from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.compiler.ir.graph import Graph, Node, Op, Source, SourceKind
from flambeau.compiler.ir.recurrence import build_recurrence, build_recurrence_gradient, has_result
from flambeau.native.kernels.recurrent_cells import CELLS
from flambeau.native.loop_ir.ir import Type


def recurrent_graph(
    name: str, steps: int, rows: int, width: int, reverse: bool = False, type: Type = Type.F32,
    states: bool = True,
) -> Graph:
    """y, what the cell keeps, the last states; then d, dx, and what reaches the first states.

    Without `states` there are none before, and cotangents of y alone.
    """
    cell = CELLS[name]
    sources: list[Source] = []
    inputs: list[Node] = []

    def new(*shape: int) -> Node:
        sources.append(Source(SourceKind.STATE, shape, type, lambda: None))
        inputs.append(Node(Op.INPUT, (), shape, type, {"slot": len(inputs)}))
        return inputs[-1]

    x, w = new(steps, rows, cell.gates * width), new(cell.gates * width, width)
    gy = new(steps, rows, width)
    more = {
        of: new(rows, width) for of in ("h", "c", "dh", "dc") if has_result(cell, of) and states
    }
    bias = new(width) if name == "gru" and states else None
    operands = {"x": x, "w": w, "h": more.get("h"), "c": more.get("c"), "bias": bias}
    outputs = {of: build_recurrence(name, operands, reverse, of)
             for of in dict.fromkeys(("y", *cell.keeps, "c")) if has_result(cell, of)}
    before = cell.before or ("", "")
    back = {"w": w, **{of: outputs[of] for of in cell.keeps}, "gy": gy, "dh": more.get("dh"),
            "dc": more.get("dc"), "previous": outputs.get(before[0]),
            "first": more.get(before[1])}
    gradients = [build_recurrence_gradient(name, back, reverse, of)
                 for of in ("d", "dx", "dh", "dc")
                 if has_result(cell, of)]
    return Graph(sources, inputs, [*outputs.values(), *gradients], [])


def drawn(graph: Graph) -> list[np.ndarray]:
    """Values for the sources; weights that neither die out nor explode."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=source.shape) for source in graph.sources]
    arrays[1] /= max(1, graph.sources[1].shape[1]) ** 0.5
    return [v.astype(dtype_of(source.type))
            for v, source in zip(arrays, graph.sources, strict=True)]
