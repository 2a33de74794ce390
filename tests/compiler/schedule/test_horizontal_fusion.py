"""Independent small kernels are one: updates of parameters, the sums that these read."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.ir.graph import Graph, Node, apply, constant, matmul, reduce, reshape
from flambeau.compiler.fusion.fusion_group import FusionGroup
from flambeau.compiler.schedule.horizontal_fusion import fuse_horizontally
from flambeau.native.target.graph_costs import MAX_FUSED_LOOPS
from flambeau.native.loop_ir.ir import Loop, LoopKind, ReduceOp, Scalar, Type

from ..execution_routes import check
from ..random_graphs import graph_of, source

F32 = Type.F32


def updated(w: Node, m: Node, grad: Node) -> list[tuple[int, Node]]:
    mean = apply(Scalar.ADD, apply(Scalar.MUL, m, constant(0.9, F32)), grad)
    step = apply(Scalar.MUL, mean, constant(0.1, F32))
    return [(w.slot, apply(Scalar.SUB, w, step)), (m.slot, mean)]


def parameters(*shapes: tuple[int, ...]) -> list[tuple[Node, Node, Node]]:
    """A parameter, its state and the gradient of each shape."""
    return [(source(3 * i, s), source(3 * i + 1, s), source(3 * i + 2, s))
            for i, s in enumerate(shapes)]


def graph_for(triples: list[tuple[Node, Node, Node]], scale: Node | None = None) -> Graph:
    writes = []
    for w, m, g in triples:
        writes += updated(w, m, g if scale is None else apply(Scalar.MUL, g, scale))
    return graph_of([node for three in triples for node in three], [], writes)


SHAPES = (5,), (3, 7), (64,), (300,), (2, 3, 4), (20001,), (1,), (129, 130)


def test_updates_of_all_parameters_are_one_kernel() -> None:
    step = check(graph_for(parameters(*SHAPES)))
    assert len(step.tasks) == 1
    assert len(step.tasks[0].kernel.body) >= len(SHAPES)


def test_clipped_updates_are_one_kernel_after_the_norm() -> None:
    triples = parameters(*SHAPES)
    total = None
    for _, _, g in triples:
        axes = tuple(range(len(g.shape)))
        square_sum = reshape(reduce(apply(Scalar.MUL, g, g), ReduceOp.SUM, axes), ())
        total = square_sum if total is None else apply(Scalar.ADD, total, square_sum)
    root = apply(Scalar.SQRT, total)
    wide = [(w, m, apply(Scalar.MUL, g, reshape(root, (1,) * len(g.shape)))) for w, m, g in triples]
    writes = [pair for w, m, g in wide for pair in updated(w, m, g)]
    step = check(graph_of([node for three in triples for node in three], [], writes))
    names = [task.name for task in step.tasks]
    assert len(step.tasks[-1].memories) >= 3 * len(SHAPES), names


def test_threads_share_the_long_loops() -> None:
    step = check(graph_for(parameters((4000,), (5000,), (30,))))
    kinds = {s.extent: s.kind for s in step.tasks[0].kernel.body if isinstance(s, Loop)}
    assert kinds[4000] is LoopKind.PARALLEL
    assert kinds[30] is LoopKind.VECTORIZED


@pytest.mark.parametrize("rows", [9, 4096])
def test_the_sums_of_a_bias_and_its_update_are_one_kernel(rows: int) -> None:
    """In one pass over the sums, and in place."""
    g, w, m = source(0, (rows, 24)), source(1, (24,)), source(2, (24,))
    grad = reshape(reduce(g, ReduceOp.SUM, (0,)), (24,))
    step = check(graph_of([g, w, m], [], updated(w, m, grad)))
    assert len(step.tasks) == (1 if rows == 9 else 2)


def test_numbers_of_a_later_stage_read_what_was_there_before() -> None:
    """A second fold needs the first one's update: the parameter it reads is still the old one."""
    x, w = source(0, (6, 8)), source(1, (1, 8))
    new = apply(Scalar.ADD, w, reduce(x, ReduceOp.SUM, (0,)))
    again = reduce(apply(Scalar.MUL, x, new), ReduceOp.SUM, (0,))
    check(graph_of([x, w], [apply(Scalar.SUB, again, w)], [(1, new)]))


def test_what_is_needed_does_not_wait() -> None:
    x, y = source(0, (4, 8)), source(1, (8, 8))
    first = apply(Scalar.EXP, reduce(x, ReduceOp.SUM, (0,)))
    last = matmul(matmul(x, y), apply(Scalar.MUL, y, first))
    step = check(graph_of([x, y], [last, apply(Scalar.SQRT, apply(Scalar.ABS, y))]))
    assert len(step.tasks) >= 3


def groups(*before: set[int]) -> list[FusionGroup]:
    return [FusionGroup((8,), position=i, before=sum(1 << position for position in some))
            for i, some in enumerate(before)]


def joined(some: list[FusionGroup], small: set[int], plain: set[int]) -> list[list[int]]:
    merged = fuse_horizontally(some, lambda g: g.position in small, lambda g: g.position in plain)
    return [[g.position for g in part] for part in merged]


def test_small_kernels_wait_for_one_another_but_not_longer_than_they_may() -> None:
    some = groups(set(), set(), {0}, set(), {0, 2}, {1})
    assert joined(some, {0, 1, 3, 4}, set()) == [[0], [2], [1], [5], [3, 4]]


def test_large_pointwise_work_joins_what_comes_before_it_and_does_not_wait() -> None:
    some = groups(set(), {0}, {0}, set(), {1})
    assert joined(some, set(), {1, 2, 4}) == [[0], [1, 2], [3], [4]]
    assert joined(groups(set(), {0}, set()), set(), {0, 1, 2}) == [[0], [1, 2]]


def test_not_more_than_so_many() -> None:
    some = groups(*[set()] * (MAX_FUSED_LOOPS + 3))
    kernels = joined(some, set(range(MAX_FUSED_LOOPS + 3)), set())
    assert [len(groups) for groups in kernels] == [MAX_FUSED_LOOPS, 3]


@pytest.mark.parametrize("clip", [False, True])
def test_a_step_keeps_its_values(clip: bool) -> None:
    """Against eager, with the update of all parameters as the last kernel."""

    def run(compiled: bool) -> tuple[list[float], int]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(12, 33), nn.LayerNorm(33), nn.ReLU(), nn.Linear(33, 5))
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            optimizer.step()
            return loss

        x = torch.randn(20, 12)
        f = torch.compile(step, mode="now") if compiled else step
        losses = [float(f(x)) for _ in range(10)]
        parts = f._specializations.last.step.tasks if compiled else []
        return losses, len(parts[-1].memories) if parts else 0

    expected, _ = run(False)
    actual, memories = run(True)
    np.testing.assert_allclose(actual, expected, rtol=1e-4)
    assert memories >= (18 if clip else 12)
