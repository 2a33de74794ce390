"""Steps whose Python may be skipped, and changes that end that."""

from __future__ import annotations

import argparse
import functools
import os
from dataclasses import dataclass

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.runtime.reachable_state import get_change_counts

from .watched_steps import Config, Net, parts, trainer, watch

STEPS = {"trainer": trainer}


def proved(make):
    """Registers what gives (step, *arguments); `step.change` must make a guard fail."""
    STEPS[make.__name__] = make
    return make


@proved
def method_with_total():
    class Trainer:
        def __init__(self):
            self.model, self.opt, *_ = parts()
            self.total, self.steps, self.last = 0.0, 0, None
            self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)

        def step(self, x, y):
            loss = self.loss(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            self.total += loss.item()
            self.steps += 1
            self.last = loss.detach()
            return loss

    return Trainer().step, torch.randn(4, 8), torch.randint(2, (4,))


@proved
def comprehensions_and_dicts():
    net, opt, x, y = parts()
    weights = {"ce": 1.0, "l2": 0.5}

    def step(x, y):
        logits = net(x)
        decay = sum(p.pow(2).sum() for p in net.parameters())
        losses = {"ce": F.cross_entropy(logits, y), "l2": decay}
        total = sum([weights[k] * v for k, v in losses.items()])
        opt.zero_grad()
        total.backward()
        opt.step()
        return {"loss": total, **losses}

    return step, x, y


@proved
def no_grad_try_finally():
    net, opt, x, y = parts()

    def step(x, y):
        try:
            with torch.no_grad():
                target = net(x).argmax(dim=-1)
            loss = F.cross_entropy(net(x), target)
            loss.backward()
        finally:
            opt.step()
        try:
            {}["missing"]
        except KeyError:
            pass
        return loss

    return step, x, y


@proved
def nested_functions():
    net, opt, x, y = parts()
    config = Config(scale=0.25)

    def clipped(loss, limit=10.0, *rest, **options):
        def inner(v):
            return v.clamp(max=limit) * config.scale

        return inner(loss) if config.clip is not None else loss

    def step(x, y):
        a, b = x.chunk(2)
        loss = clipped(F.cross_entropy(net(torch.cat([a, b])), y), key=3)
        loss.backward()
        for group in opt.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.mul_(0.5)
        opt.step()
        return loss, max(1, 2), min([3, 4])

    return step, x, y


@proved
def namespace_is_guarded():
    net, opt, x, y = parts()
    args = argparse.Namespace(smooth=0.1)

    def step(x, y):
        return F.cross_entropy(net(x), y, label_smoothing=args.smooth)

    step.change = lambda: setattr(args, "smooth", 0.2)
    return step, x, y


@proved
def containers_are_guarded():
    net, opt, x, y = parts()
    table, chosen, allowed = {"a": [1.0, 2.0]}, {3, 4}, ["x"]

    def step(x, y):
        factor = table["a"][1] if 3 in chosen and "x" in allowed else 0.0
        return net(x).sum() * factor

    step.change = lambda: table["a"].__setitem__(1, 3.0)
    return step, x, y


@proved
def set_is_guarded():
    _, _, x, y = parts()
    chosen = {3, 4}

    def step(x, y):
        return x * 2 if 3 in chosen else x

    step.change = lambda: chosen.discard(3)
    return step, x, y


@proved
def small_array_is_guarded():
    _, _, x, y = parts()
    weights = np.array([1.0, 2.0])

    def step(x, y):
        return x * float(weights[1])

    step.change = lambda: weights.__setitem__(1, 5.0)
    return step, x, y


@proved
def patched_method_is_guarded():
    net, _, x, y = parts()

    def step(x, y):
        return net(x)

    step.change = lambda: setattr(Net, "forward", lambda self, x: x)
    step.back = functools.partial(setattr, Net, "forward", Net.forward)
    return step, x, y


@proved
def another_class_is_guarded():
    net, _, x, y = parts()

    class Other(Net):
        pass

    def step(x, y):
        return net(x)

    step.change = lambda: setattr(net, "__class__", Other)
    return step, x, y


@proved
def training_mode_is_guarded():
    net, _, x, y = parts()

    def step(x, y):
        return net(x)

    step.change = lambda: net.eval()
    return step, x, y


@proved
def frozen_parameters_are_guarded():
    net, _, x, y = parts()

    def step(x, y):
        return sum((p.sum() for p in net.parameters() if p.requires_grad), torch.zeros(()))

    step.change = lambda: net.head[0].weight.requires_grad_(False)
    return step, x, y


class Money:
    def __init__(self, amount):
        self.amount = amount

    def __add__(self, other):
        return self.amount + other.amount


class Base:
    def rate(self):
        return 2.0


class Derived(Base):
    def rate(self):
        return super().rate() + 1.0


@proved
def operator_of_a_class_is_guarded():
    _, _, x, y = parts()

    def step(x, y):
        return x * (Money(1.0) + Money(2.0))

    step.back = functools.partial(setattr, Money, "__add__", Money.__add__)
    step.change = lambda: setattr(Money, "__add__", lambda self, other: 5.0)
    return step, x, y


@proved
def super_is_guarded():
    _, _, x, y = parts()
    derived = Derived()

    def step(x, y):
        return x * derived.rate()

    step.back = functools.partial(setattr, Base, "rate", Base.rate)
    step.change = lambda: setattr(Base, "rate", lambda self: 5.0)
    return step, x, y


@proved
def hook_is_guarded():
    net, _, x, y = parts()

    def step(x, y):
        return net(x)

    step.change = lambda: net.layers[1].register_forward_hook(lambda *a: None)
    return step, x, y


@proved
def property_is_watched():
    _, _, x, y = parts()

    class Holder:
        def __init__(self):
            self._rate = 2.0

        @property
        def rate(self):
            return self._rate * 2

    holder = Holder()

    def step(x, y):
        return x * holder.rate

    step.change = lambda: setattr(holder, "_rate", 3.0)
    return step, x, y


@proved
def getattr_is_watched():
    _, _, x, y = parts()

    class Options:
        def __init__(self):
            self.values = {"rate": 2.0}

        def __getattr__(self, name):
            return self.__dict__["values"][name]

    options = Options()

    def step(x, y):
        return x * options.rate

    step.change = lambda: options.values.__setitem__("rate", 3.0)
    return step, x, y


@proved
def environ_is_guarded():
    _, _, x, y = parts()
    os.environ["FACTOR"] = "2"

    def step(x, y):
        return x * int(os.environ.get("FACTOR", "1"))

    step.change = lambda: os.environ.__setitem__("FACTOR", "3")
    return step, x, y


@proved
def monkey_patched_function_is_guarded():
    _, _, x, y = parts()

    def step(x, y):
        return F.relu(x)

    step.change = lambda: setattr(F, "relu", lambda x: x)
    step.back = functools.partial(setattr, F, "relu", F.relu)
    return step, x, y


@proved
def result_dataclass():
    net, opt, x, y = parts()

    def step(x, y):
        out = Output(net(x), None)
        out.loss = F.cross_entropy(out.logits, y)
        out.loss.backward()
        opt.step()
        return out

    return step, x, y


@dataclass
class Output:
    logits: object
    loss: object


@proved
def decorators_and_stars():
    net, opt, x, y = parts()

    def shout(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs)

        return inner

    @shout
    def compute(x, y, *, smooth=0.0):
        return F.cross_entropy(net(x), y, label_smoothing=smooth)

    options = {"smooth": 0.1}

    def step(x, y):
        return compute(x, y, **options)

    step.change = lambda: options.__setitem__("smooth", 0.3)
    return step, x, y


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_proved_until_it_changes(name):
    step, *args = STEPS[name]()
    step(*args)
    proof, mismatches = watch(step, *args)
    assert proof.holds, proof.refusals
    assert mismatches == 0
    assert proof.first_failing(args) is None
    if hasattr(step, "change"):
        before = get_change_counts()
        step.change()
        failing = proof.first_failing(args)
        getattr(step, "back", bool)()
        assert failing is not None or get_change_counts() != before  # of modules and hooks
