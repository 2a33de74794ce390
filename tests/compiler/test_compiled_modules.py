"""Compiled modules: a forward program, and a backward one that autograd runs."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .steps import compiled, left_by, runs, same


def _net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(64, 5))  # fmt: skip


def test_a_module_trains_as_it_does_eagerly():
    eager, net = _net(), _net()
    fast = compiled(net)
    models = (eager, net, torch.optim.SGD(eager.parameters(), 0.1, 0.9)), (
        fast, net, torch.optim.SGD(fast.parameters(), 0.1, 0.9))  # fmt: skip
    for i in range(6):
        x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
        losses = []
        for model, _, optimiser in models:
            torch.manual_seed(i)
            optimiser.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimiser.step()
            losses.append(loss)
        same(*losses)
        same({k: v for k, v in left_by(net)().items() if "0.bias" not in k},
             {k: v for k, v in left_by(eager)().items() if "0.bias" not in k}, 1e-4)  # fmt: skip
    assert runs(fast) == 3


def test_inputs_get_gradients_and_graphs_go_on():
    weight = nn.Parameter(torch.randn(4, 3))

    def f(x, y):
        return (x @ weight).relu(), (x * y).sum()

    fast = compiled(f)
    for _ in range(6):
        found = []
        for g in (fast, f):
            x, y = torch.ones(2, 4).requires_grad_(), torch.full((4,), 2.0).requires_grad_()
            weight.grad = None
            a, b = g((x * 2).tanh(), y)
            (a.sum() * b).backward()
            found.append((x.grad, y.grad, weight.grad))
        same(*found)
    assert runs(fast) == 3


def test_backward_through_one_output_twice_and_again():
    fast = compiled(lambda x: (x * x, x.exp()))
    for _ in range(5):
        x = torch.ones(3, requires_grad=True)
        a, _ = fast(x)
        a.sum().backward(retain_graph=True)
        a.sum().backward()
        same(x.grad, torch.full((3,), 4.0))
        with pytest.raises(RuntimeError, match="second time"):
            a.sum().backward()
    assert runs(fast) == 2
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(fast(x)[0].sum() ** 2, x, create_graph=True)


def test_it_behaves_as_the_module():
    net = _net()
    fast = torch.compile(net)
    assert isinstance(fast, nn.Module)
    assert fast._orig_mod is net
    assert list(fast.state_dict()) == ["_orig_mod." + key for key in net.state_dict()]
    fast.eval()
    assert not net[1].training
    net.note = 3
    assert fast.note == 3
    fast.other = 4
    assert net.other == 4
    with pytest.raises(TypeError, match="state_dict"):
        fast.__getstate__()


def test_inference_has_no_graph():
    net = _net().eval()
    fast = compiled(net)
    x = torch.randn(2, 1, 8, 8)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            for _ in range(4):
                same(fast(x), net(x))
    assert runs(fast) == 2
