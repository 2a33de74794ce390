"""Steps that hand memory around: `.data` assigned, buffers swapped, states loaded, results kept."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim

from .scenario import Scene, collect

SCENES: dict[str, Callable[[], Scene]] = {}
scene = collect(SCENES)


def _build_pair() -> tuple[Any, Any, Any]:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    return net, copy.deepcopy(net), optim.SGD(net.parameters(), lr=0.1)


def _descend(net: Any, optimizer: Any, loss: Any) -> Any:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@scene
def an_average_in_new_memory() -> Scene:
    net, average, optimizer = _build_pair()
    weight = SimpleNamespace(old=0.75)

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, (net(x) - average(x).detach() + 1).square().mean())
        for new, old in zip(net.parameters(), average.parameters(), strict=True):
            before, now = old.data, new.data
            old.data = before * weight.old + now * (1 - weight.old)
        return loss

    return Scene(step, lambda: setattr(weight, "old", 0.5),
                 state=[*net.parameters(), *average.parameters()])


@scene
def memory_of_before_that_is_kept() -> Scene:
    net, average, optimizer = _build_pair()
    memory: list[Any] = []

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, (net(x) - average(x).detach()).square().mean())
        for new, old in zip(net.parameters(), average.parameters(), strict=True):
            old.data = old.data * 0.9 + new.data * 0.1
        return loss

    def change() -> None:
        memory.extend([p.data for p in average.parameters()])
        memory.append(torch.from_numpy(average[0].weight.detach().numpy()))

    return Scene(step, change, state=[*average.parameters()], log=memory)


@scene
def two_tensors_that_swap_memory() -> Scene:
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))

    def step(x: Any) -> Any:
        a.data, b.data = b.data, a.data
        a.data.add_(x.mean(0))
        return x * a - b

    def change() -> None:
        a.data, b.data = b.data, a.data

    return Scene(step, change, state=[a, b])


@scene
def a_tensor_that_shares_memory_for_a_while() -> Scene:
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
    optimizer, shares = optim.SGD([a], lr=0.1), SimpleNamespace(value=True)

    def step(x: Any) -> Any:
        _descend(None, optimizer, (x * a).square().sum())
        b.data = a.data if shares.value else a.data.clone()
        return x * b

    return Scene(step, lambda: setattr(shares, "value", False), state=[a, b])


@scene
def memory_replaced_before_backward() -> Scene:
    w = nn.Parameter(torch.ones(3))

    def step(x: Any) -> Any:
        w.grad = None
        loss = (x * w).square().sum()
        w.data = w.data * 0.5
        loss.backward()
        return w.grad.clone()

    return Scene(step, lambda: setattr(w, "data", torch.full((3,), 3.0)), state=[w])


@scene
def parameters_in_a_vector() -> Scene:
    net, _, _ = _build_pair()

    def step(x: Any) -> Any:
        vector = nn.utils.parameters_to_vector(net.parameters())
        nn.utils.vector_to_parameters(vector * 0.9 + 0.01 * x.mean(), net.parameters())
        return net(x)

    return Scene(step, lambda: net[0].bias.data.fill_(1.0), state=[*net.parameters()])


@scene
def a_gradient_in_other_memory() -> Scene:
    w, seen = nn.Parameter(torch.ones(3)), SimpleNamespace(grad=None)

    def step(x: Any) -> Any:
        (x * w).sum().backward()
        seen.grad = w.grad
        w.grad.data = w.grad.data * 0.5
        return w.grad

    return Scene(step, lambda: setattr(w, "grad", None), state=[w])


@scene
def a_state_that_is_loaded_within() -> Scene:
    net, average, optimizer = _build_pair()
    weight = SimpleNamespace(old=0.9)

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, (net(x) - average(x).detach() + 1).square().mean())
        old, new = average.state_dict(), net.state_dict()
        average.load_state_dict(
            {k: old[k] * weight.old + new[k] * (1 - weight.old) for k in old})
        return loss

    return Scene(step, lambda: setattr(weight, "old", 0.5), state=[*average.parameters()])


@scene
def a_state_hook_that_comes() -> Scene:
    net, average, optimizer = _build_pair()

    def step(x: Any) -> Any:
        loss = _descend(net, optimizer, (net(x) - average(x).detach() + 1).square().mean())
        with torch.no_grad():
            pairs = zip(average.state_dict().values(), net.state_dict().values(), strict=False)
            for old, new in pairs:
                old.copy_(0.9 * old + 0.1 * new)
        return loss

    return Scene(step, lambda: average.register_state_dict_post_hook(
        lambda module, state, prefix, metadata: state.clear()) and None,
        state=[*average.parameters()])


@scene
def inner_steps_that_are_taken_back() -> Scene:
    net, _, _ = _build_pair()
    rate = SimpleNamespace(value=0.5)

    def step(x: Any) -> Any:
        old = {k: v.clone() for k, v in net.state_dict().items()}
        for _ in range(2):
            net.zero_grad()
            net(x).square().mean().backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
        new = net.state_dict()
        net.load_state_dict({k: old[k] + (new[k] - old[k]) * rate.value for k in old})
        return x.mean()

    return Scene(step, lambda: setattr(rate, "value", 0.1), state=[*net.parameters()])


@scene
def weights_that_learn_in_their_hooks() -> Scene:
    net, _, _ = _build_pair()
    optimizers = {p: optim.SGD([p], lr=0.1) for p in net.parameters()}

    def learn(p: Any) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    handles = [p.register_post_accumulate_grad_hook(learn) for p in net.parameters()]

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    return Scene(step, handles[0].remove, state=[*net.parameters()])


@scene
def an_inner_gradient_step() -> Scene:
    net, _, optimizer = _build_pair()
    rate = SimpleNamespace(value=0.1)

    def step(x: Any) -> Any:
        own = dict(net.named_parameters())
        loss = torch.func.functional_call(net, own, (x,)).square().mean()
        grads = torch.autograd.grad(loss, list(own.values()), create_graph=True)
        fast = {k: p - rate.value * g for (k, p), g in zip(own.items(), grads, strict=True)}
        outer = torch.func.functional_call(net, fast, (x,)).square().mean()
        return _descend(net, optimizer, outer)

    return Scene(step, lambda: setattr(rate, "value", 0.5), state=[*net.parameters()])


@scene
def results_that_are_made_later() -> Scene:
    scale = SimpleNamespace(value=2.0)

    def step(x: Any) -> Any:
        y = x * scale.value
        later = functools.partial(torch.mul, y)
        return later(3), (lambda k: y + k)(scale.value), [y * k for k in range(2)]

    return Scene(step, lambda: setattr(scale, "value", 3.0))


@scene
def a_hook_that_removes_itself() -> Scene:
    net, _, _ = _build_pair()
    log: list[int] = []
    handle = SimpleNamespace(value=None)

    def hook(module: Any, inputs: Any, output: Any) -> Any:
        log.append(len(inputs))
        handle.value.remove()
        return output * 2

    def change() -> None:
        handle.value = net.register_forward_hook(hook)

    change()
    return Scene(lambda x: F.relu(net(x)), change, log=log)


@scene
def layers_that_change_places() -> Scene:
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))

    def change() -> None:
        net._modules["0"] = net._modules.pop("0")

    return Scene(lambda x: net(x), change)


@scene
def a_list_of_layers_that_was_empty() -> Scene:
    net, more = nn.Linear(3, 3), nn.Sequential()

    def step(x: Any) -> Any:
        return more(net(x)) if more else net(x)

    return Scene(step, lambda: more.append(nn.ReLU()) and None)


@scene
def weights_that_are_cached_from_now_on() -> Scene:
    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    cache = nn.utils.parametrize.cached()

    def step(x: Any) -> Any:
        y = net(x) + net(x * 2)
        net.parametrizations.weight.original0.data.mul_(0.9)
        return y

    def change() -> Any:
        cache.__enter__()
        return lambda: cache.__exit__(None, None, None)

    return Scene(step, change)
