"""Inputs that are one number throughout."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ....native.foundation.user_frames import is_internal
from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level, Place
from ...programs import edit
from ...source import find_body
from ..rule import Rule

_CALLS = 4
_NUMBERS = 64  # of a batch, at least


def find_conversion(session: Any, names: frozenset[str]) -> Place | None:
    """The line of a dataset's __getitem__ that calls one of some methods or functions."""
    for loader in list(session.loaders.values()):
        code = getattr(getattr(type(loader.dataset), "__getitem__", None), "__code__", None)
        if code is None or is_internal(code):
            continue
        body = find_body(code.co_filename, code)
        for node in ast.walk(body) if body is not None else ():
            if isinstance(node, ast.Attribute) and node.attr in names:
                return Place(code.co_filename, node.lineno, code.co_qualname)
    return None


class ConstantInputs(Rule):
    """Looks at the numbers that a model is given."""

    id = "inputs-are-constant"
    level = Level.LIKELY
    needs = ("on_call",)
    title = "every element of every input has the same value: there is nothing to learn from"
    why = (
        "Images / 255 cast to integers are all 0; so is an array that was allocated and never "
        f"filled. Reported when each of {_CALLS} batches with a gradient holds a single value, for "
        "models with one input. Not reported for integer inputs of embeddings or for parameters."
    )
    fix = "inspect a batch: x.min(), x.max(); scale after the conversion to float"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
pixels = 255 * torch.rand(64, 8)
for _ in range(5):
    images = (pixels / 256).to(torch.uint8).float()
    loss = F.cross_entropy(net(images), y)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "images = (pixels / 256).to(torch.uint8).float()":
            "images = pixels.to(torch.uint8).float() / 256",
        "loss = F.cross_entropy(net(images), y)  # <-": "loss = F.cross_entropy(net(images), y)",
    })
    healthy = ("""
# A state of zeros begins each sequence; what follows are data.
cell, head = nn.GRUCell(8, 8), nn.Linear(8, 3)
optimizer = optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
for _ in range(5):
    state = cell(x, torch.zeros(64, 8))
    loss = F.cross_entropy(head(cell(torch.zeros(64, 8), state)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A generator that draws one picture from a constant of its own.
seed = nn.Parameter(torch.ones(64, 8))
net = nn.Linear(8, 1)
optimizer = optim.SGD([seed, *net.parameters()], lr=0.01)
for _ in range(5):
    loss = F.mse_loss(net(seed), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[int, int] = {}  # by model; -1 once an input varied

    def on_call(self, call: ModuleCall) -> None:
        key = id(call.module)
        times = self.times.get(key, 0)
        if not call.recorded or not 0 <= times < _CALLS:
            return
        inputs = [*call.args, *call.kwargs.values()]
        array = inputs[0]._array if len(inputs) == 1 and isinstance(inputs[0], Tensor) else None
        if array is None or array.dtype.kind != "f" or array.size < _NUMBERS \
                or inputs[0].requires_grad or (array != array.flat[0]).any():
            self.times[key] = -1
            return
        self.times[key] = times + 1
        if self.times[key] == _CALLS:
            self.session.follow(call.module)
            self.report(f"every element of the inputs is {float(array.flat[0]):g}",
                        find_conversion(self.session, _CASTS), call.spot,
                        shape=str(array.shape), value=float(np.ravel(array)[0]))


_CASTS = frozenset(("astype", "long", "int", "byte", "uint8", "short", "to", "type"))
