"""Errors injected into a call: at its n-th entry into the library, or at the library's n-th call
of a C function. Afterwards everything must be as eager mode leaves it between two operators.

`sys.setprofile` counts the entries and raises; unlike `sys.settrace`, it does not keep the compiler
from proving the call.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import nn
from flambeau.compiler.capture import capture
from flambeau.compiler.follow import followed_function
from flambeau.compiler.follow.hooks import ACTIVE
from flambeau.tensor.random.generator import default_generator

LIBRARY = (str(Path(torch.__file__).parent), "<flambeau")
WAYS = {
    "proved": {"follow": False},
    "followed": {"follow": True},
}
LOCKING = frozenset(("acquire", "release", "__enter__", "__exit__", "setprofile"))
AFTERWARDS = 3  # calls that follow the one that raised
State = dict[str, Any]


class Injection:
    """A context that counts entries into the library, observes each, and raises at the `at`-th."""

    def __init__(self, at: int = 0, error: BaseException | None = None,
                 events: tuple[str, ...] = ("call", "c_call"),
                 observe: Callable[[], None] | None = None) -> None:
        self.at, self.error, self.events, self.observe = at, error, events, observe
        self.count, self.where = 0, ""
        self.entries: list[tuple] = []  # the places that were entered, in order
        self._known: dict[str, bool] = {}

    def __enter__(self) -> Injection:
        sys.setprofile(self._enter)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.setprofile(None)

    def _enter(self, frame: types.FrameType, event: str, callee: Any) -> None:
        if event not in self.events:
            return
        code = frame.f_code
        inside = self._known.get(code.co_filename)
        if inside is None:
            inside = self._known[code.co_filename] = code.co_filename.startswith(LIBRARY)
        if not inside:
            return
        if event != "call" and getattr(callee, "__name__", "") in LOCKING:
            return
        self.count += 1
        if not self.at:
            self.entries.append((code, frame.f_lasti if event != "call" else -1))
        if self.observe is not None:
            self.observe()
        if self.count == self.at and self.error is not None:
            name = getattr(callee, "__name__", "") if event != "call" else ""
            self.where = f"{code.co_filename}:{frame.f_lineno} {code.co_qualname} {name}"
            raise self.error


class World:
    """A training step that changes state of many kinds, and that state."""

    def __init__(self, way: str) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Dropout(0.3),
                                 nn.Linear(4, 2))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.2, momentum=0.9)
        self.total, self.count, self.log = torch.ones(2), {"calls": 0}, []
        self.followed = way == "followed"

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        self.total.add_(0.5)
        loss = (self.net(x) * self.total).square().mean()
        if self.followed:  # a list that the step reads and changes: never proved
            self.log.append(len(self.log))
        loss.backward()
        self.count["calls"] += 1
        self.optimizer.step()
        self.total.mul_(0.9)
        return loss.detach()

    def state(self) -> State:
        """Everything that the step changes."""
        state: State = {"calls": self.count["calls"], "log": len(self.log)}
        tensors = {**self.net.state_dict(keep_vars=True), "total": self.total}
        for name, tensor in tensors.items():
            state[name] = tensor._array.copy()
            state[name + ".version"] = tensor._version if name == "total" else 0
            grad = tensor.grad
            state[name + ".grad"] = None if grad is None else grad._array.copy()
            momentum = self.optimizer.state.get(tensor, {}).get("momentum_buffer")
            state[name + ".momentum"] = None if momentum is None else momentum._array.copy()
        key, _, position, *_ = default_generator.bookmark()
        state["random"] = key, position
        return state


def inputs(call: int) -> torch.Tensor:
    """The argument of a call, the same in every run."""
    return torch.from_numpy(np.random.RandomState(call).randn(6, 3).astype(np.float32))


def difference(a: State, b: State) -> str:
    """The names of what differs between two states, beyond rounding."""
    return " ".join(name for name, value in a.items() if not _same(value, b[name]))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    return type(a) is type(b) and a == b


class Oracle:
    """Eager mode: the states that a call passes through, and how training goes on from each."""

    def __init__(self, way: str, call: int) -> None:
        self.way, self.call = way, call
        self.states: list[tuple[int, State]] = []
        self._last: list[Any] = []
        self._rests: dict[int, list[State]] = {}
        for i in range(call + 1):  # what is computed once per process
            World(way).step(inputs(i))
        world = World(way)
        for i in range(call):
            world.step(inputs(i))

        def observe() -> None:
            state = world.state()
            bits = [v.tobytes() if isinstance(v, np.ndarray) else v for v in state.values()]
            if bits != self._last:
                self.states.append((counter.count, state))
                self._last = bits

        counter = Injection(events=("call", "c_call", "c_return", "return"), observe=observe)
        x = inputs(call)
        with counter:
            world.step(x)
        counter.count = 0  # of a call that nothing interrupts
        observe()

    def position(self, state: State) -> int | None:
        """The entry at which an error leaves a state; 0 if no error does; None for no such state.
        """
        for entry, passed in sorted(self.states, key=lambda pair: pair[0]):
            if not difference(passed, state):
                return entry
        return None

    def is_within_update(self, state: State) -> bool:
        """Whether a state lies between the operators of an update's formula. A followed call may
        run these one by one; eager mode has a kernel for all of them."""
        after = self.states[-1][1]
        names = {name for name in state if name.endswith(".momentum")}
        names |= {name.removesuffix(".momentum") for name in names}
        return self.way == "followed" and any(
            all(_same(value, before[name]) or name in names and _same(value, after[name])
                for name, value in state.items()) for _, before in self.states)

    def rest(self, entry: int) -> list[State]:
        """The states after the calls that follow an error at an entry."""
        if entry not in self._rests:
            random = torch.get_rng_state()
            world = World(self.way)
            for i in range(self.call):
                world.step(inputs(i))
            _interrupted(world.step, self.call, entry, ("call", "c_call", "c_return", "return"))
            torch.set_grad_enabled(True)
            rests = self._rests[entry] = []
            if difference(dict(self.states)[entry], world.state()):  # eager mode drops the error
                return rests
            for i in range(self.call + 1, self.call + 1 + AFTERWARDS):
                world.step(inputs(i))
                rests.append(world.state())
            torch.set_rng_state(random)
        return self._rests[entry]


def _interrupted(step: Callable, call: int, entry: int, events: tuple[str, ...],
                 error: type[BaseException] = MemoryError) -> tuple[str, str]:
    """Run a call with an error at an entry; where it struck, and another error that came of it."""
    injection, x = Injection(entry, error("injected"), events), inputs(call)
    try:
        with injection:
            step(x)
    except error as caught:
        if "injected" not in str(caught):
            return injection.where, repr(caught)
    except BaseException as caught:
        return injection.where, repr(caught)
    return injection.where, ""


def compiled(world: World, backend: str | None) -> Callable:
    """The step, compiled at once."""
    way = WAYS["followed" if world.followed else "proved"]
    options = {"mode": "now", **way}
    return torch.compile(world.step, options=options, **({"backend": backend} if backend else {}))


def list_first_entries(
    way: str, call: int, backend: str | None, events: tuple[str, ...]
) -> list[int]:
    """The numbers of the entries of a compiled call that come to a place for the first time."""
    for _ in range(2):  # the first one computes what is computed once per process
        world = World(way)
        step = compiled(world, backend)
        for i in range(call):
            step(inputs(i))
        injection, x = Injection(events=events), inputs(call)
        with injection:
            step(x)
    numbers: dict[tuple, int] = {}
    for number, entry in enumerate(injection.entries, 1):
        numbers.setdefault(entry, number)
    return sorted(numbers.values())


def problem(oracle: Oracle, entry: int, error: type[BaseException], backend: str | None,
            events: tuple[str, ...] = ("call", "c_call")) -> str:
    """What is wrong after an error at an entry of a compiled call; empty if nothing is."""
    world = World(oracle.way)
    step = compiled(world, backend)
    for i in range(oracle.call):
        step(inputs(i))
    where, other = _interrupted(step, oracle.call, entry, events, error)
    left_off = not torch.is_grad_enabled() and "autograd/mode.py" not in where  # as eager mode
    torch.set_grad_enabled(True)
    where = f"entry {entry} of call {oracle.call}, {where}: "
    if left_off:
        return where + "gradients are left off"
    if other:
        return where + other
    state = world.state()
    position = oracle.position(state)
    if position is None and oracle.is_within_update(state):
        return ""
    if position is None:
        gaps = [difference(passed, state) for _, passed in oracle.states]
        return where + f"eager has no such state; nearest differs in {min(gaps, key=len)}"
    blocked = "; ".join(_blocked())
    if blocked:
        return where + blocked
    calls = range(oracle.call + 1, oracle.call + 1 + AFTERWARDS)
    for i, wanted in zip(calls, oracle.rest(position), strict=False):
        try:
            step(inputs(i))
        except BaseException as caught:
            return where + f"later call {i} raises {caught!r}"
        gap = difference(world.state(), wanted)
        if gap:
            return where + f"later call {i} differs in {gap}"
    return ""


def _blocked() -> Iterator[str]:
    """Locks and patches that a call left behind."""
    if sys.gettrace() is not None:
        yield "a trace function is left"
    if ACTIVE.session is not None or followed_function._RUNNING.locked():
        yield "a followed call is left"
    if capture.is_recording():
        yield "a recorder is left"
    free: list[bool] = []
    thread = threading.Thread(target=lambda: free.append(capture._capturing.acquire(timeout=5)
                                                         and not capture._capturing.release()))
    thread.start()
    thread.join()
    if not free[0]:
        yield "a lock of recordings is left"
