"""Steps to watch, what to watch them with, and an oracle that reads CPython's real stack."""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.proof.guards import Proof
from flambeau.compiler.proof.provenance import UNKNOWN, Kind, is_plain
from flambeau.compiler.proof.watcher import Watcher
from flambeau.compiler.trace.operands import flatten

_BOUND = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
_SEEN = (Kind.OUTSIDE, Kind.TENSOR, Kind.FRESH, Kind.PLAIN, Kind.NUMBER)


class NoNumber:
    """In place of the stand-ins for numbers that a recorder hands out: these steps read values."""


def watch(step: Callable[..., Any], *args: Any) -> tuple[Proof, int]:
    """The proof of a call, and how many slots of the real stack are not what the shadow says."""
    existing = {id(x) for x in gc.get_objects() if isinstance(x, torch.Tensor)}
    oracle = count_mismatches if sys.version_info[:2] == (3, 11) else None
    watcher = Watcher(step, args, {}, flatten(args), existing, oracle)
    with watcher:
        step(*args)
    return watcher.conclude(), watcher.mismatches


def count_mismatches(frame: Any, shadow: Any) -> int:
    """How many slots of a frame's stack are other objects than the shadow says.

    All of them where the depths differ. Reads the interpreter's frame of CPython 3.11.
    """
    code = frame.f_code
    interpreter = ctypes.c_void_p.from_address(id(frame) + 24).value
    top = ctypes.c_int.from_address(interpreter + 64).value
    below = len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)
    if top - below != len(shadow.stack):
        return 1 + len(shadow.stack)
    wrong = 0
    for k, slot in enumerate(shadow.stack):
        if slot.kind not in _SEEN or slot.value is UNKNOWN:
            continue
        address = interpreter + 72 + 8 * (below + k)
        if not ctypes.c_void_p.from_address(address).value:
            wrong += 1
            continue
        wrong += not _is_same(ctypes.py_object.from_address(address).value, slot.value)
    return wrong


def _is_same(x: Any, value: Any) -> bool:
    receiver = value.__self__ if isinstance(value, _BOUND) else value
    both_plain = is_plain(x) and is_plain(value)
    return x is value or x is receiver or isinstance(value, super) or (both_plain and x == value)


# ------------------------------------------------------------------------------------ steps


@dataclass
class Config:
    scale: float = 0.5
    clip: float | None = 1.0
    names: tuple = ("a", "b")


class Net(nn.Module):
    def __init__(self, width=8, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))
        self.drop = nn.Dropout(0.0)
        self.config = Config()
        self.depth = depth
        self.seen = 0

    def forward(self, x, *, scale=1.0, **more):
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x)) * scale
            if self.training and i % 2 == 0:
                x = self.drop(x)
        if more.get("flag", False):
            x = -x
        batch, width = x.shape
        name = f"{batch}x{width} of {self.depth:3d}"
        assert len(name) > 3, name
        return self.head(x.view(batch, -1)) + x.mean() * self.config.scale


def parts(lr=0.1):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return model, optimizer, torch.randn(4, 8), torch.randint(2, (4,))


def trainer(before=None, within=None, model=None):
    """A usual step; `within` is called in it with the loss."""
    net, opt, x, y = parts()
    net = model or net

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x, scale=2.0, flag=True), y)
        loss.backward()
        if within is not None:
            within(loss)
        opt.step()
        return loss

    return step, x, y
