"""Gradients of convolutions' weights, of some images by each thread."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.ir.graph import Graph, Node, Op, permute
from flambeau.compiler.fusion.fusion import is_blocked_transpose
from flambeau.compiler.passes.split_reductions import split_reductions
from flambeau.native.loop_ir.ir import Type

from ..execution_routes import assert_same, outcome, run
from ..random_graphs import graph_of, source, values


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flambeau.compiler.passes.split_reductions.threads", lambda: 4)


def gradient(images: int, channels: int, features: int, groups: int = 1) -> Graph:
    x, g = source(0, (images, 9, 8, channels)), source(1, (images, 7, 6, features))
    node = Node(Op.CONV_WEIGHT, (x, g), (3, 3, channels // groups, features), Type.F32,
                {"stride": (1, 1), "dilation": (1, 1), "groups": groups})
    return graph_of([x, g], [permute(node, (3, 2, 0, 1))])


def parts(graph: Graph) -> list[int]:
    return [n.attributes.get("parts", 1) for n in graph.nodes() if n.op is Op.CONV_WEIGHT]


@pytest.mark.parametrize(("images", "channels", "features"), [
    (12, 1, 5), (48, 3, 33), (128, 16, 32), (128, 37, 19),
])
def test_each_part_has_images_of_its_own(images: int, channels: int, features: int) -> None:
    graph = gradient(images, channels, features)
    result = split_reductions(graph)
    assert parts(result) == [4]
    inputs = [array * np.float32(0.1) for array in values(graph, 0)]
    wanted = outcome(graph, inputs)
    assert_same(outcome(result, inputs), wanted)
    for threads in (1, 3, 4):
        assert_same(run(result, inputs, threads)[1], wanted)


def test_the_order_of_a_parameter_is_still_made_in_blocks() -> None:
    graph = gradient(256, 32, 64)
    assert is_blocked_transpose(graph.outputs[0])
    result = split_reductions(graph)
    assert parts(result) == [4]
    assert is_blocked_transpose(result.outputs[0])
    step, actual = run(graph, inputs := [array * np.float32(0.1) for array in values(graph, 0)])
    assert_same(actual, outcome(graph, inputs))
    assert len(step.tasks) == 2


@pytest.mark.parametrize(("images", "channels", "features", "groups"), [
    (10, 3, 5, 1),  # images that threads cannot share
    (4, 48, 64, 1),  # parts as large as what is read
    (64, 4, 8, 2),
])
def test_what_stays_whole(images: int, channels: int, features: int, groups: int) -> None:
    assert parts(split_reductions(gradient(images, channels, features, groups))) == [1]


@pytest.mark.parametrize("stride", [1, 2])
def test_training_is_that_of_eager_mode(stride: int) -> None:
    torch.manual_seed(0)
    convs = [torch.nn.Conv2d(1, 16, 3, stride=stride), torch.nn.Conv2d(16, 32, 3, padding=1)]
    parameters = [p for conv in convs for p in conv.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)

    def step(x: torch.Tensor) -> tuple:
        optimizer.zero_grad()
        loss = convs[1](F.gelu(convs[0](x))).square().mean()
        loss.backward()
        grads = [p.grad + 0 for p in parameters]
        optimizer.step()
        return loss.detach(), *grads

    start = [p.detach().clone() for p in parameters]
    inputs = [torch.randn(8, 1, 21, 20) for _ in range(4)]
    eager = [step(x) for x in inputs]
    for p, before in zip(parameters, start, strict=True):
        p.detach().copy_(before)
    optimizer.state.clear()
    compiled = torch.compile(step, mode="now", fullgraph=True)
    for x, wanted in zip(inputs, eager, strict=True):
        for a, b in zip(compiled(x), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5)
    assert 4 in parts(compiled._programs[0].step.graph)
