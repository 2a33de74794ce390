"""torch.while_loop, scan and associative_scan: called, differentiated, batched and exported."""

from __future__ import annotations

import importlib

import pytest

import flambeau


def operators(torch):
    return importlib.import_module(f"{torch.__name__}._higher_order_ops")


def triple(i, x):
    return i + 1, x * 3


def test_while_loop_runs_until_its_condition_is_false(torch):
    loop = torch.while_loop
    x = torch.ones(2)
    i, y = loop(lambda i, x: i < 3, triple, (torch.tensor(0), x))
    assert (i.item(), y.tolist()) == (3, [27, 27])
    n, y = loop(lambda n, x: n < 2, triple, (0, x))
    assert (n, y.tolist()) == (2, [9, 9])
    i, y = loop(lambda i, x: i < 0, triple, (torch.tensor(0), x))
    assert (i.item(), y.tolist()) == (0, [1, 1]) and y is not x


@pytest.mark.parametrize(("condition", "body", "carried"), [
    (None, triple, lambda torch: (torch.tensor(0), torch.ones(2))),
    (lambda i, x: i < 3, lambda i, x: (i + 1,), lambda torch: (torch.tensor(0), torch.ones(2))),
    (lambda i, x: i < 3, lambda i, x: (i + 1, x.double()),
     lambda torch: (torch.tensor(0), torch.ones(2))),
    (lambda i, x: i + 3, triple, lambda torch: (torch.tensor(0), torch.ones(2))),
])
def test_loops_that_while_loop_refuses(torch, condition, body, carried):
    with pytest.raises(RuntimeError):
        torch.while_loop(condition, body, carried(torch))


def test_scan_stacks_outputs(torch):
    scan = operators(torch).scan
    xs = torch.arange(6.0).reshape(3, 2)

    def step(carry, x):
        return {"sum": carry["sum"] + x}, (carry["sum"] * 2 + x).clone()

    for dim, size in ((0, 2), (1, 3), (-1, 3)):
        for reverse in (False, True):
            carry, ys = scan(step, {"sum": torch.zeros(size)}, xs, dim=dim, reverse=reverse)
            assert torch.equal(carry["sum"], xs.sum(dim))
            assert ys.shape == xs.shape
            rows = xs.movedim(dim, 0).flip(0) if reverse else xs.movedim(dim, 0)
            expected = 2 * (rows.cumsum(0) - rows) + rows
            expected = expected.flip(0) if reverse else expected
            assert torch.equal(ys, expected.movedim(0, dim))
    assert scan(step, {"sum": xs}, []) == ({"sum": xs}, [])


def test_what_scan_refuses(torch):
    scan, xs = operators(torch).scan, torch.ones(3, 2)
    for arguments, text in (
        ((None, xs[0], xs), "Combine_fn must be a callable"),
        ((max, [], xs), r"scan\(\) operator requires init leaves"),
        ((max, 1, xs), "All init leaves must be a Tensor"),
        ((max, xs[0], torch.ones(0, 2)), "scan dimension > 0"),
    ):
        with pytest.raises(RuntimeError, match=text):
            scan(*arguments)
    with pytest.raises(IndexError, match="Dimension out of range"):
        scan(max, xs[0], xs, dim=2)


def test_gradients_of_a_scan(torch):
    weight = torch.full((2,), 0.5, dtype=torch.float64, requires_grad=True)
    xs = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2).requires_grad_()

    def run(weight, xs):
        return operators(torch).scan(
            lambda carry, x: ((carry * weight + x).sin(), carry.cos() + x),
            torch.zeros(2, dtype=torch.float64), xs)

    carry, total = torch.zeros(2, dtype=torch.float64), 0
    for x in xs:
        total = total + (carry.cos() + x).sum()
        carry = (carry * weight + x).sin()
    expected = torch.autograd.grad(total + carry.sum(), (weight, xs))
    last, ys = run(weight, xs)
    actual = torch.autograd.grad(last.sum() + ys.sum(), (weight, xs))
    for a, b in zip(actual, expected, strict=True):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes_of_matrices(torch, count, reverse):
    combine = operators(torch).associative_scan
    xs = torch.linspace(-1, 1, 4 * count, dtype=torch.float64).reshape(count, 2, 2)

    def product(a, b):
        return a @ b

    ys = combine(product, xs, 0, reverse=reverse, combine_mode="generic")
    rows, expected = xs.flip(0) if reverse else xs, []
    for x in rows:
        expected.append(product(expected[-1], x) if expected else x)
    expected = torch.stack(expected)
    assert torch.allclose(ys, expected.flip(0) if reverse else expected)


