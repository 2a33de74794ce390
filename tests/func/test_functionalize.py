"""functionalize in traces: no in-place operators or views, and the same results and writes."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.func import functionalize
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils import _pytree as pytree


def write_through_views(x):
    y = x + 1
    y[:, 0] = 3
    y[0].mul_(2)
    first, second = y.split(2)
    first.zero_()
    second.t().copy_(first.t() + 5)
    y.unsqueeze_(0)
    return y, x * y


def write_arguments(x):
    left, right = x.unbind(1)
    left.mul_(3)
    right.sub_(left)
    x.t()[1].add_(1)
    return [x, {"left": left}]


def write_out(x):
    out = torch.empty(0)
    torch.add(x, x, out=out)
    flat = out.view(8)
    flat[2:4].fill_(7)
    return out, flat


def write_elsewhere(x):
    y = x.clone()
    y[torch.tensor([0, 2])] = 1.5
    y.permute(1, 0)[0] += 2
    y.masked_fill_(y > 3, 0)
    return y.as_strided((3,), (2,)).sin_(), y


PROGRAMS = [write_through_views, write_arguments, write_out, write_elsewhere]


def names_of(module):
    return [node.target.overloadpacket.__name__ for node in module.graph.nodes
            if hasattr(node.target, "overloadpacket")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_traces_compute_the_same(program, remove):
    example, x = torch.ones(4, 2), torch.arange(8.0).view(4, 2)
    module = make_fx(functionalize(program, remove=remove))(example)
    assert torch.equal(example, torch.ones(4, 2)) or program is write_arguments
    written = [name for name in names_of(module) if name.endswith("_")]
    assert written == (["copy_"] if program is write_arguments else [])
    if remove == "mutations_and_views":
        assert not {"view", "select", "slice", "t", "permute"} & set(names_of(module))
    mine, other = x.clone(), x.clone()
    for a, b in zip(pytree.tree_leaves(program(mine)), pytree.tree_leaves(module(other)),
                    strict=True):
        assert torch.equal(a, b)
    assert torch.equal(mine, other)


def test_a_written_argument_is_written_once():
    x = torch.zeros(4, 2)
    make_fx(functionalize(write_arguments))(x)
    assert x[:, 1].tolist() == [1.0] * 4


def test_what_has_no_functional_form_is_named():
    captured = torch.ones(3)
    for program, message in (
        (lambda x: x.resize_(2), "resize_"), (lambda x: captured.add_(x), "a captured tensor"),
        (lambda x: x.unfold(0, 2, 1).add_(1), "a view by unfold"),
    ):
        with pytest.raises(NotImplementedError, match=message):
            make_fx(functionalize(program))(torch.ones(3))


def test_out_arguments_keep_calls_alive():
    """A call that writes to `out` stays in the graph even if nothing reads its result."""
    def program(x):
        first, second = x.split(2)
        torch.mul(first, 3.0, out=second)
        return x

    x = torch.ones(4)
    assert make_fx(program)(torch.ones(4))(x).tolist() == [1.0, 1.0, 3.0, 3.0]


def test_loops_and_branches_in_traces():
    from flambeau._higher_order_ops.while_loop import while_loop
    from flambeau.fx.experimental.proxy_tensor import make_fx

    def body(x):
        y = x.clone()
        y.add_(1)
        return (y.mul_(2),)

    def loop(x):
        return while_loop(lambda x: x.sum() < 10, body, (x,))

    def branch(x):
        return torch.cond(x.sum() < 0, lambda x: x.clone().sin_(), lambda x: x.cos(), (x,))

    x = torch.ones(2)
    for f, submodule in ((loop, "while_loop_body_graph_0"), (branch, "true_graph_0")):
        graph = make_fx(torch.func.functionalize(f))(x)
        code = getattr(graph, submodule).code
        assert "def forward(self, arg0_1)" in code
        assert not any(f"aten.{name}." in code for name in ("add_", "mul_", "sin_"))
        for value in (x, -x):
            assert torch.equal(*[torch.utils._pytree.tree_leaves(g(value))[0] for g in (graph, f)])


def test_graphs_of_loops_and_branches_are_traced_again():
    from flambeau._higher_order_ops.while_loop import while_loop
    from flambeau.fx.experimental.proxy_tensor import make_fx

    def loop(x):
        return while_loop(lambda x: x.sum() < 10, lambda x: (x + 1,), (x,))

    def branch(x):
        return torch.cond(x.sum() < 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    x = torch.ones(2)
    for f, name in ((loop, "higher_order.while_loop("), (branch, "higher_order.cond(")):
        again = make_fx(make_fx(f)(x))(x)
        assert name in again.code
        for value in (x, -x):
            assert torch.equal(*[torch.utils._pytree.tree_leaves(g(value))[0] for g in (again, f)])
