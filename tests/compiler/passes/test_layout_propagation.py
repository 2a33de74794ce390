"""Values between convolutions stay channels-last."""

from __future__ import annotations

from flambeau.compiler.ir.graph import Graph, Node, Op, apply, constant, expand, permute
from flambeau.compiler.passes.layout_propagation import propagate_layouts
from flambeau.native.loop_ir.ir import Scalar, Type


def _input(slot: int, shape: tuple[int, ...]) -> Node:
    return Node(Op.INPUT, (), shape, Type.F32, {"slot": slot})


def test_an_expanded_factor_does_not_decide_the_layout() -> None:
    """The gradient of squeeze-and-excitation: a mean's gradient is expanded over the image."""
    image = permute(_input(0, (2, 6, 6, 8)), (0, 3, 1, 2))
    mean = expand(_input(1, (2, 8, 1, 1)), (2, 8, 6, 6))
    scaled = apply(Scalar.MUL, mean, constant(1 / 36, Type.F32, (1, 1, 1, 1)))
    graph = Graph([], [], [apply(Scalar.ADD, image, scaled)], [])
    (result,) = propagate_layouts(graph).outputs
    assert result.op is Op.PERMUTE and result.axes == (0, 3, 1, 2)
    assert result.inputs[0].op is Op.APPLY and result.inputs[0].shape == (2, 6, 6, 8)