def test_what_associative_scan_refuses(torch):
    combine, xs = operators(torch).associative_scan, torch.ones(3)
    for arguments, mode, text in (
        ((None, xs, 0), "generic", "Combine_fn must be a callable"),
        ((max, xs, 0), "other", "Combine_mode must either"),
        ((max, xs, 0), "pointwise", "For combine_mode='pointwise'"),
        ((max, torch.ones(0), 0), "generic", "scan dimension > 0"),
    ):
        with pytest.raises(ValueError, match=text):
            combine(*arguments, combine_mode=mode)


def test_cond_of_each_example(torch):
    rows = torch.tensor([[1.0, 2.0], [-3.0, 1.0]])
    result = torch.vmap(lambda x: torch.cond(
        x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)))(rows)
    assert result.tolist() == [[2, 3], [-4, 0]]


def module_of(torch, function, shape=(3, 3)):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full(shape, 0.25))

        def forward(self, *args):
            return function(self, *args)

    return Module()


def test_an_exported_while_loop_decides_anew_on_each_call(torch):
    module = module_of(torch, lambda self, i, x: torch.while_loop(
        lambda i, x: i < 4, lambda i, x: (i + 1, x @ self.weight + i), (i, x)))
    program = torch.export.export(module, (torch.tensor(0), torch.ones(2, 3)))
    assert "torch.ops.higher_order.while_loop" in program.graph_module.code
    for start in (0, 2, 4, 7):
        args = torch.tensor(start), torch.ones(2, 3)
        for run in (program.module(), program.run_decompositions().module()):
            for a, b in zip(run(*args), module(*args), strict=True):
                assert torch.allclose(a, b)


def test_an_exported_loop_over_a_dynamic_length(torch):
    class Module(torch.nn.Module):
        def forward(self, x):
            return torch.while_loop(lambda n, y: n < x.shape[0],
                                    lambda n, y: (n + 1, y + x[0] * n), (0, x * 1))[1]

    module = Module()
    program = torch.export.export(module, (torch.ones(4, 3),),
                                  dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    for rows in (2, 4, 7):
        assert torch.equal(program.module()(torch.ones(rows, 3)), module(torch.ones(rows, 3)))


def test_a_value_may_be_carried_twice():
    module = module_of(flambeau, lambda self, i, x: flambeau.while_loop(
        lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a + 1, b + a), (i, x, x)))
    args = flambeau.tensor(0), flambeau.ones(2)
    run = flambeau.export.export(module, args).module()
    assert [y.tolist() for y in run(*args)] == [3, [4, 4], [7, 7]]


def test_an_exported_scan(torch):
    module = module_of(torch, lambda self, start, xs: operators(torch).scan(
        lambda carry, x: ((carry @ self.weight + x).tanh(), carry + x), start, xs))
    args = torch.zeros(2, 3), torch.linspace(-1, 1, 30).reshape(5, 2, 3)
    program = torch.export.export(module, args)
    assert "torch.ops.higher_order.scan" in program.graph_module.code
    for a, b in zip(program.module()(*args), module(*args), strict=True):
        assert torch.allclose(a, b)


def test_associative_scan_in_a_file(tmp_path):
    import flambeau as torch
    from flambeau.export import Dim, export, load, save

    class Prefixes(torch.nn.Module):
        def forward(self, x, y):
            return torch._higher_order_ops.associative_scan(
                lambda a, b: a * y + b, x, 1, combine_mode="generic")

    n = Dim("n", min=2)
    x, y = torch.rand(3, 5), torch.tensor(0.5)
    program = export(Prefixes(), (x, y), dynamic_shapes={"x": {1: n}, "y": {}})
    targets = [str(getattr(node.target, "__name__", node.target)) for node in program.graph.nodes]
    assert "associative_scan" in targets
    save(program, str(tmp_path / "prefixes.pt2"))
    loaded = load(str(tmp_path / "prefixes.pt2")).module()
    for length in (5, 2, 8):
        z = torch.rand(3, length)
        assert torch.allclose(loaded(z, y), Prefixes()(z, y))
