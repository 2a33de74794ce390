"""What optimizers count, how often tensors are written, and settings that a step leaves behind."""

from __future__ import annotations

import pytest

import flambeau as torch

from .scenario import Scene, compare
from .state_scenes import MOSTLY_SLOW

SCENES = {}


def scene(make):
    """Registers what makes a scene."""
    SCENES[make.__name__.replace("_", " ")] = make
    return make


def adam(change):
    """A scene of two parameters that Adam trains; `change(optimizer, first, second)`."""

    def make():
        first, second = (torch.nn.Parameter(torch.ones(3) * k) for k in (1.0, 2.0))
        optimizer = torch.optim.Adam([first, second], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (x * first * second).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Scene(step, lambda: change(optimizer, first, second), state=[first, second])

    SCENES[change.__name__.replace("_", " ")] = make
    return change


@adam
def another_count_of_one_parameter(optimizer, first, second):
    optimizer.state[second]["step"].fill_(1.0)


@adam
def another_count_of_the_first_parameter(optimizer, first, second):
    optimizer.state[first]["step"].fill_(1.0)


@adam
def another_memory_of_an_average(optimizer, first, second):
    optimizer.state[first]["exp_avg"].data = torch.ones(3)


@adam
def another_memory_of_a_count(optimizer, first, second):
    optimizer.state[first]["step"].data = torch.tensor(2.0)


@adam
def an_equal_count_that_is_another_tensor(optimizer, first, second):
    optimizer.state[second]["step"] = optimizer.state[second]["step"].clone()


@scene
def two_optimizers_with_one_state():
    weights = [torch.nn.Parameter(torch.ones(3) * k) for k in range(4)]
    optimizers = [torch.optim.Adam(weights[:2], lr=0.1), torch.optim.Adam(weights[2:], lr=0.1)]

    def train(x, optimizer, a, b):
        optimizer.zero_grad()
        loss = (x * a - b).square().mean()
        loss.backward()
        optimizer.step()

    other = torch.compile(lambda x: train(x, optimizers[1], *weights[2:]), mode="now")

    def change():
        optimizers[1].load_state_dict(optimizers[0].state_dict())  # which shares the tensors
        for _ in range(4):
            other(torch.ones(3))

    return Scene(lambda x: train(x, optimizers[0], *weights[:2]), change, state=weights)


@scene
def how_often_followed_calls_write():
    weight, other = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizers = [torch.optim.AdamW([weight, other], lr=0.1), torch.optim.Adam([weight, other])]
    calls, log = [0], []

    def step(x):
        optimizer = optimizers[calls[0] % 2]
        calls[0] += 1
        optimizer.zero_grad()
        loss = (x * weight * weight + other).square().mean()
        loss.backward()
        log.append((weight.grad._version, other.grad._version))
        optimizer.step()
        log.append([t._version for o in optimizers for s in o.state.values() for t in s.values()])

    return Scene(step, state=[weight, other], log=log)


@scene
def how_often_counts_and_averages_are_written():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    log = []

    def step(x):
        optimizer.zero_grad()
        (x * weight).sum().backward()
        optimizer.step()

    def arguments():
        log.append([t._version for t in optimizer.state[weight].values()] if log else [])
        return (torch.ones(3),)

    return Scene(step, arguments=arguments, state=[weight], log=log)


@scene
def how_often_gradients_are_written():
    weight = torch.nn.Parameter(torch.ones(3))
    log = []

    def step(x):
        weight.grad = None
        loss = (x * weight).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        return loss.detach()

    def arguments():
        log.append(0 if weight.grad is None else weight.grad._version)
        if weight.grad is not None:
            weight.grad.add_(1)
        return (torch.ones(3),)

    return Scene(step, arguments=arguments, state=[weight], log=log)


@scene
def a_grad_mode_that_is_left_behind():
    config = {"tracks": False}
    log = []

    def step(x):
        torch.set_grad_enabled(config["tracks"])
        return x * 2

    def arguments():
        log.append(torch.is_grad_enabled())
        torch.set_grad_enabled(True)
        return (torch.ones(3),)

    def change():
        config["tracks"] = True
        return lambda: torch.set_grad_enabled(True) and None

    return Scene(step, change, arguments, log=log)


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_is_counted(name, mode, change_at):
    compare(SCENES[name], mode, change_at)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_versions_of_counters_that_a_step_advances_several_times(times):
    """Two updates of one call may count in different ways; each counts as a write."""
    def run(compiled):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(4)) for _ in range(2)]
        optimizer = torch.optim.Adam(params, lr=0.05)

        def step(x):
            for _ in range(times):
                optimizer.zero_grad()
                (params[0] * x + params[1]).pow(2).sum().backward()
                optimizer.step()

        take = torch.compile(step, mode="now", backend="evaluate") if compiled else step
        seen = []
        for _ in range(6):
            take(torch.ones(4))
            seen.append([(x._version, name) for p in params
                         for name, x in optimizer.state[p].items()])
        return seen

    assert run(compiled=True) == run(compiled=False)
