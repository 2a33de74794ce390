"""Ambient settings, hooks and flags that change before, while and after a program is built."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn

from .scenario import CHANGES, MODES, Scene, compare


def training(change, optimizer=torch.optim.SGD, **options):
    """A scene that trains a small net; `change(net, optimizer, log)` is what happens to it."""

    def make():
        # No bias before batch norm: its gradient is noise, which Adam would blow up.
        layers = nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)
        net = nn.Sequential(*layers)
        optim = optimizer(net.parameters(), lr=0.05, **options)
        log = []

        def step(x):
            optim.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optim.step()
            return loss

        state = [*net.parameters(), *net.buffers()]
        return Scene(step, lambda: change(net, optim, log), state=state, log=log)

    return make


def ambient(enter, leave):
    """A scene whose step makes tensors without naming dtype or device."""

    def make():
        def change():
            enter()
            return leave

        def step(x):
            y = torch.zeros(2) + 1.5
            return y if y.device.type == "meta" else (y, torch.tensor([0.5]) * 2)

        return Scene(step, change)

    return make


class _Device:
    """`with torch.device(...)` as two functions."""

    def __init__(self, name):
        self.device = torch.device(name)

    def enter(self):
        self.device.__enter__()

    def leave(self):
        self.device.__exit__(None, None, None)


def _log_hook(log, name):
    return lambda *args: log.append(name)


SCENES = {
    "momentum of batch norm": training(lambda n, o, g: setattr(n[1], "momentum", 0.5)),
    "frozen parameter": training(lambda n, o, g: n[0].weight.requires_grad_(False)),
    "eval mode": training(lambda n, o, g: n.eval()),
    "eval of one module": training(lambda n, o, g: n[1].eval()),
    "learning rate": training(lambda n, o, g: o.param_groups[0].update(lr=0.2)),
    "weight decay": training(lambda n, o, g: o.param_groups[0].update(weight_decay=0.1)),
    "new data": training(lambda n, o, g: setattr(n[0].weight, "data", torch.ones(4, 3))),
    "new parameter": training(
        lambda n, o, g: setattr(n[3], "bias", nn.Parameter(torch.ones(1)))),
    "replaced module": training(lambda n, o, g: n.__setitem__(2, nn.ReLU())),
    "forward hook": training(
        lambda n, o, g: n[0].register_forward_hook(lambda m, i, y: y * 2).remove),
    "forward pre-hook": training(
        lambda n, o, g: n[0].register_forward_pre_hook(lambda m, i: (i[0] * 2,)).remove),
    "logging forward hook": training(
        lambda n, o, g: n[0].register_forward_hook(_log_hook(g, "forward")).remove),
    "backward hook": training(
        lambda n, o, g: n[3].register_full_backward_hook(_log_hook(g, "backward")).remove),
    "tensor hook": training(
        lambda n, o, g: n[0].weight.register_hook(lambda grad: grad * 2).remove),
    "logging tensor hook": training(
        lambda n, o, g: n[0].weight.register_hook(_log_hook(g, "grad")).remove),
    "accumulated-grad hook": training(
        lambda n, o, g: n[0].weight.register_post_accumulate_grad_hook(
            _log_hook(g, "accumulated")).remove),
    "optimizer pre-hook": training(
        lambda n, o, g: o.register_step_pre_hook(_log_hook(g, "pre")).remove),
    "optimizer post-hook": training(
        lambda n, o, g: o.register_step_post_hook(_log_hook(g, "post")).remove),
    "optimizer hook that writes": training(
        lambda n, o, g: o.register_step_post_hook(
            lambda *a: [p.data.mul_(0.9) for p in n.parameters()] and None).remove),
    "global module hook": training(
        lambda n, o, g: nn.modules.module.register_module_forward_hook(
            _log_hook(g, "global")).remove),
    "global optimizer hook": training(
        lambda n, o, g: torch.optim.optimizer.register_optimizer_step_post_hook(
            _log_hook(g, "global")).remove),
    "Adam's betas": training(
        lambda n, o, g: o.param_groups[0].update(betas=(0.5, 0.9)), torch.optim.Adam),
    "default dtype": ambient(
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32)),
    "default device": ambient(
        lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)),
    "device context": ambient(_Device("meta").enter, _Device("meta").leave),
}


@pytest.mark.parametrize("change_at", CHANGES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SCENES)
def test_a_compiled_step_does_what_its_python_does(name, mode, change_at):
    compare(SCENES[name], mode, change_at)
