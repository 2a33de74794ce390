"""Steps that create, return, store or train with tensors that no program can compute: nested,
sparse, masked, quantized, meta ones, of overriding classes and of rare dtypes."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

from .scenario import assert_same, wait_for_program

Maker = Callable[[torch.Tensor], Any]


class Sub(torch.Tensor):
    """A class that overrides functions."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


KINDS: dict[str, Maker] = {
    "jagged": lambda x: torch.nested.nested_tensor([x[:2], x[1:]], layout=torch.jagged),
    "jagged view": lambda x: torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 1, 4])),
    "strided": lambda x: torch.nested.nested_tensor([x[:2], x[1:]]),
    "strided with history": lambda x: torch.nested.as_nested_tensor([x[:2] * 1, x[1:] * 1]),
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "masked": lambda x: torch.masked.masked_tensor(x, x > 0),
    "subclass": lambda x: x.as_subclass(Sub),
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "meta": lambda x: x.to("meta"),
    "conjugate": lambda x: torch.complex(x, x * 2).conj(),
    "half complex": lambda x: torch.complex(x.half(), x.half()),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
}


def to_dense(t: Any) -> torch.Tensor:
    """The elements of any kind of tensor as real numbers, with its history."""
    if t.is_nested:
        return torch.cat([row.reshape(-1) for row in t.unbind()])
    if type(t).__name__ == "MaskedTensor":
        return t.to_tensor(0)
    if t.is_quantized:
        return t.dequantize()
    if t.layout != torch.strided:
        return t.to_dense()
    if t.dtype in (torch.complex32, torch.complex64):
        return torch.view_as_real(t.to(torch.complex64).resolve_conj())
    return t if t.device.type == "meta" else t.float()


def describe(x: Any) -> Any:
    """What can be observed of a result."""
    if isinstance(x, torch.Tensor):
        parts = [type(x).__name__, str(x.dtype), str(x.layout), x.requires_grad, x._version]
        if x.device.type == "meta":
            return [*parts, tuple(x.shape)]
        return [*parts, to_dense(x).detach().reshape(-1).tolist()]
    return [describe(part) for part in x] if isinstance(x, (list, tuple)) else x


def use(make: Maker) -> tuple[Callable, list]:
    def step(x: torch.Tensor) -> Any:
        return to_dense(make(x)).sum(), x * 2

    return step, []


def discard(make: Maker) -> tuple[Callable, list]:
    def step(x: torch.Tensor) -> Any:
        make(x)
        return x * 2

    return step, []


def hand_back(make: Maker) -> tuple[Callable, list]:
    return lambda x: (make(x * 2), x + 1), []


def hand_through(make: Maker) -> tuple[Callable, list]:
    outside = make(torch.randn(4, 4))
    return lambda x: (outside, to_dense(outside).sum(), x + 1), []


def store(make: Maker) -> tuple[Callable, list]:
    stored: list[Any] = []

    def step(x: torch.Tensor) -> Any:
        y = x.exp()
        stored.append(make(y))
        return y + len(stored)

    return step, stored


def turn_up_late(make: Maker) -> tuple[Callable, list]:
    calls: list[int] = []

    def step(x: torch.Tensor) -> Any:
        calls.append(len(calls))
        y = (x.exp() * 2).sum()
        return (y + to_dense(make(x)).sum() if len(calls) % 3 == 0 and make is not KINDS["meta"]
                else y.item())

    return step, calls


def train(make: Maker) -> tuple[Callable, list]:
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)

    def step(x: torch.Tensor) -> Any:
        optimizer.zero_grad()
        y = net(x)
        t = make(y)
        loss = (y**2).mean()
        if t.device.type != "meta":
            loss = loss + (to_dense(t) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, list(net.parameters())


SCENES = [use, discard, hand_back, hand_through, store, turn_up_late, train]


def _observe(scene: Callable, make: Maker, mode: str | None) -> list[Any]:
    torch.manual_seed(0)
    step, state = scene(make)
    if mode is not None:
        step = torch.compile(step, mode=mode)
    seen = []
    for call in range(7):
        seen.append(describe(step(torch.randn(4, 4))))
        if mode == "default" and call == 4:
            wait_for_program(step)
    return [*seen, describe(state)]


@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize(("scene", "kind"), [
    pytest.param(scene, kind, marks=() if k % 4 == 0 else pytest.mark.slow)
    for k, (kind, scene) in enumerate(itertools.product(KINDS, SCENES))])
def test_a_step_does_what_its_python_does(scene: Callable, kind: str, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _observe(scene, KINDS[kind], None)
        assert_same(_observe(scene, KINDS[kind], mode), expected, f"mode={mode}")
