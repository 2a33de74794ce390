"""Random steps that take over tensors from the call before, with writes, views, aliases and
branches between reads and stores, and random changes of that state between the calls."""

from __future__ import annotations

import random
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import flambeau as torch

CALLS = 16
PLACES = ("m.a", "m.b", "d['a']", "d['b']", "hs[0]", "hs[-1]", "g")
MAKERS = (
    "torch.tanh({a} + {b})", "{a} * 0.5 + {b}", "({a} - {b}).clamp(-1, 1)",
    "{a}.sin() - {b}.mean(0)",
    "torch.tanh({a} @ w)", "torch.where({a} > {b}, {a}, -{a})", "{a}.softmax(-1)", "{a}.clone()",
    "{a}.cumsum(0).tanh()", "{a}.detach()", "{a}[1:2]", "{a}[:]", "{a}.view(-1, 3)", "{a}.mean(0)",
    "{a}.expand(4, 3)", "{a}.flip(0)", "torch.zeros_like({a})", "{a}.double().tanh().to({b}.dtype)",
)
WRITES = ("{a}.mul_(0.5)", "{a}.add_({b}.mean())", "{a}[0] = 0.25", "{a}.copy_({b}.mean(0))",
          "{a}.clamp_(-1, 1)", "w.mul_(0.9)", "x0.add_(0.5)")
LOGGED = ("log.append({a} is {b})", "log.append({a}.shape)", "log.append({a}.requires_grad)",
          "old.append({a})", "m.n += 1", "log.append({a}.dtype is {b}.dtype)")
BRANCHES = ("if m.n % 3 == 1: {line}", "if m.n % 4 > 1: {line}", "if not m.flag: {line}")
CHANGES = (
    "{p} = {p}.clone()", "{p}.add_(1)", "{p} = {q}", "{p} = {q}[:1]", "{p} = {q}.detach()",
    "{p} = w",
    "{p} = x0", "{p} = x1", "{p} = x0[:2][:1]", "{p} = torch.ones(3)", "{p} = {p}.double()",
    "{p} = {p}.float()", "{p}.requires_grad_()", "{p} = {p}.detach()", "{p} = torch.ones(4, 3)",
    "{p} = torch.ones(3, 4).T", "{p} = {q} * 1", "w = torch.eye(3)", "w.mul_(0.5)",
    "{p}.data = torch.ones(4, 3)", "m.flag = not m.flag", "hs.reverse()",
    "{p}.detach().numpy().fill(0.5)",
    "hs.append(torch.ones(4, 3))", "m.a, m.b = m.b, m.a", "d = dict(d)", "m.n = 0", "x0 = x1",
    "old and old[-1].mul_(0.5)", "m = M(**vars(m))", "d.pop('a', None); d['a'] = torch.zeros(4, 3)",
    "{p} = torch.nn.Parameter({q}.detach().clone())", "{p}.resize_(1, 3)", "{p} = None",
)


