"""Steps that add to the gradients of the call before and then begin new ones, and what may happen
to those gradients between two calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .carried_scenes import SCENES, scene
from .scenario import Scene


class Adversaries:
    """A generator and a discriminator, trained in turn without clearing the other's gradients."""

    def __init__(self, optimizer: Any = torch.optim.SGD, **options: Any) -> None:
        self.g = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.d = nn.Sequential(nn.Linear(2, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
        options = options or {"lr": 0.05}
        self.for_g = optimizer(self.g.parameters(), **options)
        self.for_d = optimizer(self.d.parameters(), **options)
        self.log: list[Any] = []

    def step(self, z: Any, x: Any) -> Any:
        self.for_g.zero_grad()
        fake = self.g(z)
        g_loss = F.softplus(-self.d(fake)).mean()
        g_loss.backward()  # adds to the discriminator's gradients, too
        self.for_g.step()
        self.for_d.zero_grad()
        d_loss = F.softplus(self.d(fake.detach())).mean() + F.softplus(-self.d(x)).mean()
        d_loss.backward()
        self.for_d.step()
        return g_loss.detach(), d_loss.detach()

    def scene(self, change: Callable[[], Any] = lambda: None, look: Any = None) -> Scene:
        """A scene whose log holds what `look` returns before each call."""
        def arguments() -> tuple:
            if look is not None:
                self.log.append(look())
            return torch.randn(4, 3), torch.randn(4, 2)

        state = [*self.g.parameters(), *self.d.parameters()]
        return Scene(self.step, change, arguments, state, self.log)

    @property
    def leaf(self) -> Any:
        """A leaf whose gradient the next call takes over."""
        return self.d[0].weight


@scene
def adversaries() -> Scene:
    return Adversaries().scene()


@scene
def adversaries_with_adam() -> Scene:
    return Adversaries(torch.optim.Adam, lr=0.01, betas=(0.5, 0.999)).scene()


def _add(name: str, change: Callable[[Any], Any]) -> None:
    """Adds a scene that changes the leaf whose gradient is taken over."""
    def make() -> Scene:
        both = Adversaries()
        return both.scene(lambda: change(both.leaf))

    SCENES[f"a gradient {name}"] = make


def _replace(leaf: Any, grad: Any) -> None:
    leaf.grad = grad


_add("set to None", lambda leaf: _replace(leaf, None))
_add("set to zero", lambda leaf: [leaf.grad.zero_()])
_add("replaced", lambda leaf: _replace(leaf, torch.ones(4, 2)))
_add("by columns", lambda leaf: _replace(leaf, torch.ones(2, 4).t()))
_add("of equal elements", lambda leaf: _replace(leaf, torch.ones(1, 2).expand(4, 2)))
_add("in other memory", lambda leaf: _replace(leaf, torch.arange(20.0)[3:11].view(4, 2)))
_add("that is the leaf", lambda leaf: _replace(leaf, leaf.detach()))
_add("with a graph", lambda leaf: _replace(leaf, torch.ones(4, 2, requires_grad=True) * 2))


@scene
def a_gradient_that_is_looked_at() -> Scene:
    both = Adversaries()
    return both.scene(look=lambda: None if both.leaf.grad is None else both.leaf.grad.clone())


@scene
def a_gradient_that_stays_with_the_user() -> Scene:
    both = Adversaries()
    grads: list[Any] = []

    def look() -> Any:  # the first backward pass of the next call adds to it
        grads.append(both.leaf.grad)
        return [None if g is None else (g.clone(), g._version) for g in grads]

    return both.scene(look=look)


@scene
def a_view_of_a_gradient_that_stays() -> Scene:
    both = Adversaries()
    rows: list[Any] = []

    def look() -> Any:
        if both.leaf.grad is not None:
            rows.append(both.leaf.grad[1])
        return [row.clone() for row in rows]

    return both.scene(look=look)


@scene
def two_leaves_with_one_gradient() -> Scene:
    both = Adversaries()

    def change() -> None:
        both.d[0].bias.grad = both.d[2].weight.grad[0]
        both.d[2].weight.grad = both.d[0].bias.grad.view(1, 4)

    return both.scene(change)


@scene
def gradients_in_one_flat_tensor() -> Scene:
    both = Adversaries()

    def change() -> None:
        flat = torch.ones(sum(p.numel() for p in both.d.parameters()))
        start = 0
        for p in both.d.parameters():
            p.grad = flat[start : start + p.numel()].view_as(p)
            start += p.numel()

    return both.scene(change)


@scene
def a_leaf_frozen_later() -> Scene:
    both = Adversaries()
    return both.scene(lambda: [both.d[0].requires_grad_(False)])


@scene
def a_hook_on_the_leaf() -> Scene:
    both = Adversaries()

    def change() -> None:
        both.leaf.register_hook(lambda g: g * 2)

    return both.scene(change)


@scene
def a_hook_after_accumulation() -> Scene:
    both = Adversaries()

    def change() -> None:
        both.leaf.register_post_accumulate_grad_hook(lambda p: both.log.append(p.grad.clone()))

    return both.scene(change)


@scene
def an_attack_before_the_update() -> Scene:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        x = x.clone().requires_grad_()
        F.cross_entropy(net(x), y).backward()
        attacked = (x + 0.1 * x.grad.sign()).detach()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(attacked), y)
        loss.backward()
        optimizer.step()
        return loss.detach(), attacked

    return Scene(step, lambda: [net[0].weight.grad.zero_()],
                 lambda: (torch.randn(4, 3), torch.tensor([0, 1, 1, 0])), [*net.parameters()])


@scene
def gradients_in_bfloat16() -> Scene:
    both = Adversaries()
    both.g, both.d = both.g.bfloat16(), both.d.bfloat16()

    def step(z: Any, x: Any) -> Any:
        return [loss.float() for loss in both.step(z.bfloat16(), x.bfloat16())]

    return Scene(step, lambda: None, both.scene().arguments)


@scene
def a_moving_average_of_gradients() -> Scene:
    w = torch.randn(3, requires_grad=True)

    def step(x: Any) -> Any:
        before = w.grad
        (g,) = torch.autograd.grad((x * w).tanh().sum(), w)
        w.grad = g if before is None else 0.9 * before + 0.1 * g
        return w.grad.sum()

    return Scene(step, state=[w])


@scene
def gradients_that_are_returned() -> Scene:
    net = nn.Linear(3, 2)

    def step(x: Any) -> Any:
        net.zero_grad()
        loss = net(x).tanh().sum()
        loss.backward()
        return loss.detach(), [p.grad for p in net.parameters()]

    return Scene(step, lambda: [net.weight.grad.zero_()], state=[*net.parameters()])


@scene
def gradients_that_are_stored() -> Scene:
    net, last = nn.Linear(3, 2), {}
    log: list[Any] = []

    def step(x: Any) -> Any:
        net.zero_grad()
        loss = net(x).tanh().sum()
        loss.backward()
        last["weight"] = net.weight.grad
        return loss.detach()

    def arguments() -> tuple:
        known = last.get("weight")
        log.append(None if known is None else (known.clone(), known is net.weight.grad))
        return (torch.randn(4, 3),)

    return Scene(step, lambda: last.clear(), arguments, [*net.parameters()], log)


@scene
def a_gradient_that_is_returned_and_taken_over() -> Scene:
    w = torch.randn(3, requires_grad=True)
    results: list[Any] = []

    def step(x: Any) -> Any:
        (x * w).tanh().sum().backward()
        added = w.grad
        w.grad = None
        (x + w).square().sum().backward()
        return added, w.grad

    def arguments() -> tuple:
        results.append([] if w.grad is None else [w.grad])
        return (torch.randn(4, 3),)

    return Scene(step, lambda: [w.grad.fill_(2)], arguments, [w], results)
