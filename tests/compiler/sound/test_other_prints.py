"""Prints that keep a step's Python, and what changes around those that do not."""

from __future__ import annotations

import builtins
import functools
import io
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .print_scenes import WAYS, observe
from .scenario import assert_same
from .test_prints import a_nested_width, an_f_string, stores_after_it

CHANGED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


def changed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A scene in which something changes before the seventh call."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        CHANGED[function.__name__] = function, change
        return function

    return register


def _print_loss(r):
    def step(x):
        r.st["i"] += 1
        loss = r.train(x)
        if r.st["i"] % 2 == 0:
            print(f"{r.st['i']} {loss.item():.3f}")
        return loss
    return step


def _scene(name: str, change: Callable[[Any], Any], make: Callable[[Any], Any] = _print_loss):
    CHANGED[name] = make, change


class Stream:
    """A stream of the step's own, which notes what the step has done when it prints."""

    def __init__(self, r):
        self.r = r

    def write(self, text):
        self.r.log += [text[:2], self.r.net[0].bias.sum().item(), dict(self.r.st)]
        self.r.st["seen"] = self.r.st.get("seen", 0) + 1
        return len(text)

    def flush(self):
        self.r.log.append("flush")


class Shown:
    """An object that shows itself in a way of its own."""

    def __init__(self, r):
        self.r = r

    def __format__(self, spec):
        self.r.log.append(spec)
        return f"<{spec}>"

    def __str__(self):
        self.r.log.append("str")
        return "shown"


def _replace_print(r):
    original = builtins.print
    builtins.print = lambda *args, **named: r.log.append([str(x)[:3] for x in args])

    def undo():
        builtins.print = original
    return undo


def _break_stream(r):
    r.out.write = lambda text: r.log.append(text[:2])


def _make_ascii(r):
    sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")


_scene("print is replaced", _replace_print)
_scene("stdout is a stream of its own", lambda r: setattr(sys, "stdout", Stream(r)))
_scene("stdout is another text", lambda r: setattr(sys, "stdout", r.other))
_scene("stdout is None", lambda r: setattr(sys, "stdout", None))
_scene("stdout is closed", lambda r: r.out.close())
_scene("stdout gets a write of its own", _break_stream)
_scene("the count becomes a float", lambda r: r.st.update(i=4.0))
_scene("the count becomes a bool", lambda r: r.st.update(i=True))
_scene("the count starts again", lambda r: r.st.update(i=0))
_scene("the count becomes large", lambda r: r.st.update(i=10**30))
_scene("the model has another dtype", lambda r: r.net.double().float() and None)
_scene("the loss is NaN", lambda r: r.net[0].bias.data.fill_(torch.nan))


@changed(lambda r: r.st.update(name="error"))
def its_text_changes(r):
    return an_f_string(r)


@changed(lambda r: r.st.update(width="x"))
def its_format_is_wrong(r):
    return a_nested_width(r)


@changed(lambda r: r.out.close())
def stores_around_a_print_that_raises(r):
    return stores_after_it(r)


@changed(lambda r: r.other.close())
def another_stream_is_closed(r):
    def step(x):
        loss = r.train(x)
        r.st["n"] += 1
        print("first")
        r.log.append(r.call)
        print(loss.item(), file=r.other)
        r.st["i"] += 1
        return loss
    return step


@changed(_make_ascii)
def a_text_that_cannot_be_encoded(r):
    def step(x):
        loss = r.train(x)
        print(f"\u00e9 {loss.item():.3f}")
        r.st["n"] += 1
        return loss
    return step


@changed(lambda r: r.out.close())
def a_print_within_try(r):
    def step(x):
        loss = r.train(x)
        try:
            print(loss.item())
        except ValueError:
            r.log.append("closed")
        return loss
    return step


@changed(lambda r: r.out.close())
def a_caller_that_tries(r):
    def show(loss):
        print(loss.item())

    def step(x):
        loss = r.train(x)
        try:
            show(loss)
        finally:
            r.st["n"] += 1
        return loss
    return step


@changed(lambda r: r.out.close())
def a_print_within_no_grad(r):
    def step(x):
        loss = r.train(x)
        with torch.no_grad():
            print(loss.item())
        return loss
    return step


@changed(lambda r: r.out.close())
def a_print_before_the_update(r):
    def step(x):
        r.opt.zero_grad()
        loss = r.net(x).pow(2).mean()
        print(loss.item())
        loss.backward()
        r.opt.step()
        return loss
    return step


@changed(lambda r: r.out.close())
def a_print_before_zero_grad(r):
    def step(x):
        loss = r.net(x).pow(2).mean()
        loss.backward()
        r.opt.step()
        print(loss.item())
        r.opt.zero_grad()
        r.log.append(r.call)
        return loss
    return step


@changed(lambda r: r.out.close())
def a_print_before_a_draw(r):
    def step(x):
        loss = r.train(x)
        print(loss.item())
        return torch.rand(3)
    return step


@changed(lambda r: r.out.close())
def a_print_before_a_write(r):
    counter = torch.zeros(2)

    def step(x):
        loss = r.train(x)
        print(loss.item())
        counter.add_(1)
        return counter.clone()
    return step


@changed(lambda r: r.out.close())
def a_print_between_writes_of_a_place(r):
    def step(x):
        loss = r.train(x)
        r.st["n"] = 1
        r.log.append(r.call)
        print(loss.item())
        r.st["n"] = 2
        r.log.append(-r.call)
        return loss
    return step


