"""torch.onnx: control flow as onnxruntime computes it from an exported model."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._higher_order_ops.associative_scan import associative_scan
from flambeau._higher_order_ops.map import map as map_slices
from flambeau._higher_order_ops.scan import scan
from flambeau._higher_order_ops.while_loop import while_loop
from flambeau.export import Dim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (self.linear(x).sin(), x + 1),
                          lambda x: (x.cos(), x), (x,))


class Rounds(nn.Module):
    """A branch within a loop."""

    def forward(self, x, n):
        def body(i, x):
            return i + 1, torch.cond(x.sum() > 10, lambda y: y - 1, lambda y: y * 2, (x,))

        return while_loop(lambda i, x: i < n, body, (torch.zeros((), dtype=torch.int64), x))


class CountedRounds(nn.Module):
    """A carried int, and a length of the input."""

    def forward(self, x):
        return while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x * 2 + i), (0, x))


class Slices(nn.Module):
    def forward(self, xs, y):
        return map_slices(lambda x, y: x.sin() + y, xs, y)


class Totals(nn.Module):
    def forward(self, init, xs):
        return scan(lambda total, x: (total + x, total * x), init, xs)


class Prefixes(nn.Module):
    """Two trees of slices, one along a dynamic length, and a value from outside."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, y):
        def combine(a, b):
            return {"gate": a["gate"] * b["gate"], "state": b["gate"] * a["state"] + b["state"]}

        slices = {"gate": x * self.weight, "state": y}
        states = associative_scan(combine, slices, 0, combine_mode="generic")["state"]
        return states, associative_scan(lambda a, b: a + self.weight * b, x, 1, reverse=True,
                                        combine_mode="generic")


X, N = torch.ones(2, 3), Dim("n", min=2)
CASES = {
    "prefixes": (Prefixes, [(torch.rand(6, 3), torch.rand(6, 3)), (torch.ones(2, 3), X)],
                 {"x": {0: N}, "y": {0: N}}),
    "branches": (Branches, [(X,), (-X,)], None),
    "branches of any length": (Branches, [(X,), (-torch.ones(5, 3),)], {"x": {0: N}}),
    "rounds": (Rounds, [(torch.ones(3), torch.tensor(n)) for n in (3, 0, 6)], None),
    "counted rounds": (CountedRounds, [(X,), (torch.ones(5, 3),)], {"x": {0: N}}),
    "slices": (Slices, [(torch.randn(n, 3), torch.randn(3)) for n in (4, 7)],
               {"xs": {0: N}, "y": None}),
    "totals": (Totals, [(torch.zeros(3), torch.randn(4, 3))], None),
}


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_goes_the_same_way(name):
    torch.manual_seed(0)
    make, inputs, shapes = CASES[name]
    module = make().eval()
    program = torch.onnx.export(module, inputs[0], dynamic_shapes=shapes)
    for args in inputs:
        wanted = torch.utils._pytree.tree_leaves(module(*args))
        actual = program(*args)
        assert len(actual) == len(wanted)
        for a, b in zip(actual, wanted, strict=True):
            torch.testing.assert_close(a, torch.as_tensor(b), atol=1e-5, rtol=1e-5)


def test_an_operator_in_a_branch_is_named_before_anything_is_written(tmp_path):
    class Orthogonal(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.linalg.qr(x)[0], lambda x: x * 2, (x,))

    file = tmp_path / "model.onnx"
    with pytest.raises(torch.onnx.OnnxExporterError, match="linalg_qr"):
        torch.onnx.export(Orthogonal(), (torch.ones(2, 2),), file)
    assert not file.exists()


class GradModes(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x * 2,))
        return y + x


def test_grad_modes_leave_no_trace():
    model = GradModes()
    x = torch.ones(3, requires_grad=True)
    program = torch.export.export(model, (x,))
    assert "wrap_with_set_grad_enabled" in str(program)
    converted = torch.onnx.export(program)
    assert "If" in [node.op_type for node in converted.model_proto.graph.node]
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(converted(x)[0], model(x))
