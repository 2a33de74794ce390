"""Code from exec() whose globals name no module: the library calls it, but did not write it."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn

from .scenario import CHANGES, MODES, Scene, compare

HOOKS = {
    "step": "optimizer.register_step_post_hook(lambda *a: log.append('stepped'))",
    "forward": "net.register_forward_hook(lambda m, i, o: log.append(len(o)))",
    "forward that computes": "net.register_forward_hook(lambda m, i, o: o * factor[0])",
    "grad": "net.weight.register_hook(lambda g: log.append(tuple(g.shape)))",
    "key": "table.update(order=lambda pair: log.append(pair) or -pair)",
}
FILES = ("<string>", "<stdin>", "<ipython-input-1>", "hooks.py")


def _make(hook: str, file: str) -> Scene:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    space = {"net": net, "optimizer": optimizer, "log": [], "factor": [0.5],
             "table": {"order": abs}}

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean() * max(1, 2, key=space["table"]["order"])
        loss.backward()
        optimizer.step()
        return loss.detach()

    def change():
        exec(compile(HOOKS[hook], file, "exec"), space)

    return Scene(step, change, state=[net.weight, net.bias], log=space["log"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_from_exec(hook, file, mode):
    for change_at in CHANGES[:2]:
        compare(lambda: _make(hook, file), mode, change_at)
