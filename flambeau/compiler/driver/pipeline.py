"""The compiler's stages, in order: from a captured graph to a native program.

1. drop_dead: forgets what no output needs.
2. fold_constants: works out now what depends on no source.
3. few_pixels: convolutions that give few pixels, as products of the weight and their windows.
4. simplify: fewer nodes for the same values.
5. gathered_products: products of rows that repeat a table's, as products of the table.
6. choose_layout: permutations sink until they cancel; activations stay channels-last.
7. share_common: one node for what is computed twice.
8. keep_windows: work on values stretched over windows, before the windows' axes are merged.
9. picked: factors of a gradient that goes to one place of a window, of that place alone.
10. one_pass_moments: mean and variance over rows by passing over them once.
11. column_sums: sums over the rows of what a kernel makes, for that kernel to add up.
12. weight_parts: gradients of small weights, of a part of the images by each thread.
13. depth_parts: products small beside their depth in parts of it, where there are many threads.
14. split_reductions: other long folds in parts that threads can share.
15. packed_sources: copies of arguments with gaps, where they are reshaped.
16. fuse (in schedule): which nodes one kernel computes together.
17. schedule: groups become kernels in the loop IR, in an order in which little is alive.
18. join (in schedule): small kernels that need not wait for one another as one.
19. plan_memory: lifetimes in one arena; where threads must wait.
20. native.emit: kernels become machine code, each structure once.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from ...native.runtime.page_prefault import fetched
from ..schedule.arena import Arena
from ..ir.graph import Graph
from ..fusion.fusion_group import ATTENTIONS
from ..ir.graph import CONTRACTIONS
from ..passes.layout_propagation import choose_layout
from ..passes.split_column_sums import column_sums
from ..passes.split_k import depth_parts
from ..passes.dead_code import drop_dead
from ..passes.conv_to_matmul import few_pixels
from ..passes.constant_folding import fold_constants
from ..passes.matmul_of_gather import gathered_products
from ..passes.window_axes import keep_windows
from ..passes.one_pass_moments import one_pass_moments
from ..passes.contiguous_inputs import packed_sources
from ..passes.pool_backward_factor import picked
from ..schedule.memory_plan import Plan, plan_memory
from ..passes.cse import share_common
from ..passes.simplify import simplify
from ..passes.split_reductions import split_reductions
from ..passes.split_conv_weight import weight_parts
from ..fusion.buffer_assignment import Layout
from ..schedule.tasks import Task, schedule
from ..runtime import timed_kernels  # noqa: F401  # profiles show kernels
from ..runtime.executable import Planned, Step
from ..schedule.program_table import Table, keep, kept, key_of, table_of

PASSES = (
    drop_dead, fold_constants, few_pixels, simplify, gathered_products, choose_layout, simplify,
    share_common, simplify, keep_windows, picked, one_pass_moments, column_sums, weight_parts,
    depth_parts, split_reductions, packed_sources, share_common,
)  # fmt: skip
WORTH = 0.005  # seconds of planning from which on what came of it is kept on disk
TURN = 2e-4  # seconds that a compiler keeps Python for itself while a program goes on


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Errors from inside have the stage's name, as the attribute `stage`."""
    try:
        yield
    except BaseException as error:
        if getattr(error, "stage", None) is None:
            error.stage = name
        raise


def optimised(graph: Graph) -> Graph:
    """The graph after all passes from graph to graph."""
    for apply_pass in PASSES:
        with stage(apply_pass.__name__):
            graph = apply_pass(graph)
    return graph


def planned(graph: Graph) -> tuple[list[Task], Layout, Plan]:
    """The tasks of an optimised graph with their memory."""
    with stage("schedule"):
        tasks, layout = schedule(graph)
    with stage("plan_memory"):
        return tasks, layout, plan_memory(tasks, layout)


def build(graph: Graph, aside: bool = False, arena: Arena | None = None) -> Step:
    """A graph as a native program, ready to run. `aside`: while the caller's program goes on;
    `arena`: memory that it may work in.

    Errors carry the name of the stage that they come from, as the attribute `stage`.
    """
    with _in_short_turns() if aside else _uncollected():
        return _built(graph, aside, arena)


def _built(graph: Graph, aside: bool, arena: Arena | None) -> Step:
    from ...native.jit.compile import known

    def plan() -> Planned:
        better = optimised(graph)
        return better, *planned(better)

    key = key_of(graph, PASSES)
    with stage("load"):
        table = None if key is None else kept(key)
        found = None if table is None else known(table.codes)
    if table is None or found is None:
        began = perf_counter()
        if not aside:
            _expect(graph)
        made = plan()
        lasted = perf_counter() - began
        if arena is None:
            with stage("arena"):
                arena = Arena(made[3].size)
        with fetched(arena.array):
            table, addresses = _compiled(made, aside)
        if key is None or lasted <= WORTH or not keep(key, table, graph):
            key = None
    else:
        addresses, made = [found[code] for code in table.codes], None
    with stage("step"):
        plan_of = plan if made is None else lambda: made
        return Step(graph, table, addresses, plan_of, arena, key)


def _expect(graph: Graph) -> None:
    """Has processes begin that will make the kernels, while these are planned."""
    from ...native.jit.worker_pool import MAKERS, PRODUCT
    from ...native.runtime.thread_pool import threads

    products = {(n.op, n.shape, *(one.shape for one in n.inputs)) for n in graph.nodes()
                if n.op in CONTRACTIONS or n.op in ATTENTIONS}  # fmt: skip
    MAKERS.expect(PRODUCT * len(products), threads())


def _compiled(made: Planned, aside: bool) -> tuple[Table, list[int]]:
    """The table of a planned program, and each entry's machine code."""
    from ...native.jit.kernel_function import compile_all
    from ...native.runtime.thread_pool import threads

    _, tasks, _, plan = made
    with stage("emit"):
        kernels = [t.kernel for t in tasks if t.kernel is not None]
        functions = iter(compile_all(kernels, threads=threads(), aside=aside))
        codes = [None if t.kernel is None else next(functions) for t in tasks]
    table = table_of(tasks, plan, ["" if one is None else one.name for one in codes])
    return table, [0 if one is None else one.address for one in codes]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Little that a compiler makes is garbage before its end: to look for some takes long.

    What was there before is not looked at by those who do.
    """
    enabled, theirs = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    if not theirs:
        gc.freeze()
    try:
        yield
    finally:
        if not theirs:
            gc.unfreeze()
        if enabled:
            gc.enable()


@contextmanager
def _in_short_turns() -> Iterator[None]:
    """Other threads of Python wait less than usual for this one."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
