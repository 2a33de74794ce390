"""Recurrent layers whose steps are one kernel: against evaluate(), eager, and at odd sizes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.ir.verify import GraphError, verify_graph
from flambeau.native.kernels import recurrent
from flambeau.native.kernels.recurrent_cells import CELLS
from flambeau.native.loop_ir.ir import Type
from flambeau.native.target.machine import TARGETS
from flambeau.native.loop_ir.verify import verify

from ..execution_routes import interpreted, outcome, run
from ..recurrent_graphs import drawn, recurrent_graph
from ..step_comparison import same

SIZES = [(2, 1, 1), (3, 33, 17), (4, 31, 16)]
HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(("name", "steps", "rows", "width"), [
    *((name, *size) for name in ("lstm", "gru", "tanh") for size in SIZES), ("relu", *SIZES[1]),
    ("lstm", 2, 32, 128), ("gru", 3, 5, 129),
])
def test_all_steps(name: str, steps: int, rows: int, width: int) -> None:
    graph = recurrent_graph(name, steps, rows, width, reverse=steps % 2 == 1, states=steps != 2)
    verify_graph(graph)
    inputs = drawn(graph)
    step, result = run(graph, inputs, threads=2)
    names = ["panels", "recurrence", "panels", "recurrence_backward"]
    assert [task.name for task in step.tasks] == names
    for task in step.tasks:
        assert task.kernel is not None
        verify(task.kernel)
    for a, b in zip(result, outcome(graph, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_in_double_precision(name: str) -> None:
    graph = recurrent_graph(name, 4, 19, 37, type=Type.F64)
    inputs = drawn(graph)
    _, result = run(graph, inputs)
    for a, b in zip(result, outcome(graph, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("target", ["avx2", "avx512"])
@pytest.mark.parametrize("name", sorted(CELLS))
def test_kernels_mean_what_they_do(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops, interpreted: panels a tile wide, and of several tiles."""
    monkeypatch.setattr(recurrent, "host", lambda: TARGETS[target])
    graph = recurrent_graph(name, 2, 3, 5, type=Type.F64)
    inputs = drawn(graph)
    _, expected = run(graph, inputs)
    for a, b in zip(interpreted(graph, inputs), expected, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_wrong_extents_are_refused() -> None:
    for at, shape in ((0, (2, 3, 5)), (-1, (2, 4))):
        graph = recurrent_graph("lstm", 2, 3, 4)
        graph.outputs[at].shape = shape
        with pytest.raises(GraphError, match="RECURRENCE"):
            verify_graph(graph)


GUARDED = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
from compiler.programs.guard_page_run import array, install, unharmed
from compiler.recurrent_graphs import drawn, recurrent_graph
from flambeau.compiler.driver import pipeline
numpy = install()
for name, steps, rows, width in {cases!r}:
    graph = recurrent_graph(name, steps, rows, width, steps % 2 == 1)
    given = drawn(graph)
    for at_end in (True, False):
        numpy.at_end = at_end
        states = [array(one.shape, one.dtype, at_end) for one in given]
        for one, state, value in zip(graph.sources, states, given):
            state[...] = value
            one.array = lambda state=state: state
        step = pipeline.build(graph)
        step.threads = 2
        step.run([])
        assert unharmed(step), (name, steps, rows, width)
"""


def test_nothing_outside_is_touched() -> None:
    """Every memory between guard pages, and what lies in the arena between poison."""
    cases = [(name, steps, rows, width) for name in ("lstm", "gru", "tanh")
             for steps, rows, width in ((2, 1, 1), (3, 33, 7), (2, 3, 17))]
    program = GUARDED.format(tests=str(HERE.parents[1]), root=str(HERE.parents[2]), cases=cases)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def layer(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    return getattr(nn, kind)(6, 20, **options)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", [
    {}, {"bias": False, "dtype": torch.float64},
    {"batch_first": True, "num_layers": 2, "bidirectional": True},
], ids=str)
def test_layers_as_eager(kind: str, options: dict) -> None:
    """With and without states that require gradients; what is not read of the results is zero."""
    net = layer(kind, **options)
    parameters = list(net.parameters())

    def step(x: torch.Tensor, states: Any) -> tuple:
        y, last = net(x, states)
        leaves = [x, *([] if states is None else
                      states if isinstance(states, tuple) else [states])]
        ends = last if isinstance(last, tuple) else (last,)
        loss = y.square().sum() + (0 if states is None else sum(v.sum() for v in ends))
        gradients = torch.autograd.grad(loss, (*leaves, *parameters))
        return y.detach(), [v.detach() for v in ends], gradients

    def states() -> Any:
        count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        tensors = [torch.randn(count, 5, 20, dtype=options.get("dtype"), requires_grad=True)
                for _ in range(2)]
        return tuple(tensors) if kind == "LSTM" else tensors[0]

    bound = 1e-9 if "dtype" in options else 1e-4
    for make_state in (lambda: None, states):
        fast = torch.compile(step, mode="now")
        for _ in range(4):
            x = torch.randn(7, 5, 6, dtype=options.get("dtype"))
            x = (x.transpose(0, 1) if options.get("batch_first") else x).requires_grad_()
            state = make_state()
            same(fast(x, state), step(x, state), bound)
        assert "recurrence_backward" in fast.explain()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_inference_keeps_nothing(kind: str) -> None:
    net = layer(kind)

    @torch.no_grad()
    def step(x: torch.Tensor) -> Any:
        return net(x)

    fast = torch.compile(step, mode="now")
    for _ in range(4):
        x = torch.randn(9, 1, 6)
        same(fast(x), step(x), 1e-5)
    (program,) = fast._programs
    stores = [len(task.memories) for task in program.step.tasks if task.name == "recurrence"]
    assert stores
    assert max(stores) <= 8


@pytest.mark.parametrize(("name", "near", "size", "rows", "expected"), [
    ("avx2", 512 << 10, 256 << 10, 1, True), ("avx2", 512 << 10, 1 << 20, 1, False),
    ("avx2", 512 << 10, 1 << 20, 2, True), ("avx2", 512 << 10, 16 << 20, 3, False),
    ("avx2", 512 << 10, 16 << 20, 4, True), ("avx2", 512 << 10, 17 << 20, 15, False),
    ("avx2", 512 << 10, 17 << 20, 16, True), ("avx512", 2 << 20, 1 << 20, 1, True),
    ("avx512", 2 << 20, 4 << 20, 15, False), ("avx512", 2 << 20, 4 << 20, 16, True),
    ("avx512", 2 << 20, 5 << 20, 99, False),
])
def test_rows_that_pay_for_reading_the_weights(
    name: str, near: int, size: int, rows: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads: weights that stay in a thread's cache, in one that is shared, in none."""
    monkeypatch.setattr(recurrent, "host", lambda: replace(TARGETS[name], l2_bytes=near))
    assert recurrent.fits_one_kernel(size, rows, 2) is expected


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_wide_layers_with_rows_enough_are_one_kernel(kind: str) -> None:
    """Weights of more than a megabyte."""
    net, rows = getattr(nn, kind)(5, 300), 8 * torch.get_num_threads()

    def step(x: torch.Tensor) -> list:
        net.zero_grad()
        net(x)[0].square().mean().backward()
        return [p.grad.clone() for p in net.parameters()]

    fast = torch.compile(step, mode="now")
    for _ in range(4):
        x = torch.randn(2, rows, 5)
        same(fast(x), step(x), 1e-5)
    for name in ("recurrence ", "recurrence_backward"):
        assert name in fast.explain()


def test_projections_and_wide_layers_of_few_rows_go_step_by_step() -> None:
    """Their steps are kernels of their own."""
    projected, wide = layer("LSTM", proj_size=3), nn.GRU(6, 300)

    @torch.no_grad()
    def step(x: torch.Tensor) -> tuple:
        return projected(x)[0], wide(x)[0]

    fast = torch.compile(step, mode="now")
    for _ in range(4):
        x = torch.randn(2, 1, 6)
        same(fast(x), step(x), 1e-5)
    assert fast._programs
    assert "recurrence" not in fast.explain()


def test_modules_keep_what_backward_reads() -> None:
    """Forward and backward as two programs."""
    net = layer("LSTM")
    fast = torch.compile(net, mode="now")
    for _ in range(4):
        x = torch.randn(5, 3, 6)
        results = []
        for function in (fast, net):
            net.zero_grad()
            function(x)[0].square().sum().backward()
            results.append([p.grad.clone() for p in net.parameters()])
        same(*results, 1e-4)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("loss", [
    lambda y: y.sum(), lambda y: y.sum(0).square().sum(), lambda y: y.sum(2).square().sum(),
    lambda y: y[-1].sum(), lambda y: y[:, :, 3].sum(),
])
def test_gradients_that_are_one_number_for_many_elements(kind: str, loss: Any) -> None:
    """What backward is given is a stretched value then, or one with zeros around it."""
    net = layer(kind)

    def step(x: torch.Tensor) -> tuple:
        net.zero_grad()
        y = loss(net(x)[0])
        y.backward()
        return y.detach(), [p.grad.clone() for p in net.parameters()]

    fast = torch.compile(step, mode="now")
    for _ in range(4):
        x = torch.randn(5, 3, 6)
        same(fast(x), step(x), 1e-4)
    assert sum(program.calls for program in fast._programs) >= 1