class RandomCarry:
    """A random step, and what changes between its calls."""

    def __init__(self, seed: int) -> None:
        self.seed, choose = seed, random.Random(seed)
        places = choose.sample(PLACES, choose.randint(1, 4))
        known, lines = ["x", *places], []
        for i in range(choose.randint(2, 8)):
            a, b = choose.choice(known), choose.choice(known)
            kind = choose.random()
            if kind < 0.55:
                line = f"v{i} = {choose.choice(MAKERS).format(a=a, b=b)}"
                known.append(f"v{i}")
            elif kind < 0.75:
                line = f"{choose.choice(places)} = {a}"
            elif kind < 0.87:
                line = choose.choice(WRITES).format(a=a, b=b)
            else:
                line = choose.choice(LOGGED).format(a=a, b=b)
            if not line.startswith("v") and choose.random() < 0.25:
                line = choose.choice(BRANCHES).format(line=line)
            lines.append(line)
        if choose.random() < 0.6:
            lines.append("m.n += 1")
        for place in places:
            if choose.random() < 0.8:
                a = choose.choice(known)
                lines.append(f"{place} = {choose.choice(MAKERS[:8]).format(a=place, b=a)}")
        if choose.random() < 0.2:
            lines.append(f"m.t = ({choose.choice(known)}, torch.tanh(m.t[1] + {known[-1]}))")
        lines.append(f"return {choose.choice(known)}, {known[-1]}")
        decorator = choose.choice(("", "", "@torch.no_grad()\n"))
        self.source = decorator + "\n    ".join(["def step(x):", "global g, w", *lines, ""])
        self.places = [*places, *choose.sample(PLACES, 2)]
        self.rate = choose.choice((0.0, 0.1, 0.1, 0.3))

    def world(self) -> types.SimpleNamespace:
        """New state, and the function on it."""
        generator = torch.Generator().manual_seed(self.seed)
        make = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731

        class M:
            def __init__(self, **space: Any) -> None:
                vars(self).update(space)

        m = M(a=make(4, 3), b=make(4, 3), n=0, flag=True, t=(make(4, 3), make(4, 3)))
        names = {"torch": torch, "m": m, "M": M, "w": make(3, 3), "g": make(4, 3),
                 "log": [], "old": [], "d": {"a": make(4, 3), "b": make(4, 3)},
                 "hs": [make(4, 3), make(4, 3)], "x0": make(4, 3), "x1": make(4, 3)}
        exec(compile(self.source, f"<random carry {self.seed}>", "exec"), names)
        return types.SimpleNamespace(
            names=names, choose=random.Random(self.seed), run=names["step"])

    def advance(self, world: types.SimpleNamespace, call: int) -> list[Any]:
        """Change the state at random, call the step once, and return what can be seen."""
        names, choose = world.names, world.choose
        seen: list[Any] = []
        if choose.random() < self.rate and call > 1:
            p, q = choose.choice(self.places), choose.choice(self.places)
            seen.append(_attempt(lambda: exec(choose.choice(CHANGES).format(p=p, q=q), names)))
        x = names[choose.choice(("x0", "x0", "x1"))]
        if choose.random() < 0.1:
            x = next((t for t in (_get(names, p) for p in self.places)
                      if isinstance(t, torch.Tensor)), x)
        seen.append(_attempt(lambda: world.run(x)))
        return [*seen, *observe(names, seen[-1])]


def _get(names: dict[str, Any], place: str) -> Any:
    try:
        return eval(place, names)
    except LookupError:
        return None


def _attempt(act: Any) -> Any:
    try:
        return act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def observe(names: dict[str, Any], result: Any) -> list[Any]:
    """All tensors, what they share, and the log."""
    m = names["m"]
    tensors = [*vars(m).values(), *m.t, *names["d"].values(), *names["hs"], names["g"], names["w"],
               names["x0"], names["x1"], *names["old"][-6:],
               *(result if isinstance(result, tuple) else ())]
    tensors = [t if isinstance(t, torch.Tensor) else torch.zeros(0) for t in tensors]
    arrays = [t.detach().numpy() for t in tensors]
    n = range(len(tensors))
    return [
        [(type(t).__name__, tuple(t.shape), t.stride(), str(t.dtype), t.requires_grad, t.is_leaf,
          t._version) for t in tensors],
        [a.copy() for a in arrays],
        [[tensors[i] is tensors[j] for j in n] for i in n],
        [[np.shares_memory(arrays[i], arrays[j]) for j in n] for i in n],
        [type(t._base).__name__ for t in tensors],
        [*names["log"]], m.n, m.flag, result if isinstance(result, str) else None,
    ]


def agree(a: Any, b: Any) -> bool:
    """Whether two observations are the same."""
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and agree(a.detach().numpy(), b.detach().numpy())
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(agree, a, b))
    return type(a) is type(b) and a == b


def differences(step: RandomCarry, **options: Any) -> Iterator[str]:
    """What differs between eager and compiled calls, for people."""
    eager, fast = step.world(), step.world()
    fast.run = torch.compile(fast.run, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(CALLS):
            wanted, actual = step.advance(eager, call), step.advance(fast, call)
            if not agree(wanted, actual):
                parts = [f"{a}\n  instead of {b}" for a, b in zip(actual, wanted, strict=True)
                         if not agree(b, a)]
                yield f"call {call}:\n" + "\n".join(parts)
                return
