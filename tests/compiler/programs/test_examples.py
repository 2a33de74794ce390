"""The training steps of the examples, eager against compiled: the same losses, step after step."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.command import torch_alias

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FIRST, FIRST_BOUND, BOUND = 10, 1e-4, 1e-2


@pytest.fixture
def example(monkeypatch):
    """Imports an example, for which `torch` is flambeau."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules)
              if name == "torch" or name.startswith("torch.")}
    finders = list(sys.meta_path)
    torch_alias.install()
    try:
        yield importlib.import_module
    finally:
        sys.meta_path[:] = finders
        torch_alias._take_torch_names("flambeau")
        for name in set(sys.modules) - before:
            origin = getattr(sys.modules[name], "__file__", None) or ""
            if name.split(".")[0] == "torch" or origin.startswith(str(EXAMPLES)):
                del sys.modules[name]
        sys.modules.update(hidden)


def digits(seed: int, count: int = 8) -> tuple:
    torch.manual_seed(seed)
    return torch.randn(count, 1, 28, 28), torch.randint(0, 10, (count,))


def mlp(module) -> tuple:
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    step = module.training_step(net, nn.CrossEntropyLoss(), optimizer)
    return lambda wrapped: lambda i: (wrapped or step)(*digits(i % 5)), step


def mnist(module) -> tuple:
    net = module.Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    step = module.training_step(net, optimizer)
    return lambda wrapped: lambda i: (wrapped or step)(*digits(i % 20, 2)), step


def lstm(module) -> tuple:
    writer = module.Writer(17, width=24)
    optimizer = torch.optim.RMSprop(writer.parameters(), lr=2e-3)
    step = module.training_step(writer, nn.CrossEntropyLoss(), optimizer)
    torch.manual_seed(3)
    batches = list(module.passages(torch.randint(0, 17, (400,)), 4, 9))

    def driven(wrapped):
        states = [None]

        def run(i):
            loss, states[0] = (wrapped or step)(*batches[i % len(batches)], states[0])
            return loss

        return run

    return driven, step


def char_gpt(module) -> tuple:
    model = module.GPT(17, context=12, layers=2, width=16, heads=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99))
    step = module.training_step(model, optimizer)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.1 * n))

    def driven(wrapped):
        def run(i):
            torch.manual_seed(i % 4)
            codes = torch.randint(0, 17, (3, 13))
            loss = (wrapped or step)(codes[:, :-1], codes[:, 1:])
            scheduler.step()
            return loss

        return run

    return driven, step


def autograd_tour(module) -> tuple:
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    step = module.training_step(net, optimizer)
    times = torch.linspace(0, math.pi, 32).unsqueeze(1).requires_grad_()
    return lambda wrapped: lambda i: (wrapped or step)(times), step


MAKERS = {"mlp": mlp, "mnist": mnist, "lstm": lstm, "char_gpt": char_gpt,
          "autograd_tour": autograd_tour}


@pytest.mark.parametrize("name", MAKERS)
def test_the_losses_are_the_same(example, name):
    module = example(name)
    curves, served = [], 0
    for compiled in (False, True):
        torch.manual_seed(0)
        driven, step = MAKERS[name](module)
        fast = torch.compile(step, mode="now", fullgraph=True) if compiled else None
        run = driven(fast)
        losses = []
        for i in range(50):
            torch.manual_seed(100 + i)  # for dropout
            losses.append(run(i).item())
        curves.append(losses)
        served = sum(p.calls for p in fast._programs) if compiled else 0
    small = abs(curves[0][0]) / 100  # what is learnt by heart is not compared to the last digit
    apart = [abs(a - b) / max(abs(a), small) for a, b in zip(*curves, strict=True)]
    assert served >= 40, "the program was hardly used"
    assert max(apart[:FIRST]) <= FIRST_BOUND
    assert max(apart) <= BOUND
