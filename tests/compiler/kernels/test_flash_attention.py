"""Attention by blocks: against evaluate() and eager, at awkward sizes and under masks."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.ir.graph import Graph, Node, Op, Source, SourceKind
from flambeau.compiler.kernels.flash_attention import choose_block_extent
from flambeau.compiler.ir.verify import GraphError, verify_graph
from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.native.loop_ir.ir import Type
from flambeau.native.loop_ir.verify import verify

from ..execution_routes import interpreted, outcome, run
from ..step_comparison import same

SIZES = [(1, 1), (5, 5), (63, 63), (65, 65), (130, 130), (5, 130), (130, 7)]


def attention(
    shape: tuple[int, int, int, int], causal: bool = False, mask: str = "", type: Type = Type.F32,
    batch: tuple[int, ...] = (2, 2),
) -> Graph:
    """The result, the sums, and all gradients from sums and inner products that are given."""
    rows, columns, depth, width = shape
    sources: list[Source] = []
    inputs: list[Node] = []

    def new(shape: tuple[int, ...], type: Type = type) -> Node:
        sources.append(Source(SourceKind.STATE, shape, type, lambda: None))
        inputs.append(Node(Op.INPUT, (), shape, type, {"slot": len(inputs)}))
        return inputs[-1]

    q, k = new((*batch, rows, depth)), new((*batch, columns, depth))
    v, g = new((*batch, columns, width)), new((*batch, rows, width))
    inner = new((*batch, rows))
    masks = {
        "": lambda: (),
        "bool": lambda: (new((1,) * len(batch) + (rows, columns), Type.BOOL),),
        "added": lambda: (new((*batch[:1], *(1,) * len(batch), columns)),),
    }[mask]()
    how = {"scale": depth**-0.5, "causal": causal}
    sums = Node(Op.ATTENTION_SUMS, (q, k, *masks), (*batch, rows), type, how)
    outputs = [Node(Op.ATTENTION, (q, k, v, *masks), (*batch, rows, width), type, how), sums]
    for of, operand in enumerate((q, k, v)):
        operands = (q, k, v, g, sums, inner, *masks)
        attributes = {**how, "of": of}
        outputs.append(Node(Op.ATTENTION_GRADIENT, operands, operand.shape, type, attributes))
    return Graph(sources, inputs, outputs, [])


def drawn(graph: Graph) -> list[np.ndarray]:
    """Values for the sources; a row of a mask hides everything."""
    random = np.random.default_rng(0)
    arrays = []
    for source in graph.sources:
        value = random.normal(size=source.shape).astype(dtype_of(source.type))
        if source.type is Type.BOOL:
            value = random.random(source.shape) < 0.6
            value[..., 0, :] = False
        arrays.append(value)
    return arrays


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_blocks(rows: int, columns: int, causal: bool) -> None:
    graph = attention((rows, columns, 20, 17), causal)
    verify_graph(graph)
    inputs = drawn(graph)
    step, result = run(graph, inputs, threads=2)
    assert [task.name for task in step.tasks] == ["attention", "attention_backward"]
    for task in step.tasks:
        assert task.kernel is not None
        verify(task.kernel)
    for a, b in zip(result, outcome(graph, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("batch", [(), (1, 1), (3,)])
@pytest.mark.parametrize("rows", [20, 40, 150])
def test_few_heads_on_more_threads(rows: int, batch: tuple[int, ...]) -> None:
    """A block of scores belongs to one thread, however little there is to share out."""
    graph = attention((rows, rows, 6, 6), True, batch=batch)
    inputs = drawn(graph)
    expected = outcome(graph, inputs)
    step, _ = run(graph, inputs)
    step.threads = 4
    for _ in range(5):
        for a, b in zip(step.run([]), expected, strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mask", ["bool", "added"])
@pytest.mark.parametrize("shape", [(5, 70, 8, 8), (100, 100, 8, 24)])
def test_masks(shape: tuple[int, int, int, int], mask: str) -> None:
    for causal in (False, True):
        graph = attention(shape, causal, mask, Type.F64)
        inputs = drawn(graph)
        _, actual = run(graph, inputs)
        for a, b in zip(actual, outcome(graph, inputs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
        if mask == "bool":
            assert not actual[0][..., 0, :].any(), "a row that sees nothing gives 0"


def test_rows_of_minus_infinity_without_a_mask() -> None:
    """As eager: such a row is NaN, and others are not, though a whole block of theirs is -inf."""
    graph = attention((70, 130, 4, 4))
    inputs = drawn(graph)
    inputs[0][..., 3, :] = -np.inf
    inputs[0][..., :3, :] = inputs[0][..., 4:, :] = 1
    inputs[1][:] = 1
    inputs[1][..., 64:128, :] = -np.inf
    inputs[1][..., 128:, :] = 2
    _, actual = run(graph, inputs)
    expected = outcome(graph, inputs)
    assert np.isnan(expected[0][..., 3, :]).all()
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-4)
    assert np.isfinite(actual[0][..., :3, :]).all()


def test_kernels_mean_what_they_do() -> None:
    """The loops, interpreted."""
    graph = attention((33, 33, 3, 2), causal=True, batch=(1,))
    inputs = drawn(graph)
    _, expected = run(graph, inputs)
    for a, b in zip(interpreted(graph, inputs), expected, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_wrong_extents_are_refused() -> None:
    graph = attention((4, 6, 3, 2))
    graph.outputs[0].shape = (2, 2, 4, 3)
    with pytest.raises(GraphError, match="ATTENTION"):
        verify_graph(graph)


def test_blocks_fit_in_local_memory() -> None:
    for extent in (1, 31, 97, 5000):
        for depth in (1, 64, 128):
            for size in (4, 8):
                block = choose_block_extent(extent, extent, depth, depth, size, True)
                assert 0 < block <= max(extent, 16)
    assert choose_block_extent(100, 100, 4096, 4096, 4, True) == 0


@pytest.mark.parametrize("masked", [False, True])
def test_as_eager(masked: bool) -> None:
    """Through flambeau.compile, with q, k and v windows of one product, and gradients."""

    def step(x: torch.Tensor, weight: torch.Tensor, mask: torch.Tensor) -> tuple:
        q, k, v = (x @ weight).reshape(2, 65, 3, 4, 16).permute(2, 0, 3, 1, 4)
        attn_mask = mask if masked else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask, is_causal=not masked)
        loss = y.transpose(1, 2).reshape(2, 65, 64).square().sum()
        return loss, *torch.autograd.grad(loss, (x, weight))

    torch.manual_seed(0)
    fast = torch.compile(step, mode="now")
    weight = (torch.randn(64, 192) / 8).requires_grad_()
    for _ in range(4):
        mask = torch.rand(2, 1, 65, 65) < 0.7
        mask[..., 5, :] = False
        x = torch.randn(2, 65, 64, requires_grad=True)
        same(fast(x, weight, mask), step(x, weight, mask), 2e-4)
    assert "attention_backward" in fast.explain()


def test_large_scores_are_in_no_memory() -> None:
    """The program of a long sequence has no memory of the scores' size."""

    def step(q: torch.Tensor) -> tuple:
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return y, *torch.autograd.grad(y.sum(), (q,))

    fast = torch.compile(step, mode="now")
    torch.manual_seed(0)
    for _ in range(3):
        q = torch.randn(1, 8, 800, 8, requires_grad=True)
        actual = fast(q)
    same(actual, step(q), 1e-4)
    (program,) = fast._programs
    assert program.step.plan.size < 4 << 20 < 8 * 800 * 800 * 4


def test_modules_keep_the_sums_for_backward() -> None:
    """Forward and backward as two programs: what is kept between them is a number a row."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q = self.linear(x)
            return F.scaled_dot_product_attention(q, x, x, is_causal=True)

    torch.manual_seed(0)
    net = Net()
    fast = torch.compile(net, mode="now")
    for _ in range(4):
        x = torch.randn(1, 6, 200, 16)
        results = []
        for function in (fast, net):
            net.zero_grad()
            y = function(x)
            y.square().sum().backward()
            results.append((y, net.linear.weight.grad.clone()))
        same(*results, 1e-3)
    (program,) = fast._compiled._programs
    saved = program.step.graph.outputs[1:]
    assert saved
    assert max(len(function.shape) and function.shape[-1] for function in saved) <= 200
    assert not any(function.shape[-2:] == (200, 200) for function in saved)
