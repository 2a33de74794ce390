"""Numbers that a program reads from tensors stay open in its graph; torch._check bounds them."""

from __future__ import annotations

import pytest


def export(torch, forward, *args, **options):
    class Program(torch.nn.Module):
        def forward(self, *args):
            return forward(*args)

    Program.forward = forward
    return torch.export.export(Program(), args, **options)


def test_sizes_slices_and_factors_come_from_tensors(torch):
    def forward(self, n, scale, y):
        a = n.item()
        torch._check(a >= 2)
        torch._check(a <= y.shape[0])
        b, c = scale.tolist()
        return torch.full((a, 2), 1.0), y[:a] * b, y.sum() + c

    y = torch.arange(6.0)
    run = export(torch, forward, torch.tensor(3), torch.tensor([0.5, 2.0]), y).module()
    for n in (2, 5, 6):
        ones, part, total = run(torch.tensor(n), torch.tensor([2.0, 7.0]), y)
        assert ones.shape == (n, 2) and part.tolist() == (y[:n] * 2).tolist()
        assert total.item() == 22
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression"):
        run(torch.tensor(1), torch.ones(2), y)


def test_a_check_is_one_assertion_and_holds_from_there_on(torch):
    def forward(self, x, y):
        n = x.item()
        torch._check_is_size(n)
        torch._check(n >= 0)
        torch._check(n < 4)
        return y + 1 if n < 5 else y - 1

    program = export(torch, forward, torch.tensor(3), torch.ones(2))
    assert program.graph_module.code.count("_assert_scalar.default(") in (2, 3)
    assert program.module()(torch.tensor(0), torch.ones(2)).tolist() == [2, 2]


def test_a_decision_that_nothing_decides_is_refused(torch):
    def by_value(self, x):
        return x + 1 if x.sum().item() > 5 else x

    def by_count(self, x):
        return x + 1 if x.nonzero().shape[0] > 2 else x

    for forward in (by_value, by_count):
        with pytest.raises(Exception, match="Could not guard on data-dependent expression"):
            export(torch, forward, torch.tensor([2, 3, 5]))


def test_an_index_at_its_upper_limit(torch):
    table = torch.arange(5.0)

    def forward(self, x):
        i = x.item()
        torch._check_is_size(i)
        torch._check(i <= 4)
        return table[i] * 2

    run = export(torch, forward, torch.tensor(4)).module()
    assert [run(torch.tensor(i)).item() for i in range(5)] == [0, 2, 4, 6, 8]


def test_decisions_by_sizes_narrow_what_a_dim_may_be(torch):
    def forward(self, x):
        return x + 1 if x.shape[0] <= 6 else x - 1

    long = torch.export.Dim("long", min=3)
    with pytest.raises(Exception, match=r"(?s)Constraints violated \(long\).*Not all values of long"
                                        r".*long = Dim\('long', min=3, max=6\)"):
        export(torch, forward, torch.ones(5), dynamic_shapes=({0: long},))
    short = torch.export.Dim("short", min=3, max=6)
    run = export(torch, forward, torch.ones(5), dynamic_shapes=({0: short},)).module()
    assert run(torch.ones(6)).tolist() == [2] * 6


def test_dims_of_one_name_have_one_definition_and_fixed_lengths_are_compared(torch):
    def forward(self, x, y):
        return x @ y

    low, high = torch.export.Dim("c", min=3), torch.export.Dim("c", max=12)
    x = torch.ones(10, 10)
    with pytest.raises(Exception, match="Found different definitions Dim.*min=3.* and Dim.*max=12"):
        export(torch, forward, x, x, dynamic_shapes=((low, high), (high, low)))
    with pytest.raises(Exception, match="Static shape constraint of 9 does not match input size"):
        export(torch, forward, x, x, dynamic_shapes=({0: 9}, None))


def test_constants_have_the_paths_of_their_attributes(torch):
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.constant = torch.ones(2)
            self.register_buffer("hidden", torch.ones(2), persistent=False)

        def forward(self, x):
            return x + self.constant + self.hidden + torch.tensor(3.0)

    program = torch.export.export(torch.nn.Sequential(Inner()), (torch.ones(2),))
    assert {"0.constant", "0.hidden", "0.lifted_tensor_0"} == set(program.constants)
    assert not program.state_dict and not program.module().state_dict()
    assert program.module()(torch.ones(2)).tolist() == [6, 6]
    assert "c_0_constant" in [n.name for n in program.graph.nodes]


def test_programs_know_that_they_are_exported(torch):
    def forward(self, x):
        return x * 2 if torch.compiler.is_exporting() else x

    assert export(torch, forward, torch.ones(1)).module()(torch.ones(1)).item() == 2
    assert not torch.compiler.is_exporting() and not torch.compiler.is_compiling()