@changed(lambda r: r.out.close())
def a_print_before_a_scheduler(r):
    scheduler = torch.optim.lr_scheduler.StepLR(r.opt, 2, 0.5)

    def step(x):
        loss = r.train(x)
        print(loss.item())
        scheduler.step()
        return loss
    return step


@changed(lambda r: None)
def the_rate_before_a_scheduler(r):
    scheduler = torch.optim.lr_scheduler.StepLR(r.opt, 2, 0.5)

    def step(x):
        loss = r.train(x)
        rate = r.opt.param_groups[0]["lr"]
        scheduler.step()
        print(rate, loss.item())
        return loss
    return step


@changed(lambda r: r.out.close())
def a_print_in_forward(r):
    class Noisy(nn.Module):
        def forward(self, x):
            y = x * 2
            print(y.sum().item())
            return y

    noisy = Noisy()
    return lambda x: (noisy(x), r.log.append(r.call))[0]


@changed(lambda r: r.log.clear())
def objects_of_its_own(r):
    shown = Shown(r)

    def step(x):
        loss = r.train(x)
        print(shown, f"{shown:>3}", "%s" % shown, str(shown), loss.item())  # noqa: UP031
        return loss
    return step


@changed(lambda r: r.st.update(i=20))
def other_objects(r):
    def step(x):
        r.st["i"] += 1
        loss = r.train(x)
        print(loss, (1, r.st["i"]), [loss.item()], {"a": 1}, x.shape, x.dtype, r.st["i"] > 5)
        print(f"{loss:.3f} {r.st['i'] > 5} {x.shape}")
        return loss
    return step


@changed(lambda r: r.st.update(i=20))
def stars(r):
    r.named = {"end": "-", "sep": "+"}

    def step(x):
        loss = r.train(x)
        r.st["i"] += 1
        print(*["a", loss.item()])
        print("a", **r.named)
        print(*(r.st["i"], "b"), **r.named)
        return loss
    return step


@changed(lambda r: r.st.update(i=20))
def other_names_of_print(r):
    report, partial = print, functools.partial(print, "partial", end="|")

    def step(x):
        loss = r.train(x)
        report(loss.item())
        partial(loss.item())
        list(map(print, [1, 2]))
        return loss
    return step


@changed(lambda r: r.st.update(i=20))
def integers_that_may_be_floats(r):
    def step(x):
        loss = r.train(x).item()
        r.st["i"] += 1
        print(f"{max(1, loss) * 1:.3f}", "%d" % min(loss, 2.0))  # noqa: UP031
        return loss
    return step


@changed(lambda r: r.net[2].bias.data.fill_(torch.nan))
def integers_of_what_becomes_nan(r):
    def step(x):
        loss = r.train(x).item()
        r.st["n"] += 1
        print("%d" % loss)  # noqa: UP031
        return loss
    return step


@changed(lambda r: r.st.update(i=20))
def texts_used_otherwise(r):
    names = {"layer8": 2.0, "layer9": 3.0}

    def step(x):
        r.st["i"] += 1
        text = f"layer{r.st['i']}"
        loss = r.train(x * names.get(text, 1.0) + (2.0 if text == "layer5" else 0.0) + len(text))
        r.log.append(text)
        r.log.append(f"{loss.item():.2f}"[:1])
        print(text, text.startswith("layer1"), text[-1], text in names, text * 2)
        return loss * len(f"{r.st['i']}")
    return step


@changed(lambda r: r.st.update(i=20))
def texts_returned_and_stored(r):
    def step(x):
        r.st["i"] += 1
        r.train(x)
        r.st["text"] = f"{r.st['i']} done"
        print(r.st["text"])
        return f"{r.st['i']}", "%d" % r.st["i"], str(r.st["i"])  # noqa: UP031
    return step


@changed(lambda r: r.st.update(i=20))
def a_text_in_a_key(r):
    def step(x):
        r.st["i"] += 1
        r.train(x)
        r.st[f"at {r.st['i'] % 3}"] = r.call
        print(r.st["i"])
    return step


@changed(lambda r: setattr(sys, "stdout", Stream(r)))
def what_its_stream_changes(r):
    def step(x):
        loss = r.train(x)
        print(loss.item())
        return loss.detach() * r.st.get("seen", 1)
    return step


@changed(lambda r: None)
def a_generator_that_prints(r):
    def show(loss):
        yield 1
        print(loss.item())
        yield 2

    def step(x):
        loss = r.train(x)
        return loss, list(show(loss))
    return step


@changed(lambda r: None)
def a_running_total(r):
    def step(x):
        loss = r.train(x)
        r.st["n"] += loss.item()
        r.st["i"] += 1
        if r.st["i"] % 3 == 0:
            print(f"[{r.st['i']}] {r.st['n'] / 3:.3f}")
            r.st["n"] = 0.0
        return loss
    return step


@changed(lambda r: setattr(r.settings, "every", 2))
def settings_of_an_object(r):
    r.settings = types.SimpleNamespace(every=3, step=0)

    def step(x):
        r.settings.step += 1
        loss = F.mse_loss(r.net(x), x[:, :1])
        if r.settings.step % r.settings.every == 0:
            print(f"{r.settings.step}/{r.settings.every}: {loss.item():.3f}")
        return loss.detach()
    return step


@pytest.mark.parametrize("scene", list(CHANGED))
@pytest.mark.parametrize("way", list(WAYS))
def test_other_prints(scene, way):
    make, change = CHANGED[scene]
    eager, _ = observe(make, None, change)
    actual, _ = observe(make, way, change)
    assert_same(actual, eager, scene)
