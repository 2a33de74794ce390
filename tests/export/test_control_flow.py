"""torch.cond and map: called, in exported programs, and unflattened."""

from __future__ import annotations

import importlib

import pytest


def test_cond_takes_one_way(torch):
    def up(x):
        return x + 1

    def down(x):
        return x - 1

    x = torch.ones(2)
    assert torch.cond(torch.tensor(True), up, down, (x,)).tolist() == [2, 2]
    assert torch.cond(False, up, down, (x,)).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="Expected pred to be bool or tensor"):
        torch.cond("no", up, down, (x,))


class Ways:
    """A module with branches that read a parameter, in either library."""

    def __new__(cls, torch):
        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

            def forward(self, x):
                y = torch.cond(x.sum() > 0, lambda x: x * self.weight, lambda x: x.cos(), (x,))
                return y + 1

        return Module()


def test_an_exported_cond_decides_anew_on_each_call(torch):
    module = Ways(torch)
    program = torch.export.export(module, (torch.ones(3),))
    assert "torch.ops.higher_order.cond" in program.graph_module.code
    assert isinstance(program.graph_module.true_graph_0, torch.fx.GraphModule)
    runs = [program.module(), program.run_decompositions().module(),
            torch.export.unflatten(program)]
    for x in (torch.ones(3), -torch.ones(3), torch.arange(3.0)):
        for run in runs:
            assert torch.allclose(run(x), module(x))


def test_branches_that_differ_are_refused(torch):
    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x, lambda x: (x, x), (x,))

    with pytest.raises(Exception, match="torch.cond|structure|output"):
        torch.export.export(Module(), (torch.ones(3),))


def test_map_over_a_dynamic_length(torch):
    control_flow = importlib.import_module(f"{torch.__name__}._higher_order_ops.map")

    class Module(torch.nn.Module):
        def forward(self, xs, y):
            return control_flow.map(lambda x, y: x * 2 + y, xs, y)

    module, y = Module(), torch.ones(2)
    assert module(torch.ones(4, 2), y).tolist() == [[3, 3]] * 4
    rows = torch.export.Dim("rows", min=2)
    run = torch.export.export(module, (torch.ones(4, 2), y),
                              dynamic_shapes=({0: rows}, None)).module()
    assert run(torch.zeros(7, 2), y).tolist() == [[1, 1]] * 7
