"""Writing in place: lines 8 to 10 of the behaviours. Gradients are held to finite differences."""

from __future__ import annotations

import pytest


def test_line_8_leaf_is_refused(torch):
    a = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        a.add_(1)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        a.zero_()
    assert a.tolist() == [1.0, 1.0, 1.0]
    assert a._version == 0


def test_line_8_view_of_a_leaf_is_refused(torch):
    a = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
        a[0].add_(1)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        a[0] = 2.0
    assert a.tolist() == [1.0, 1.0, 1.0]


def test_line_8_non_leaf_is_differentiated(torch):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = a * 3
    b.mul_(b.detach().clone())
    b.add_(1)
    b.sum().backward()
    assert b.grad_fn.name() == "AddBackward0"
    assert a.grad.tolist() == [9.0, 18.0]


def test_line_8_leaf_under_no_grad(torch):
    a = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a.add_(1)
        a[0] = 7.0
    assert a._version == 2
    assert a.tolist() == [7.0, 2.0, 2.0]
    assert a.is_leaf
    assert a.requires_grad


def set_row(torch, x, v):
    x[1] = v[0]
    return x


def set_mask(torch, x, v):
    x[torch.tensor([[True, False, True], [False, True, False]])] = v[0]
    return x


def add_to_row(torch, x, v):
    x[1] += v[1]
    return x


def add_to_slice_of_slice(torch, x, v):
    x[:, 1:][0].mul_(v[0, :2])
    return x


def copy_into_view(torch, x, v):
    x.t()[0:2].copy_(v.t()[1:3])
    return x * x


def index_put(torch, x, v):
    x.index_put_((torch.tensor([0, 1]), torch.tensor([2, 0])), v[0, :2])
    return x


def index_put_accumulate(torch, x, v):
    rows, columns = torch.tensor([0, 0, 1]), torch.tensor([1, 1, 2])
    x.index_put_((rows, columns), v[1] * 2, accumulate=True)
    return x


def scatter(torch, x, v):
    x.scatter_(1, torch.tensor([[2, 0], [1, 2]]), v[:, :2])
    return x


def masked_fill(torch, x, v):
    x.masked_fill_(torch.tensor([True, False, False]), 5.0)
    x[0].mul_(v[1])
    return x


def chain_of_views(torch, x, v):
    first = x.view(6)
    second = first[1:5]
    second.mul_(2)
    first[2] = v[0, 0] * v[1, 1]
    third = x.transpose(0, 1)
    third[1].add_(v[:, 2] * v[0, 1])
    x.sin_()
    return second.view(2, 2).exp()


def diagonal_and_unsqueeze(torch, x, v):
    x[:, :2].diagonal().mul_(v[0, :2])
    x.unsqueeze(0)[..., -1] = v[:, 2]
    return x


WRITERS = [
    set_row, set_mask, add_to_row, add_to_slice_of_slice, copy_into_view, index_put,
    index_put_accumulate, scatter, masked_fill, chain_of_views, diagonal_and_unsqueeze,
]


def numeric_gradients(torch, function, inputs, weights, step=1e-6):
    """Central differences of (function(*inputs) * weights).sum(), one nested list an input."""
    rows = []
    for k, moved in enumerate(inputs):
        row = []
        for at in range(moved.numel()):
            ends = []
            for sign in (1, -1):
                trial = [x.detach().clone() for x in inputs]
                trial[k].view(-1)[at] += sign * step
                with torch.no_grad():
                    ends.append((function(*trial) * weights).sum().item())
            row.append((ends[0] - ends[1]) / (2 * step))
        rows.append(row)
    return rows


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_line_9_gradients(torch, write):
    x = torch.linspace(0.3, 1.1, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    v = torch.linspace(-0.7, 0.9, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()

    def program(x, v):
        base = x * 1.5
        written = write(torch, base, v * 1)
        return torch.cat([base.reshape(-1), written.reshape(-1)])

    out = program(x, v)
    weights = torch.linspace(1.0, 2.0, out.numel(), dtype=torch.float64)
    (out * weights).sum().backward()
    slopes = numeric_gradients(torch, program, (x, v), weights)
    for leaf, expected in zip((x, v), slopes, strict=True):
        actual = [0.0] * leaf.numel() if leaf.grad is None else leaf.grad.reshape(-1).tolist()
        assert actual == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_line_9_chain(torch):
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    base = x * 1
    flat = base.view(6)
    middle = flat[1:5]
    middle.mul_(2)
    flat[2] = 10.0
    base.t()[1] += 1
    assert middle.tolist() == [5.0, 10.0, 8.0, 11.0]
    (middle * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 0.0], [6.0, 8.0, 0.0]]
    assert base.grad_fn is not None
    assert middle._base is base
    assert middle._version == base._version == 4  # `+=` on an index writes twice: add_, copy_


def test_line_10_detach_in_place(torch):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    z = (y * 3).sum()
    y.detach_()
    assert y.is_leaf
    assert not y.requires_grad
    z.backward()
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


def test_line_10_detach_in_place_on_a_view(torch):
    x = torch.ones(3, requires_grad=True)
    view = (x * 2)[1:]
    with pytest.raises(RuntimeError, match="view"):
        view.detach_()


def scatter_reduced(torch, x, v):
    index = torch.tensor([[0, 1, 1], [1, 0, 1]])
    return x.scatter_reduce_(0, index, v, "amax", include_self=False)


def index_reduced(torch, x, v):
    return x.index_reduce_(0, torch.tensor([1, 0]), v, "prod")


def raised(torch, x, v):
    return x.pow_(2).mul_(v)


def renormed(torch, x, v):
    return x.renorm_(2, 0, 0.5)


def multigamma(torch, x, v):
    return x.add_(3).mvlgamma_(2)


def leaky(torch, x, v):
    return torch.nn.functional.rrelu_(x, 0.2, 0.3)


@pytest.mark.parametrize(
    "write", [scatter_reduced, index_reduced, raised, renormed, multigamma, leaky]
)
@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
def test_line_8_what_backward_needs_of_the_old_value_is_kept(torch, write):
    torch.manual_seed(0)
    x = (torch.rand(2, 3, dtype=torch.float64) - 0.4).requires_grad_()
    v = torch.rand(2, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, v: write(torch, x.clone(), v), (x, v))


OVERWRITTEN = {
    "max_pool2d": lambda torch, x: torch.nn.functional.max_pool2d(x.reshape(1, 1, 4, 3), 2),
    "adaptive_max_pool1d": lambda torch, x: torch.nn.functional.adaptive_max_pool1d(x, 2),
    "max": lambda torch, x: x.max(1).values,
    "sort": lambda torch, x: x.sort(0).values,
    "topk": lambda torch, x: x.topk(2).values,
    "kthvalue": lambda torch, x: x.kthvalue(2).values,
    "cummax": lambda torch, x: x.cummax(1).values,
    "a divisor": lambda torch, x: 2 / (x + 3),
    "normalize": lambda torch, x: torch.nn.functional.normalize(x),
    "logaddexp": lambda torch, x: torch.logaddexp(x, x.flip(0)),
    "sinc": lambda torch, x: torch.sinc(x),
    "erfinv": lambda torch, x: torch.erfinv(x.tanh()),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_line_9_an_output_may_be_overwritten_where_backward_does_not_read_it(torch, name):
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: OVERWRITTEN[name](torch, x).mul_(2).pow_(2), x)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "exp", "sqrt", "relu"])
def test_line_9_an_output_that_backward_reads_may_not_be_overwritten(torch, name):
    y = getattr(torch, name)(torch.ones(3, requires_grad=True))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
