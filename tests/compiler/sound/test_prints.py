"""A step that prints numbers and text is proved: its program prints, what and where eager would."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

from .print_scenes import WAYS, Run, observe
from .scenario import assert_same

PROVED: dict[str, Callable[[Any], Any]] = {}


def proved(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A scene whose steps are skipped although they print."""
    PROVED[function.__name__] = function
    return function


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
