"""make_fx: functions as graphs of aten's operators."""

import pytest

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


def test_control_flow_becomes_operators_on_subgraphs():
    constant = torch.tensor(0.5)

    def inner(x):
        return torch.cond(x.sum() > 0, lambda x: x + constant, lambda x: x - constant, (x,))

    def program(x):
        return torch.cond(x.sum() > 0, inner, lambda x: -inner(x), (x,))

    module = make_fx(program)(torch.ones(2))
    assert [n.target.__name__ for n in module.graph.nodes if n.op == "call_function"][2] == "cond"
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(module(x), program(x))


def test_a_loop_becomes_an_operator():
    from flambeau._higher_order_ops.while_loop import while_loop

    def program(x):
        return while_loop(lambda x: x.sum() < 10, lambda x: (x + 1,), (x,))

    module = make_fx(program)(torch.zeros(2))
    assert torch.equal(module(torch.ones(2))[0], program(torch.ones(2))[0])


def test_branches_may_return_values_from_outside():
    constant = torch.tensor([0.5, 0.25])

    def inner(x):
        return torch.cond(x.sum() > 1, lambda x: x + constant, lambda x: constant + 0, (x,))

    def program(x):
        return torch.cond(x.sum() > 0, lambda x: inner(x) + constant, lambda x: inner(x), (x,))

    module = make_fx(program)(torch.ones(2))
    for x in (torch.ones(2), torch.zeros(2), torch.full((2,), 0.25)):
        assert torch.equal(module(x), program(x))


def test_nested_branches_share_operands_from_outside():
    outside = torch.ones(2, 3)

    def choose(pred, first, second):
        return torch.cond(pred, first, second, (outside,))

    def inner(x):
        return choose(torch.tensor(True), lambda y: y.sum(), lambda y: -y.sum())

    def program(x):
        return choose(x.sum() > 0, lambda y: y.sum() + choose(torch.tensor(1), inner, inner),
                      lambda y: y.sum() - choose(torch.tensor(0), inner, inner))

    module = make_fx(program)(torch.ones(2))
    assert torch.equal(module(-torch.ones(2)), program(-torch.ones(2)))


TRANSFORMED = {
    "grad": lambda x: torch.func.grad(lambda x: (x.sin() * x).sum())(x),
    "vjp": lambda x: torch.func.vjp(torch.sin, x)[1](x.cos())[0],
    "linearize": lambda x: torch.func.linearize(torch.sin, x)[1](x),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x * 2,))[1],
    "vmap": lambda x: torch.vmap(lambda x: x.sin() * 3)(x),
}


@pytest.mark.parametrize("name", list(TRANSFORMED))
def test_graphs_of_transforms_serve_other_inputs(name):
    graph = make_fx(TRANSFORMED[name])(torch.ones(3))
    x = torch.tensor([0.5, -1.0, 2.0])
    assert torch.equal(graph(x), TRANSFORMED[name](x))


@pytest.mark.parametrize("function", [
    torch.func.jacrev(lambda x: x.sin() * x.sum()), torch.func.hessian(lambda x: x.sin().sum()),
    torch.vmap(torch.func.grad(lambda x: x.sin())),
], ids=["jacrev", "hessian", "vmap of grad"])
def test_gradients_within_vmap_are_refused(function):
    """The graph would hold their values at the trace's input as constants."""
    with pytest.raises(NotImplementedError, match="a graph of what .* computes within a transform"):
        make_fx(function)(torch.ones(3))


BELOW = {
    "add": lambda a: a.sin() + a, "sub": lambda a: torch.sub(a.cos(), a, alpha=2),
    "div": lambda a: a / 2 + 1 / (a + 3), "clamp": lambda a: a.clamp(0.25, 0.5),
    "in place": lambda a: a.exp().add_(a), "outer": lambda a: a[:, None] * a,
    "pow": lambda a: a**2, "var": lambda a: a.var(), "max": lambda a: a.max(),
}


TRANSFORMS = {
    "vmap": torch.vmap,
    "vmap of vmap": lambda f: torch.vmap(torch.vmap(lambda a: f(a[None]))),
    "vmap of jacfwd": lambda f: torch.vmap(torch.func.jacfwd(f)),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x[0],), (x[1],))[1],
}
COMPUTED = {"vmap": ["add", "clamp", "div", "in place", "sub"], "jvp": ["add"]}


@pytest.mark.parametrize("transform", list(TRANSFORMS))
@pytest.mark.parametrize("name", list(BELOW))
def test_graphs_below_transforms_compute_or_are_refused(name, transform):
    """Private operators below a transform are not seen: what they compute is no constant."""
    function = TRANSFORMS[transform](BELOW[name])
    first, second = torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 0.5
    try:
        graph = make_fx(function)(first)
    except NotImplementedError:
        assert name not in COMPUTED.get(transform, ())
    else:
        torch.testing.assert_close(graph(second), function(second))


def test_constants_from_outside_may_stand_below_transforms():
    w = torch.rand(4)
    graph = make_fx(torch.vmap(lambda a: a * w + w))(torch.ones(3, 4))
    x = torch.rand(3, 4)
    assert torch.equal(graph(x), x * w + w)


@pytest.mark.parametrize("name", ["gelu", "linear", "softplus"])
def test_an_operator_is_no_program_to_trace(name):
    function = getattr(torch.nn.functional, name)
    with pytest.raises(AssertionError, match="Expected FunctionType, got .*builtin_function"):
        torch.fx.symbolic_trace(function)


@pytest.mark.parametrize("index", [torch.ops.aten.index, torch.ops.aten.index.Tensor])
def test_a_tensor_of_indices_is_the_list_of_its_rows(index):
    x, rows = torch.arange(4).reshape(2, 2), torch.tensor([1, 0])
    graph = make_fx(lambda x, rows: index(x, rows))(x, rows)
    targets = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert targets[0] == "aten.unbind.int"
    assert targets[-1] == "aten.index.Tensor"
    assert graph(x, rows).item() == index(x, rows).item() == 2
    written = torch.ops.aten.index_put(x, rows, torch.tensor(9))
    assert written.tolist() == [[0, 1], [9, 3]]
