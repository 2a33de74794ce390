"""make_fx: functions as graphs of aten's operators."""

import flambeau as torch
from flambeau.fx.experimental.proxy_tensor import make_fx


def test_operators_are_recorded_by_their_names_in_aten():
    gm = make_fx(lambda x, y: [x[0] * 2 + y["a"].T, x[1]])
    args = [torch.ones(3, 3), torch.ones(3)], {"a": torch.randn(3, 3)}
    graph = gm(*args)
    assert [str(n.target) for n in graph.graph.nodes] == [
        "x_1", "x_2", "y_1", "aten.mul.Tensor", "aten.permute.default", "aten.add.Tensor", "output",
    ]
    other = torch.randn(3, 3)
    assert torch.equal(graph(other, other, other)[0], other * 2 + other.T)


def test_tensors_from_outside_become_constants():
    outside = torch.arange(3.0)
    graph = make_fx(lambda x: x + outside)(torch.ones(3))
    assert torch.equal(graph(torch.zeros(3)), outside)
    assert list(graph.state_dict()) == ["_tensor_constant0"]
