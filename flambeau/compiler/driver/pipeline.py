"""The compiler's stages in order, from a captured graph to a native program.

On the graph:
 1. eliminate_dead_code: drop nodes that no output needs.
 2. fold_constants: evaluate nodes that depend on no input.
 3. convert_small_conv_to_matmul: turn convolutions with few pixels into matrix products.
 4. simplify: algebraic identities; runs again after passes that create opportunities.
 5. move_matmul_before_gather: multiply an embedding table instead of its gathered rows.
 6. propagate_layouts: cancel permutations, keep activations channels-last.
 7. eliminate_common_subexpressions.
 8. preserve_window_axes: compute before a pool's window axes are merged.
 9. factor_pool_backward: gather at a max pool's maxima instead of multiplying whole images.
10. compute_moments_in_one_pass: compute mean and variance together.
11. split_reductions: split sums into parts for all threads.
12. copy_strided_inputs: copy arguments with gaps that are reshaped.

From the graph to machine code:
13. fuse (fusion/): decide which nodes share a kernel, and which values are stored.
14. schedule (schedule/): turn groups into loop-IR kernels, in an order that frees memory.
15. fuse_horizontally: merge independent small kernels.
16. plan_memory: place values in one arena by lifetime, and decide where threads must wait.
17. native.codegen: compile kernels to machine code, once per structure.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from ...native.runtime.page_prefault import prefault
from ...native.target.compile_costs import BACKGROUND_SWITCH_INTERVAL_S, MIN_CACHED_PLAN_SECONDS
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion_group import ATTENTIONS
from ..ir.graph import CONTRACTIONS, Graph
from ..passes.constant_folding import fold_constants
from ..passes.contiguous_inputs import copy_strided_inputs
from ..passes.conv_to_matmul import convert_small_conv_to_matmul
from ..passes.cse import eliminate_common_subexpressions
from ..passes.dead_code import eliminate_dead_code
from ..passes.layout_propagation import propagate_layouts
from ..passes.matmul_of_gather import move_matmul_before_gather
from ..passes.one_pass_moments import compute_moments_in_one_pass
from ..passes.pool_backward_factor import factor_pool_backward
from ..passes.simplify import simplify
from ..passes.split_reductions import split_reductions
from ..passes.window_axes import preserve_window_axes
from ..runtime import timed_kernels  # noqa: F401  # profiles show kernels
from ..runtime.executable import Planned, Step
from ..schedule.arena import Arena
from ..schedule.memory_plan import MemoryPlan, plan_memory
from ..schedule.program_table import ProgramTable, load_table, make_key, make_table, store_table
from ..schedule.tasks import Task, schedule

PASSES = (
    eliminate_dead_code, fold_constants, convert_small_conv_to_matmul, simplify,
    move_matmul_before_gather, propagate_layouts, simplify, eliminate_common_subexpressions,
    simplify, preserve_window_axes, factor_pool_backward, compute_moments_in_one_pass,
    split_reductions, copy_strided_inputs, eliminate_common_subexpressions,
)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Set the `stage` attribute of errors raised inside the block to the stage's name."""
    try:
        yield
    except BaseException as error:
        if getattr(error, "stage", None) is None:
            error.stage = name  # type: ignore[attr-defined]
        raise


def optimize(graph: Graph) -> Graph:
    """Run all passes over the graph."""
    for apply_pass in PASSES:
        with stage(apply_pass.__name__):
            graph = apply_pass(graph)
    return graph


def plan(graph: Graph) -> tuple[list[Task], BufferAssignment, MemoryPlan]:
    """Schedule an optimized graph and place its values in memory."""
    with stage("schedule"):
        tasks, layout = schedule(graph)
    with stage("plan_memory"):
        return tasks, layout, plan_memory(tasks, layout)


def build(graph: Graph, aside: bool = False, arena: Arena | None = None) -> Step:
    """Compile a graph to a native program that is ready to run.

    `aside`: run on a background thread, alongside the caller's program. `arena`: memory to run in.
    Errors carry the name of the stage that raised them in their `stage` attribute.
    """
    with _yield_to_other_threads() if aside else _pause_garbage_collection():
        return _build(graph, aside, arena)


def _build(graph: Graph, aside: bool, arena: Arena | None) -> Step:
    from ...native.jit.compile import load_cached

    def plan_graph() -> Planned:
        optimized = optimize(graph)
        return optimized, *plan(optimized)

    key = make_key(graph, PASSES)
    with stage("load"):
        table = None if key is None else load_table(key)
        cached = None if table is None else load_cached(table.codes)
    if table is not None and cached is not None:
        addresses = table.list_addresses(cached)
        with stage("step"):
            return Step(graph, table, addresses, plan_graph, arena, key)
    start_s = perf_counter()
    if not aside:
        _warm_up_workers(graph)
    planned = plan_graph()
    elapsed_s = perf_counter() - start_s
    if arena is None:
        with stage("arena"):
            arena = Arena(planned[3].size)
    with prefault(arena.array):
        table, addresses = _compile(planned, aside)
    is_stored = (
        key is not None and elapsed_s > MIN_CACHED_PLAN_SECONDS and store_table(key, table, graph)
    )
    with stage("step"):
        return Step(graph, table, addresses, lambda: planned, arena, key if is_stored else None)


def _warm_up_workers(graph: Graph) -> None:
    """Start the compile workers early, while the kernels are still being planned."""
    from ...native.jit.worker_pool import WORKERS
    from ...native.target.compile_costs import FIRST_PRODUCT_COMPILE_S
    from ...native.runtime.thread_pool import threads

    contractions = {(n.op, n.shape, *(a.shape for a in n.inputs)) for n in graph.nodes()
                    if n.op in CONTRACTIONS or n.op in ATTENTIONS}
    WORKERS.prestart(FIRST_PRODUCT_COMPILE_S * len(contractions), threads())


def _compile(planned: Planned, aside: bool) -> tuple[ProgramTable, list[int]]:
    """Return the table of a planned program and the machine-code address of each entry."""
    from ...native.jit.kernel_function import compile_all
    from ...native.runtime.thread_pool import threads

    _, tasks, layout, memory_plan = planned
    with stage("emit"):
        kernels = [task.kernel for task in tasks if task.kernel is not None]
        functions = iter(compile_all(kernels, threads=threads(), aside=aside))
        codes = [None if task.kernel is None else next(functions) for task in tasks]
    names = ["" if code is None else code.name for code in codes]
    addresses = [0 if code is None else code.address for code in codes]
    return make_table(tasks, layout, memory_plan, names), addresses


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Compile without cyclic garbage collection.

    Nearly everything a compiler allocates lives until it finishes, so collections are slow and free
    nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _yield_to_other_threads() -> Iterator[None]:
    """Shorten the interpreter's switch interval, so that the user's thread waits less."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(min(usual_s, BACKGROUND_SWITCH_INTERVAL_S))
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)
