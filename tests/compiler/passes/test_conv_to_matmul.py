"""Convolutions of few pixels beside large weights are products of the weight and their windows."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from flambeau.compiler.ir.graph import Graph, Node, Op, Source, SourceKind, pad, permute
from flambeau.compiler.lowering.operators.conv import build_conv
from flambeau.compiler.passes import conv_to_matmul as passes
from flambeau.compiler.driver.pipeline import optimize
from flambeau.compiler.ir.verify import verify_graph
from flambeau.native.loop_ir.ir import Type

from ..execution_routes import assert_same, outcome, run


def layer(
    image: tuple[int, ...], weight: tuple[int, ...], stride: int = 1, dilation: int = 1,
    groups: int = 1, first: bool = True,
) -> Graph:
    """A convolution of (n, c, h, w) as the lowering makes it; `first`: channels come first."""
    inputs = [Node(Op.INPUT, (), shape, Type.F32, {"slot": k})
              for k, shape in enumerate((image, weight))]
    sources = [Source(SourceKind.STATE, n.shape, n.type, lambda: None) for n in inputs]
    x, w = inputs
    x = permute(x, (0, 2, 3, 1)) if first else x
    y = build_conv(pad(x, (0, 1, 0, 0), (0, 2, 1, 0)), permute(w, (2, 3, 1, 0)),
                   (stride, stride), (dilation, dilation), groups)
    return Graph(sources, inputs, [permute(y, (0, 3, 1, 2))], [])


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small weights count as large ones."""
    monkeypatch.setattr(passes, "LARGE_WEIGHT_ELEMENTS", 16)


@pytest.mark.parametrize(("image", "weight", "how"), [
    ((1, 5, 4, 4), (7, 5, 3, 3), {}),
    ((2, 5, 6, 5), (3, 5, 3, 2), {"stride": 2}),
    ((1, 4, 6, 7), (6, 4, 2, 3), {"dilation": 2}),
    ((3, 5, 4, 4), (6, 5, 1, 1), {"stride": 2}),
    ((2, 4, 5, 3), (6, 3, 3, 2), {"first": False}),
])
def test_the_product_is_the_convolution(eager, image, weight, how) -> None:
    graph = layer(image, weight, **how)
    random = np.random.default_rng(0)
    inputs = [random.normal(size=s.shape).astype(np.float32) for s in graph.sources]
    expected = outcome(graph, inputs)
    result = passes.convert_small_conv_to_matmul(graph)
    verify_graph(result)
    operations = {node.op for node in result.nodes()}
    assert Op.MATMUL in operations and Op.CONV not in operations
    assert_same(outcome(result, inputs), expected)
    assert_same(run(graph, inputs)[1], expected)


@pytest.mark.parametrize(("image", "weight", "how"), [
    ((1, 4, 20, 20), (4, 4, 3, 3), {}),  # pixels
    ((1, 4, 6, 6), (4, 2, 3, 3), {"groups": 2}),
    ((1, 2, 9, 9), (4, 2, 6, 6), {}),  # taps
    ((1, 1, 3, 3), (3, 1, 2, 2), {}),  # elements of the weight
])
def test_other_convolutions_stay(eager, image, weight, how) -> None:
    (result,) = (n for n in passes.convert_small_conv_to_matmul(layer(image, weight, **how)).nodes()
               if n.op in (Op.CONV, Op.MATMUL))
    assert result.op is Op.CONV


def test_images_of_more_pixels_stay_channels_last_where_weights_are_trained(eager) -> None:
    graph = layer((1, 4, 12, 12), (4, 4, 3, 3))
    pixels = prod(graph.outputs[0].shape[2:])
    assert passes.MAX_MATMUL_PIXELS < pixels <= passes.MAX_MATMUL_PIXELS_INFERENCE
    (conv,) = (n for n in graph.nodes() if n.op is Op.CONV)
    x, w = conv.inputs
    assert all(n.op is not Op.CONV for n in passes.convert_small_conv_to_matmul(graph).nodes())
    inputs = {name: conv.attributes[name] for name in ("stride", "dilation", "groups")}
    gradient = Node(Op.CONV_WEIGHT, (x, conv), w.shape, Type.F32, inputs)
    trained = Graph(graph.sources, graph.inputs, [*graph.outputs, gradient], [])
    assert any(n.op is Op.CONV for n in passes.convert_small_conv_to_matmul(trained).nodes())


def test_a_late_layer_of_one_image_is_such_a_product() -> None:
    image, weight = (1, 128, 8, 8), (128, 128, 3, 3)
    assert prod(weight) >= passes.LARGE_WEIGHT_ELEMENTS
    nodes = optimize(layer(image, weight)).nodes()
    assert [n.op for n in nodes if n.op in (Op.CONV, Op.MATMUL)] == [Op.MATMUL]
