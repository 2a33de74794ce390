"""Gradients, leaves and detaching: the table of the behaviours and its lines 1 to 7."""

from __future__ import annotations

import warnings

import pytest

WAYS = {
    "z": lambda z: z,
    "z.detach()": lambda z: z.detach(),
    "z.detach().requires_grad_()": lambda z: z.detach().requires_grad_(),
    "z.data": lambda z: z.data,
    "z.data.requires_grad_()": lambda z: z.data.requires_grad_(),
}

TABLE = [
    # p, x.grad, p.grad, q.grad
    ("z", 56.0, None, 2.0),
    ("z.detach()", 48.0, None, 2.0),
    ("z.detach().requires_grad_()", 48.0, 2.0, 2.0),
    ("z.data", 48.0, None, 2.0),
    ("z.data.requires_grad_()", 48.0, 2.0, 2.0),
]


def chain(torch, way):
    """x -> y -> z -> w, with p made from z in one of the five ways, and q beside it."""
    x = torch.tensor([1.0], requires_grad=True)
    y = x**2
    z = 2 * y
    w = z**3
    q = torch.tensor([2.0], requires_grad=True)
    return x, z, w, WAYS[way](z), q


def quiet_grad(tensor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return None if tensor.grad is None else tensor.grad.item()


@pytest.mark.parametrize(("way", "x_grad", "p_grad", "q_grad"), TABLE)
def test_table(torch, way, x_grad, p_grad, q_grad):
    x, z, w, p, q = chain(torch, way)
    (p * q).backward(retain_graph=True)
    w.backward()
    assert x.grad.item() == x_grad
    assert quiet_grad(z) is None
    assert quiet_grad(p) == p_grad
    assert q.grad.item() == q_grad


def test_grad_of_a_non_leaf_warns(torch):
    _, z, _, p, q = chain(torch, "z")
    (p * q).backward()
    with pytest.warns(UserWarning, match="not a leaf"):
        assert z.grad is None


@pytest.mark.parametrize("way", list(WAYS))
def test_line_1_second_backward(torch, way):
    _, _, w, p, q = chain(torch, way)
    (p * q).backward()
    if way == "z":
        with pytest.raises(RuntimeError, match="second time"):
            w.backward()
    else:
        w.backward()


def test_line_1_twice_where_nothing_was_saved(torch):
    a = torch.ones(3, requires_grad=True)
    total = (a + a).sum()
    total.backward()
    total.backward()
    assert a.grad.tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize(("alias", "version"), [("detach", 1), ("data", 0)])
def test_line_2_versions(torch, alias, version):
    a = torch.ones(3, requires_grad=True)
    b = a * 1
    d = b.detach() if alias == "detach" else b.data
    d.add_(1)
    assert b.tolist() == [2.0, 2.0, 2.0]
    assert d.data_ptr() == b.data_ptr()
    assert b._version == version
    assert d._version == 1


def test_line_3_detach_then_write_is_refused(torch):
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = a.sigmoid()
    out.detach().zero_()
    with pytest.raises(RuntimeError) as caught:
        out.sum().backward()
    message = str(caught.value)
    assert "modified by an inplace operation" in message
    assert "[3]" in message
    assert "Sigmoid" in message
    assert "version 1" in message
    assert "expected version 0" in message


def test_line_3_data_then_write_is_silent(torch):
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = a.sigmoid()
    out.data.zero_()
    out.sum().backward()
    assert a.grad.tolist() == [0.0, 0.0, 0.0]


def test_line_4(torch):
    def mean_square():
        a = torch.tensor([7.0, 0, 0], requires_grad=True)
        b = a + 2
        return a, b, (b * b).mean()

    a, _, loss = mean_square()
    loss.backward()
    assert a.grad.tolist() == pytest.approx([6.0, 1.3333, 1.3333], abs=1e-4)

    a, b, loss = mean_square()
    b.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()

    a, b, loss = mean_square()
    b.data.zero_()
    loss.backward()
    assert a.grad.tolist() == [0.0, 0.0, 0.0]


def test_line_5_retain_grad(torch):
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    b.retain_grad()
    b.norm().backward()
    assert b.retains_grad
    assert b.grad.tolist() == pytest.approx([0.7071, 0.7071], abs=1e-4)
    assert a.grad.tolist() == pytest.approx([1.4142, 1.4142], abs=1e-4)


def test_line_5_hook_sees_replaces_and_goes(torch):
    seen = []
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    handle = b.register_hook(lambda grad: seen.append(grad.tolist()))
    b.norm().backward(retain_graph=True)
    assert seen == [pytest.approx([0.7071, 0.7071], abs=1e-4)]

    handle.remove()
    a.grad = None
    b.register_hook(lambda grad: grad * 10)
    b.norm().backward()
    assert len(seen) == 1
    assert a.grad.tolist() == pytest.approx([14.142, 14.142], abs=1e-3)


def test_line_6_grad_fn(torch):
    a = torch.ones(2, requires_grad=True)
    assert a.grad_fn is None
    assert a.is_leaf
    b = a * 2
    c = b.exp()
    assert not c.is_leaf
    assert repr(b.grad_fn).startswith("<MulBackward0 object at 0x")
    assert c.grad_fn.name() == "ExpBackward0"
    assert c.grad_fn.next_functions[0][0] is b.grad_fn
    accumulate, slot = b.grad_fn.next_functions[0]
    assert type(accumulate).__name__ == "AccumulateGrad"
    assert accumulate.variable is a
    assert slot == 0
    assert b.grad_fn.next_functions[1] == (None, 0)


def test_line_7_scalars_and_given_gradients(torch):
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
        (x * 2).backward()
    single = torch.tensor([3.0], requires_grad=True)
    (single * 2).backward()
    assert single.grad.tolist() == [2.0]
    (x * 2).backward(gradient=torch.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 20.0]
    with pytest.raises(RuntimeError, match=r"(?i)mismatch in shape"):
        (x * 2).backward(gradient=torch.tensor([1.0, 10.0, 100.0]))
