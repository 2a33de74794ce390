"""What graphs give: by evaluate, by machine code, and by their loops interpreted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flambeau.compiler.driver import pipeline
from flambeau.compiler.ir.interpreter import evaluate
from flambeau.compiler.ir.graph import Graph
from flambeau.compiler.schedule.tasks import collect_memory_accesses
from flambeau.compiler.runtime.executable import Step
from flambeau.compiler.schedule.verify_plan import verify_plan
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.native.loop_ir.ir import Affine

from .random_graphs import values


def outcome(graph: Graph, sources: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs, then every source as it is in the end, by NumPy."""
    outputs, writes = evaluate(graph, sources)
    left = dict(enumerate(sources)) | dict(writes)
    return [*outputs, *(left[k] for k in range(len(sources)))]


def bound(graph: Graph, sources: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Gives the graph's states memory of their own with these values."""
    arrays = [np.array(source) for source in sources]
    for source, array in zip(graph.sources, arrays, strict=True):
        source.array = lambda array=array: array
    return arrays


def run(graph: Graph, sources: Sequence[np.ndarray], threads: int = 1) -> tuple[Step, list]:
    """The step, and the same from machine code."""
    arrays = bound(graph, sources)
    step = pipeline.build(graph)
    verify_plan(step.tasks, step.layout, step.plan)
    step.threads = threads
    outputs = step.run([])
    return step, [*outputs, *arrays]


def interpreted(graph: Graph, sources: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs, from the loops of the graph's kernels."""
    step = pipeline.build(graph)
    memory: dict[int, np.ndarray] = {}
    for task in step.tasks:
        assert task.kernel is not None
        for location in task.memories:
            if id(location) not in memory:
                unset = np.full(location.elements, np.nan, dtype_of(location.type))
                is_source = location.home.name == "SOURCE"
                memory[id(location)] = sources[location.index].reshape(-1).copy() \
                    if is_source else unset
        for buffer, offset in zip(task.kernel.buffers, task.offsets, strict=True):
            for access in collect_memory_accesses(task.kernel):  # steps may go down from there
                if access.buffer is buffer:
                    access.at = Affine(access.at.base + offset, access.at.terms)
        interpret(task.kernel, [memory[id(location)] for location in task.memories])
    places = [step.layout.targets(location)[0] for location in step.graph.outputs]
    return [memory[id(place.memory)].reshape(node.shape)
            for place, node in zip(places, graph.outputs, strict=True)]


def assert_same(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def check(graph: Graph, seed: int = 0) -> Step:
    sources = values(graph, seed)
    step, actual = run(graph, sources)
    assert_same(actual, outcome(graph, sources))
    return step
