"""Runs of steps that print: what they show, eagerly and compiled."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn

from .scenario import freeze, wait_for_program

CALLS = 13
WAYS = {"now": {"mode": "now"}, "followed": {"mode": "now", "follow": True}, "background": {}}


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
