"""Forward mode and memory that tensors share: a tangent that comes by a write is seen through all
views of what was written, whenever they were made."""

from __future__ import annotations

import pytest


def through_base(torch, x, y):
    x = x.clone()
    older = x[0]
    x.copy_(y)
    return older, x


def through_view(torch, x, y):
    x = x.clone()
    older, other = x[0], x[0, 1:]
    older.copy_(y[0])
    return other, x


def through_transposed(torch, x, y):
    z = torch.zeros(3, 2).t()
    older = z[0]
    z[:, 1] = y[:, 0]
    z.t()[0].add_(y[:, 1])
    return older, z, z.t() * 2


PROGRAMS = pytest.mark.parametrize(
    "program", [through_base, through_view, through_transposed], ids=lambda f: f.__name__)


@pytest.fixture
def numbers(torch):
    x = torch.arange(6.0).view(2, 3)
    return x, x * 2 + 1, torch.tensor([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])


@PROGRAMS
def test_older_views_see_the_tangent(torch, program, numbers):
    x, y, t = numbers
    _, actual = torch.func.jvp(lambda y: program(torch, x, y), (y,), (t,))
    wanted = program(torch, x * 0, t)
    assert all(torch.equal(a, b) for a, b in zip(actual, wanted, strict=True))


@pytest.mark.parametrize("program", [through_base, through_view], ids=lambda f: f.__name__)
def test_inside_and_around_vmap(torch, program, numbers):
    x, y, t = (torch.stack([n, n * 3]) for n in numbers)
    each = [torch.func.jvp(lambda b, a=a: program(torch, a, b), (b,), (c,))[1]
            for a, b, c in zip(x, y, t, strict=True)]
    wanted = [torch.stack(parts) for parts in zip(*each, strict=True)]
    inside = torch.vmap(
        lambda a, b, c: torch.func.jvp(lambda b: program(torch, a, b), (b,), (c,))[1])
    assert all(torch.equal(a, b) for a, b in zip(inside(x, y, t), wanted, strict=True))


@PROGRAMS
def test_jacobians(torch, program, numbers):
    x, y, _ = numbers
    forward = torch.func.jacfwd(lambda y: program(torch, x, y)[0])(y)
    backward = torch.func.jacrev(lambda y: program(torch, x, y)[0])(y)
    assert torch.equal(forward, backward)


def test_a_tangent_that_lies_otherwise_in_memory(torch, numbers):
    def f(x, y):
        older = x[0, ::2]
        x.copy_(y)
        return older, x

    x, y, t = numbers
    transposed = t.t().contiguous().t()
    _, actual = torch.func.jvp(f, (x.clone(), y), (transposed * 0, t))
    assert actual[0].tolist() == [1.0, 100.0]
    _, actual = torch.vmap(lambda *args: torch.func.jvp(f, args[:2], args[2:]), (0, 0, 2, 0))(
        torch.stack([x, x]), torch.stack([y, y]), torch.ones(2, 3, 2), torch.stack([t, t * 2]))
    assert actual[0].tolist() == [[1.0, 100.0], [2.0, 200.0]]


def test_a_primal_has_no_tangent(torch):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        x = torch.zeros(2, 3)
        view, detached = x[1], x.detach()
        x.copy_(forward.make_dual(torch.ones(2, 3), torch.ones(2, 3)))
        assert forward.unpack_dual(view).tangent.tolist() == [1.0, 1.0, 1.0]
        assert forward.unpack_dual(forward.unpack_dual(view).primal * 2).tangent is None
        assert forward.unpack_dual(detached).tangent is None
        view.zero_()
        assert forward.unpack_dual(x).tangent[1].tolist() == [0.0, 0.0, 0.0]


def test_a_write_to_what_carries_an_outer_tangent(torch):
    def inner(x):
        return torch.func.jvp(lambda y: x.clone().mul_(y), (x,), (torch.ones(2),))[1]

    x, t = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0])
    value, tangent = torch.func.jvp(inner, (x,), (t,))
    assert value.tolist() == [1.0, 2.0]
    assert tangent.tolist() == [1.0, 10.0]


def write_base(torch, x, y):
    z = x.clone()
    older = z[0]
    z.mul_(y)
    return older, z[0], z


def write_view(torch, x, y):
    z = x.clone()
    whole, older = z.t(), z[0, 1:]
    whole.mul_(y.t())
    return older, z[0, 1:], z


def write_twice(torch, x, y):
    z = torch.zeros(2, 3)
    older = z[1, ::2]
    z.add_(x)
    z.t().mul_(y.t())
    return older, z[1, ::2], z


def write_inner_first(torch, x, y):
    z = torch.zeros(2, 3)
    older = z[0, 1:]
    z.add_(y)
    z.mul_(x)
    return older, z[0, 1:], z


@pytest.mark.parametrize("program", [write_base, write_view, write_twice, write_inner_first],
                         ids=lambda f: f.__name__)
def test_older_views_in_nested_levels(torch, program, numbers):
    x, y, t = numbers

    def push_y(x):
        return torch.func.jvp(lambda y: program(torch, x, y), (y,), (torch.ones(2, 3),))[1]

    _, (older, newer, whole) = torch.func.jvp(push_y, (x,), (t,))
    assert torch.equal(whole, t)  # the mixed derivative of x * y
    assert torch.equal(older, newer)
    assert older.any()


@pytest.mark.parametrize(("name", "args"), [
    ("unsqueeze_", (0,)), ("squeeze_", ()), ("transpose_", (0, 2)), ("as_strided_", ((3,), (1,)))])
def test_views_in_place_turn_the_tangent_too(torch, name, args):
    x, t = torch.ones(1, 1, 3), torch.tensor([[[1.0, 2.0, 3.0]]])
    turned = getattr(t.clone(), name)(*args)

    def f(x):
        y = x * 2
        getattr(y, name)(*args)
        return y * y

    assert torch.equal(torch.func.jvp(f, (x,), (t,))[1], turned * 8)
    _, second = torch.func.jvp(lambda x: torch.func.jvp(f, (x,), (t,))[1], (x,), (t,))
    assert torch.equal(second, turned * turned * 8)
    assert t.shape == (1, 1, 3)


def test_a_dual_is_not_resized(torch):
    with pytest.raises(RuntimeError, match="cannot resize variables that has a forward grad"):
        torch.func.jvp(lambda x: (x * 2).resize_(1), (torch.ones(2),), (torch.ones(2),))


def test_a_base_and_its_views_share_the_tangent(torch):
    forward_ad = torch.autograd.forward_ad
    base = torch.zeros(2, 2)
    same, turned = base.view_as(base), base.t()
    with forward_ad.dual_level():
        turned.copy_(forward_ad.make_dual(torch.ones(2, 2), torch.ones(2, 2)))
        tangents = [forward_ad.unpack_dual(x).tangent for x in (base, same, turned)]
        assert tangents[2]._base is tangents[0]
        assert tangents[1] is tangents[0] or tangents[1]._base is tangents[0]
