"""A step that prints numbers and text is proved: its program prints, what and where eager would."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import assert_same, freeze, wait_for_program

CALLS = 13
WAYS = {"now": {"mode": "now"}, "followed": {"mode": "now", "follow": True}, "background": {}}
PROVED: dict[str, Callable[[Any], Any]] = {}
CHANGED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


class Run:
    """The objects of one run: a model, its optimizer, numbers around the step, and its output."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.st: dict[str, Any] = {"i": 0, "rate": 0.5, "name": "loss", "width": 8, "n": 0}
        self.count = itertools.count(5)
        self.log: list[Any] = []
        self.out = io.StringIO()
        self.other: Any = io.StringIO()
        self.epoch = 1
        self.before: Callable[[], Any] = lambda: None  # runs before each call

    def train(self, x: Any) -> Any:
        self.opt.zero_grad()
        loss = self.net(x).pow(2).mean()
        loss.backward()
        self.opt.step()
        return loss


def proved(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A scene whose steps are skipped although they print."""
    PROVED[function.__name__] = function
    return function


def changed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A scene in which something changes before the seventh call."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        CHANGED[function.__name__] = function, change
        return function

    return register


def observe(make: Callable[[Any], Any], way: str | None,
            change: Callable[[Any], Any] = lambda r: None) -> tuple[list[Any], str]:
    """What a run shows, and how its calls ran."""
    r = Run()
    step = make(r)
    if way is not None:
        step = torch.compile(step, options=WAYS[way], backend="evaluate")
    seen: list[Any] = []
    undo = None
    with contextlib.redirect_stdout(r.out):
        for call in range(CALLS):
            if way == "background" and call in (6, 10):
                wait_for_program(step)
            if call == 7:
                undo = change(r)
            r.before()
            try:
                r.call = call
                seen.append(freeze(step(torch.randn(2, 3) + 1)))
            except Exception as error:
                seen.append([type(error).__name__, str(error)])
            seen.append([(*freeze(p), p._version) for p in r.net.parameters()])
        if callable(undo):
            undo()
    how = "" if way is None else step.explain()
    for stream in (r.out, r.other):
        if isinstance(stream, io.StringIO) and not stream.closed:
            seen.append(read_text(stream.getvalue()))
    return [*seen, freeze(r.log), freeze(r.st), repr(r.count), r.epoch], how


def read_text(text: str) -> list[Any]:
    """The lines of a text, as words and numbers."""
    lines = []
    for line in text.split("\n"):
        words: list[Any] = []
        for word in line.split(" "):
            try:
                words.append(float(word) if "." in word or "nan" in word else word)
            except ValueError:
                words.append(word)
        lines.append(words)
    return lines


# ------------------------------------------------------------------------------------ proved


@proved
def a_number(r):
    def step(x):
        loss = r.train(x)
        print(loss.item())
        return loss
    return step


@proved
def every_third_step(r):
    def step(x):
        r.st["i"] += 1
        loss = r.train(x)
        if r.st["i"] % 3 == 0:
            print(r.st["i"], loss.item())
        return loss
    return step


@proved
def an_f_string(r):
    def step(x):
        r.st["i"] += 1
        loss = r.train(x)
        print(f"{r.st['i']:>5d} {r.st['name']} {loss.item():.3f} {loss.item()!r}",
              f"{r.st['i'] + 1!s:>4}")
        return loss
    return step


@proved
def a_nested_width(r):
    def step(x):
        loss = r.train(x)
        print(f"at {loss.item():{r.st['width']}.2f} {'name'!r:>8}")
        return loss
    return step


@proved
def percent_and_format(r):
    def step(x):
        loss = r.train(x).item()
        print("loss %.3f of %s" % (loss, r.st["name"]))  # noqa: UP031
        print("loss %.3f" % loss)  # noqa: UP031
        print("{0:.2f} and {1} and {0:.1f}".format(loss, r.st["name"]))
        return loss
    return step


@proved
def joined_texts(r):
    def step(x):
        loss = r.train(x)
        text = "loss " + str(loss.item())
        text += " " + format(loss.item(), ".2f")
        print(text)
        return loss.detach()
    return step


@proved
def settings(r):
    def step(x):
        loss = r.train(x)
        print("a", loss.item(), sep=" ; ", end=" !\n", flush=True, file=None)
        print("b", 1, True, None, 2.5, file=sys.stdout)
        print()
        return loss
    return step


@proved
def another_stream(r):
    def step(x):
        loss = r.train(x)
        print("here", loss.item(), file=r.other)
        return loss
    return step


@proved
def a_function_that_prints(r):
    def show(number, value):
        print(f"step {number}", end=" ")
        print(value)

    def step(x):
        r.st["i"] += 1
        loss = r.train(x)
        show(r.st["i"], value=round(loss.item(), 4))
        return loss
    return step


@proved
def counts(r):
    def step(x):
        i = next(r.count)
        loss = r.train(x)
        if i % 4 == 1:
            print(f"call {i}: {loss.item():.4f}", i * 2 - 1)
        return loss
    return step


@proved
def stores_after_it(r):
    def step(x):
        loss = r.train(x)
        r.log.append(loss.item())
        print("loss", loss.item())
        r.st["n"] += 1
        r.st["last"] = loss.item()
        return loss.item()
    return step


@proved
def arithmetic(r):
    def step(x):
        loss = r.train(x).item()
        print(f"{min(loss, 0.5):.3f} {abs(loss - 1):.3f} {100 * loss / 7:.1f} {max(loss, 9.0)}")
        return loss
    return step


@proved
def numbers_from_outside(r):
    def step(x):
        loss = r.train(x)
        print("rate", r.st["rate"], "epoch", r.epoch, f"{r.st['rate']:.3f}", -r.epoch)
        return loss

    def advance():
        r.st["rate"] *= 0.5
        r.epoch += 1

    r.before = advance
    return step


@proved
def what_may_be_nan(r):
    def step(x):
        loss = r.train(x * torch.inf if r.call < 0 else x)
        print(f"{(loss - loss.detach()).log().item():.3f} {loss.log().item():e}")
        return loss
    return step


@proved
def operators_after_it(r):
    def step(x):
        loss = r.train(x)
        print(f"{loss.item():.3f}")
        return (loss.detach() * 2).item()
    return step


@pytest.mark.parametrize("scene", list(PROVED))
@pytest.mark.parametrize("way", list(WAYS))
def test_proved_prints(scene, way):
    eager, _ = observe(PROVED[scene], None)
    actual, how = observe(PROVED[scene], way)
    assert_same(actual, eager, scene)
    assert "is followed" not in how, how
    assert "eager" not in how, how


def test_numbers_that_change_share_a_program():
    """A number from outside that is only printed is read anew in each call."""
    r = Run()
    step = torch.compile(every_third_step(r), mode="now", backend="evaluate")
    with contextlib.redirect_stdout(r.out):
        for _ in range(24):
            step(torch.ones(2, 3))
    assert len(step._programs) == 2
    assert step._programs[0].calls > step._programs[1].calls  # whose guards cost no other call time
    assert [line.split(" ")[0] for line in r.out.getvalue().splitlines()] == [
        str(k) for k in range(3, 25, 3)]


def test_arguments_that_change_share_a_program():
    r = Run()

    def take(x, i, rate):
        loss = r.train(x)
        if i % 2 == 0:
            print(f"{i} {rate} {loss.item():.3f}")
        return loss

    step = torch.compile(take, mode="now", backend="evaluate")
    with contextlib.redirect_stdout(r.out):
        for i in range(16):
            step(torch.ones(2, 3), i, 0.5 / (i + 1))
    assert len(step._programs) == 2
    assert [line.split(" ")[:2] for line in r.out.getvalue().splitlines()] == [
        [str(i), str(0.5 / (i + 1))] for i in range(0, 16, 2)]


# ------------------------------------------------------------- whatever is not proved, or changes


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


def test_an_error_names_the_line_of_the_print():
    r = Run()
    step = torch.compile(stores_after_it(r), mode="now", backend="evaluate")
    with contextlib.redirect_stdout(r.out):
        for _ in range(4):
            step(torch.ones(2, 3))
        assert step._programs
        r.out.close()
        with pytest.raises(ValueError, match="closed file") as caught:
            step(torch.ones(2, 3))
    last = caught.traceback[-1]
    assert last.path.name == "test_prints.py"
    assert "print(" in str(last.statement)
    assert last.name == "step"
