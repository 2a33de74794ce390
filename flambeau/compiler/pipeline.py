"""The compiler's stages, in order: from a captured graph to a native program.

1. drop_dead: forgets what no output needs.
2. fold_constants: works out now what depends on no source.
3. simplify: fewer nodes for the same values.
4. choose_layout: permutations sink until they cancel; activations stay channels-last.
5. share_common: one node for what is computed twice.
6. split_reductions: long folds in parts that threads can share.
7. fuse (in schedule): which nodes one kernel computes together.
8. schedule: groups become kernels in the loop IR.
9. plan_memory: lifetimes in one arena; where threads must wait.
10. native.emit: kernels become machine code, each structure once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .graph import Graph
from .passes.choose_layout import choose_layout
from .passes.drop_dead import drop_dead
from .passes.fold_constants import fold_constants
from .passes.plan_memory import Plan, plan_memory
from .passes.share_common import share_common
from .passes.simplify import simplify
from .passes.split_reductions import split_reductions
from .schedule.layout import Layout
from .schedule.task import Task, schedule
from .step import Step

PASSES = (
    drop_dead, fold_constants, simplify, choose_layout, simplify, share_common, simplify,
    split_reductions, share_common,
)  # fmt: skip


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


def build(graph: Graph) -> Step:
    """A graph as a native program, ready to run.

    Errors carry the name of the stage that they come from, as the attribute `stage`.
    """
    from ..native.compiled import compile_all

    better = optimised(graph)
    tasks, layout, plan = planned(better)
    with stage("emit"):
        kernels = [t.kernel for t in tasks if t.kernel is not None]
        functions = iter(compile_all(kernels, threads=2))
        addresses = [0 if t.kernel is None else next(functions).address for t in tasks]
    with stage("step"):
        return Step(better, tasks, layout, plan, addresses)
