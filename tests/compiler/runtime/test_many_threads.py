"""Programs that are made for many threads: the same results as eager mode, evenly shared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.ir.graph import Graph, Node, Op, matmul, permute
from flambeau.compiler.passes.split_reductions import split_reductions
from flambeau.compiler.kernels.loop_nests import choose_chunk
from flambeau.compiler.schedule.tasks import compute_serial_limit
from flambeau.native.target.graph_costs import (
    CHUNK_ELEMENTS, MIN_PARALLEL_ELEMENTS, choose_depth_split, choose_image_parts, split_cost,
    unsplit_cost,
)
from flambeau.native.target.graph_costs import MIN_PARALLEL_WORK
from flambeau.native.runtime.thread_pool import POOL
from flambeau.native.target.load_balance import TYPICAL_THREADS, utilization

from ..execution_routes import assert_same, outcome, run
from ..random_graphs import graph_of, source, values


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = POOL.threads()
    yield
    POOL.set_threads(before)


def gradient(rows: int, features: int, inputs: int) -> Graph:
    g, x = source(0, (rows, features)), source(1, (rows, inputs))
    return graph_of([g, x], [matmul(permute(g, (1, 0)), x)])


def products(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes() if node.op is Op.MATMUL]


@pytest.mark.parametrize("threads", [6, 7, 16])
def test_a_deep_product_is_made_in_parts(threads: int) -> None:
    POOL.set_threads(threads)
    graph = gradient(4608, 96, 48)
    result = split_reductions(graph)
    ((parts, blocks, *_),) = [array.shape for array in products(result)]
    assert (parts, blocks) == choose_depth_split(96, 48, 4608, threads) != (1, 1)
    assert utilization(parts * blocks, threads) > 0.7
    inputs = [array * np.float32(0.1) for array in values(graph, 0)]
    wanted = outcome(graph, inputs)
    assert_same(outcome(result, inputs), wanted)
    for count in (1, 2, threads):
        assert_same(run(graph, inputs, count)[1], wanted)


@pytest.mark.parametrize(("rows", "features", "inputs", "threads"), [
    (4608, 96, 48, 4),  # few threads
    (64, 784, 256, 16),  # short sums
    (1024, 2048, 2048, 16),  # large results
    (4099, 96, 48, 16),  # a prime
])
def test_what_stays_whole(rows: int, features: int, inputs: int, threads: int) -> None:
    POOL.set_threads(threads)
    graph = gradient(rows, features, inputs)
    assert [node.shape for node in products(split_reductions(graph))] == [(features, inputs)]


def test_parts_cost_less_than_what_they_are_taken_for() -> None:
    parts, blocks = choose_depth_split(512, 128, 4096, 16)
    assert parts * blocks == 16
    assert split_cost(512, 128, 4096, 16, parts, blocks) < unsplit_cost(512, 128, 4096, 16)


@pytest.mark.parametrize(("images", "threads", "parts"), [
    (64, 1, 1), (64, 2, 2), (64, 3, 1), (64, 4, 4), (64, 16, 16), (32, 7, 16), (64, 12, 32),
    (10, 16, 10), (7, 6, 7),
])
def test_parts_of_the_images(images: int, threads: int, parts: int) -> None:
    assert choose_image_parts(images, threads) == parts


@pytest.mark.parametrize("threads", [1, 2, TYPICAL_THREADS])
def test_few_threads_have_what_two_have(threads: int) -> None:
    assert (choose_chunk(10_000, threads), compute_serial_limit(threads)) == (
        CHUNK_ELEMENTS,
        MIN_PARALLEL_ELEMENTS,
    )


@pytest.mark.parametrize("threads", [7, 16, 64])
def test_long_axes_have_pieces_for_all(threads: int) -> None:
    for extent in (100_000, 1 << 20, 10_000_000):
        chunk = choose_chunk(extent, threads)
        assert CHUNK_ELEMENTS // 8 <= chunk <= CHUNK_ELEMENTS
        assert chunk == CHUNK_ELEMENTS // 8 or extent >= 4 * threads * chunk
    assert compute_serial_limit(threads) < MIN_PARALLEL_ELEMENTS


def network() -> torch.nn.Module:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 20, 3, stride=2, padding=1), nn.BatchNorm2d(20), nn.ReLU(),
        nn.Conv2d(20, 32, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(128, 48), nn.LayerNorm(48), nn.Linear(48, 10),
    )


@pytest.mark.parametrize("threads", [3, 7, 16])
def test_training_is_that_of_eager_mode(threads: int) -> None:
    POOL.set_threads(threads)
    torch.manual_seed(0)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), t)
        loss.backward()
        optimizer.step()
        return loss.detach()

    start = {name: value.clone() for name, value in net.state_dict().items()}
    inputs = [(torch.randn(32, 3, 16, 16), torch.randint(0, 10, (32,))) for _ in range(5)]
    eager = [step(*batch).item() for batch in inputs]
    net.load_state_dict(start)
    optimizer.state.clear()
    compiled = torch.compile(step, mode="now", fullgraph=True)
    results = [compiled(*batch).item() for batch in inputs]
    np.testing.assert_allclose(results, eager, rtol=1e-4)
    program = compiled._programs[0].step
    most = max(TYPICAL_THREADS, 2 * program.table.work // MIN_PARALLEL_WORK)
    assert program.count() == min(threads, most)


@pytest.mark.parametrize(("threads", "later"), [(16, 2), (2, 16)])
def test_a_program_runs_on_other_threads_than_it_was_made_for(threads: int, later: int) -> None:
    POOL.set_threads(threads)
    torch.manual_seed(0)
    net, x = network(), torch.randn(32, 3, 16, 16)

    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach(), *(p.grad + 0 for p in net.parameters())

    wanted = step(x)
    compiled = torch.compile(step, mode="now", fullgraph=True)
    for count in (threads, later):
        POOL.set_threads(count)
        for _ in range(3):
            for y, two in zip(compiled(x), wanted, strict=True):
                np.testing.assert_allclose(y.numpy(), two.numpy(), rtol=1e-3, atol=1e-5)
        assert compiled._programs[0].step.count() <= count


def test_a_small_program_takes_few_threads() -> None:
    POOL.set_threads(16)
    w = torch.nn.Parameter(torch.randn(96, 96))
    optimizer = torch.optim.SGD([w], lr=0.01)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (x @ w).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    counts = []
    for rows in (16, 96, 4096):
        compiled = torch.compile(step, mode="now", fullgraph=True)
        for _ in range(3):
            compiled(torch.randn(rows, 96))
        counts.append(compiled._programs[0].step.count())
    assert counts[0] == 1
    assert 1 <= counts[1] <= TYPICAL_THREADS
    assert counts[2] == 16


WIDE = (3000, 96)  # above the size from which kernels sum columns as they compute
REDUCTIONS = {
    "var": lambda x: (x.sin() * 2).var(0), "logsumexp": lambda x: (x * x).logsumexp(0),
    "norm": lambda x: x.norm(dim=0), "batch norm": lambda x: F.batch_norm(x, None, None, None, None,
                                                                          True),
    "sum": lambda x: (x * x).sum(0), "var of all": lambda x: x.var(),
}


def _layer_norm_gradients(x: torch.Tensor) -> torch.Tensor:
    weight, bias = (torch.full((WIDE[1],), v, requires_grad=True) for v in (1.0, 0.0))
    y = F.layer_norm(x, WIDE[1:], weight, bias).sin().sum()
    return torch.stack(torch.autograd.grad(y, (weight, bias)))


def _convolution_gradients(x: torch.Tensor) -> torch.Tensor:
    images, weight = x.view(8, 8, 60, 75), torch.full((16, 8, 3, 3), 0.1, requires_grad=True)
    return torch.autograd.grad(F.conv2d(images, weight).sin().sum(), weight)[0]


@pytest.mark.parametrize("name", [*REDUCTIONS, "layer norm's gradients", "convolution's gradients"])
def test_a_reduction_does_not_depend_on_the_number_of_threads(name: str) -> None:
    others = {"layer norm's gradients": _layer_norm_gradients,
              "convolution's gradients": _convolution_gradients}
    function = REDUCTIONS.get(name) or others[name]
    torch.manual_seed(0)
    x = torch.randn(WIDE)
    results = {}
    for count in range(1, TYPICAL_THREADS + 1):
        POOL.set_threads(count)
        torch.compiler.reset()
        compiled = torch.compile(function, mode="now", fullgraph=True)
        results[count] = [compiled(x).numpy().tobytes() for _ in range(2)][1]
        assert compiled.explain().count("kernel")
    assert len(set(results.values())) == 1, name
