"""Programs that train with autograd.grad or func.grad: their passes are judged, attacks and
penalties are none."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import doctor, nn
from flambeau.func import functional_call, grad


def softmax_over_the_batch(scores: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores, dim=0).pow(2).mean()


def descend_by_autograd(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    for _ in range(4):
        scores = net(x)
        loss = F.cross_entropy(scores, y) + softmax_over_the_batch(scores)
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient


def descend_by_transform(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        scores = functional_call(net, weights, (x,))
        return F.cross_entropy(scores, y) + softmax_over_the_batch(scores)

    for _ in range(4):
        gradients = grad(loss)(weights)
        weights = {name: w - 0.1 * gradients[name] for name, w in weights.items()}


@pytest.mark.parametrize("descend", [descend_by_autograd, descend_by_transform])
def test_a_functional_step_is_judged(descend) -> None:
    torch.manual_seed(0)
    net, x, y = nn.Linear(8, 3), torch.randn(32, 8), torch.randint(0, 3, (32,))
    with doctor(quiet=True) as watcher:
        descend(net, x, y)
    assert not watcher.session.faults
    assert [f.id for f in watcher.mistakes] == ["softmax-over-the-batch"]
    assert watcher.session.clock.passes == watcher.session.updates == 4
    assert "attention-over-the-queries" in watcher.session.passed()
    assert "no-zero-grad" in watcher.session.undecided()


def test_other_derivatives_are_no_steps() -> None:
    """An attack on an image, a penalty whose graph is recorded, the slope of an output."""
    torch.manual_seed(0)
    net, x, y = nn.Linear(8, 3), torch.randn(32, 8), torch.randint(0, 3, (32,))
    with doctor(quiet=True) as watcher:
        image = x.clone().requires_grad_()
        torch.autograd.grad(F.cross_entropy(net(image), y), image)
        torch.autograd.grad(F.cross_entropy(net(x), y), net.weight)
        torch.autograd.grad(net(x).sum(), list(net.parameters()), create_graph=True)
        torch.autograd.grad(net(x), list(net.parameters()), torch.ones(32, 3))
    assert not watcher.session.clock.passes
    assert not watcher.findings
