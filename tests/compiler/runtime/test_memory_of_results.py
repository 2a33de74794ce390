"""Memory around a compiled call: results that are views of arguments, aliases, versions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

from ..step_comparison import compiled, runs

TRANSPOSED = {
    "t": lambda a: a.t(),
    "T": lambda a: a.T,
    "mT": lambda a: a.mT,
    "permute": lambda a: a.permute(1, 0),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "einsum": lambda a: torch.einsum("ij->ji", a),
    "row": lambda a: a[1],
    "flat": lambda a: a.view(9),
    "diagonal": lambda a: a.diagonal(),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_views_of_an_argument(name):
    """Same strides, same memory and same base as the eager view, beside another output too."""
    view = TRANSPOSED[name]
    for step in (lambda a: (view(a),), lambda a: (view(a), a * 2)):
        fast = compiled(step)
        for k in range(5):
            a = torch.arange(9.0).reshape(3, 3) + k
            actual, expected = fast(a)[0], step(a)[0]
            assert actual.stride() == expected.stride()
            assert actual.data_ptr() == expected.data_ptr()
            assert torch.equal(actual, expected)
            assert actual._base is expected._base
            actual.mul_(2)
            assert actual._version == a._version == 1
        assert runs(fast) >= 2


def test_a_detached_argument_shares_its_version_and_is_no_view():
    fast = compiled(lambda a: (a.detach(), a + 1))
    for _ in range(5):
        a = torch.ones(3)
        b, _ = fast(a)
        b.add_(1)
        assert a._version == 1
        assert b._base is None
        assert a.tolist() == [2, 2, 2]
    assert runs(fast) >= 2


def test_an_argument_that_is_a_captured_tensor_is_not_taken_for_any_argument():
    w = torch.arange(4.0)

    def step(x):
        w.add_(1)
        return x * 2

    fast = compiled(step)
    for _ in range(4):
        assert torch.equal(fast(w), w * 2)
    x = torch.ones(4)
    for k in range(4):
        before = w.clone()
        assert fast(x).tolist() == [2, 2, 2, 2], k
        assert torch.equal(w, before + 1)
    assert torch.equal(fast(w), w * 2)


@pytest.mark.parametrize("captured", ["global", "list", "module"])
def test_a_captured_tensor_that_is_only_read(captured):
    net = nn.Linear(4, 4)
    w = net.weight.detach() if captured == "module" else torch.arange(16.0).reshape(4, 4)
    boxed = [w]
    steps = {
        "global": lambda x: x + w,
        "list": lambda x: x + boxed[0],
        "module": lambda x: x + net.weight,
    }
    step = steps[captured]
    fast = compiled(step)
    for _ in range(4):
        assert torch.equal(fast(w), step(w))
    for _ in range(4):
        x = torch.ones(4, 4)
        assert torch.equal(fast(x), step(x))


def test_a_tensor_returned_twice_in_a_dict():
    def step(x):
        y = x * 2
        return {"a": y, "b": y, "c": [y, y + 1]}

    fast = compiled(step)
    for _ in range(5):
        actual = fast(torch.ones(3))
        assert actual["a"] is actual["b"] is actual["c"][0]
        assert actual["c"][1].tolist() == [3, 3, 3]
    assert runs(fast) >= 2


def test_objects_whose_getattr_reads_a_dict():
    class Settings:
        def __init__(self):
            self.__dict__["values"] = {"scale": 2.0}

        def __getattr__(self, name):
            return self.__dict__["values"][name]

    settings = Settings()
    fast = compiled(lambda x: x * settings.scale)
    for _ in range(4):
        assert fast(torch.ones(2)).tolist() == [2, 2]


# ------------------------------------------------------------------------------- versions


def _train(optimizer):
    p = nn.Parameter(torch.ones(5))
    bn = nn.BatchNorm1d(5)
    optim = getattr(torch.optim, optimizer)([p, *bn.parameters()], lr=0.1)

    def step(x):
        optim.zero_grad()
        loss = bn(x * p).square().sum()
        loss.backward()
        optim.step()
        return loss

    return step, [p, *bn.parameters(), *bn.buffers()]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_programs_count_their_writes(optimizer):
    step, tensors = _train(optimizer)
    twin, expected = _train(optimizer)
    fast = compiled(step)
    for _ in range(7):
        x = torch.randn(4, 5)
        fast(x)
        twin(x)
        assert [t._version for t in tensors] == [t._version for t in expected]
    assert runs(fast) >= 3


def test_writes_to_arguments_and_views_are_counted():
    buffer = torch.zeros(4)
    part = buffer[:2]

    def step(x):
        x.mul_(2).add_(1)
        part.add_(x[:2])
        return x.sum()

    fast = compiled(step)
    for k in range(6):
        x = torch.ones(4)
        fast(x)
        assert x._version == 2
        assert part._version == buffer._version == k + 1
    assert runs(fast) >= 2


def test_backward_through_memory_that_a_program_wrote_is_refused():
    buffer = torch.ones(3)
    fast = compiled(lambda x: buffer.add_(x).sum())
    for _ in range(4):
        fast(torch.ones(3))
    q = torch.ones(3, requires_grad=True)
    y = (q * buffer).sum()
    fast(torch.ones(3))
    assert runs(fast) >= 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


# ---------------------------------------------------------------------- results of the call's own


def test_views_of_new_tensors_have_strides_and_a_base():
    fast = compiled(lambda x: (x * 2)[:, 0])
    for _ in range(5):
        y = fast(torch.ones(3, 4))
        assert y.stride() == (4,)
        assert y._base.shape == (3, 4)
        y.add_(1)
        assert y._version == y._base._version == 1
        assert y._base[0].tolist() == [3, 2, 2, 2]
    assert runs(fast) >= 2


def test_versions_of_new_tensors():
    fast = compiled(lambda x: (x * 2).add_(1).mul_(3))
    for _ in range(5):
        assert fast(torch.ones(3))._version == 2
    assert runs(fast) >= 2


def test_aliases_and_views_of_captured_tensors_are_new_objects():
    w = torch.zeros(2, 3)
    fast = compiled(lambda x: (w.add_(x).detach(), w.t()))
    last = None
    for k in range(5):
        alias, view = fast(torch.ones(3))
        assert alias is not last
        assert alias._base is None
        assert view._base is w
        assert alias._version == view._version == w._version == k + 1
        assert view.stride() == (1, 3)
        last = alias
    assert runs(fast) >= 2


def test_a_step_that_returns_other_views_in_some_calls_stays_eager():
    turns = itertools.cycle([True, False])

    def step(x):
        y = x * 2
        return y.t() if next(turns) else y

    fast = compiled(step)
    for k in range(6):
        assert fast(torch.ones(3, 3)).stride() == ((3, 1) if k % 2 else (1, 3))


def test_a_leaf_that_a_step_makes_gets_its_gradient():
    def step(x):
        leaf = x.detach().clone().requires_grad_()
        return leaf, leaf * 2

    fast = torch.compile(step, mode="now")
    for _ in range(4):
        leaf, y = fast(torch.ones(2))
        y.sum().backward()
        assert leaf.grad.tolist() == [2, 2]


# ------------------------------------------------------------------------------ which memory


def test_arguments_on_captured_memory_and_others_have_programs_of_their_own():
    w = torch.arange(3.0)

    def step(x):
        w.add_(1)
        return x * 2

    fast = compiled(step)
    for k in range(14):
        x = w if k % 2 else torch.ones(3)
        assert torch.equal(fast(x), x * 2)
        assert w.tolist() == [k + 1, k + 2, k + 3]
    assert runs(fast) >= 4


def test_an_argument_that_is_written_may_not_be_memory_that_is_read():
    w = torch.ones(3)
    fast = compiled(lambda x: (x.add_(1), w * 2)[1])
    for _ in range(6):
        assert fast(torch.ones(3)).tolist() == [2, 2, 2]
    assert fast(w).tolist() == [4, 4, 4]
    assert runs(fast) >= 2


def test_arrays_that_overlap_without_one_owner():
    memory = np.arange(8.0)
    w = torch.from_numpy(memory[2:])
    fast = compiled(lambda x: (x.add_(1), w * 2)[1])
    for _ in range(4):
        assert fast(torch.ones(6, dtype=torch.float64)).tolist() == [4, 6, 8, 10, 12, 14]
    assert fast(torch.from_numpy(memory[:6])).tolist() == [6, 8, 10, 12, 12, 14]


def test_one_object_twice_and_two_objects():
    fast = compiled(lambda x, y: (x, y, x + y))
    x = torch.ones(2)
    for second in (x, x, x, x.view(2), x.detach(), x.view(2), x.view(2)):
        actual = fast(x, second)
        assert actual[0] is x
        assert actual[1] is second


# ------------------------------------------------------------------------------- gradients


def test_arguments_made_from_each_other_get_partial_gradients():
    fast = compiled(lambda x, y: 2 * x + 3 * y)
    for _ in range(5):
        x = torch.ones(2, requires_grad=True)
        fast(x, x * 5).sum().backward()
        assert x.grad.tolist() == [17, 17]
    assert runs(fast) >= 2


def test_recording_runs_no_hook():
    p = nn.Parameter(torch.ones(2))
    calls = []
    p.register_hook(lambda g: calls.append(g.tolist()))
    step = lambda x: p * x  # noqa: E731
    fast = torch.compile(step, mode="now")
    for k in range(1, 5):
        fast(torch.ones(2)).sum().backward()
        assert calls == [[1, 1]] * k


def test_a_step_that_goes_backward_into_its_argument():
    def step(x):
        (x * x).sum().backward()
        return x.detach().sum()

    fast = compiled(step)
    x = torch.ones(2, requires_grad=True)
    for k in range(4):
        fast(x)
        assert x.grad.tolist() == [2.0 * (k + 1)] * 2
    for _ in range(3):
        y = torch.full((2,), 3.0, requires_grad=True)
        fast(y)
        assert y.grad.tolist() == [6, 6]
    assert x.grad.tolist() == [8, 8]


def test_versions_of_gradients_start_anew():
    p = nn.Parameter(torch.ones(2))

    def step(x):
        p.grad = None
        (p * x).sum().backward()
        return x.sum()

    fast = compiled(step)
    for _ in range(6):
        fast(torch.ones(2))
        p.grad.mul_(2)
        assert p.grad._version == 1
    assert runs(fast) >= 2


def test_second_derivatives_through_batch_norm():
    nets = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
            for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    fast = compiled(nets[0])
    for _ in range(5):
        x = torch.randn(5, 3, requires_grad=True)
        for net, call in zip(nets, (fast, nets[1]), strict=True):
            net.zero_grad()
            (g,) = torch.autograd.grad(call(x).sin().sum(), x, create_graph=True)
            (g.norm(dim=1) - 1).square().mean().backward()
        for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
            if b.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
        for a, b in zip(nets[0].buffers(), nets[1].buffers(), strict=True):
            torch.testing.assert_close(a, b)


def test_a_second_derivative_after_a_write_is_refused():
    w = torch.ones(2)
    fast = compiled(lambda x: (w * x).tanh())
    for _ in range(4):
        fast(torch.ones(2, requires_grad=True))
    x = torch.ones(2, requires_grad=True)
    y = fast(x).sum()
    w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y, x, create_graph=True)
