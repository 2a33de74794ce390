"""A parameter of memory that nobody filled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.storage import get_version
from ...events import Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MAX_TENSORS = 4096  # that are remembered


class UnfilledParameter(Rule):
    """Remembers the numbers of parameters from torch.empty until their first update."""

    id = "parameter-never-filled"
    level = Level.LIKELY
    needs = ("on_parameter", "on_step")
    title = "a parameter comes from torch.empty() and is never initialized"
    why = (
        "torch.empty() returns uninitialized memory: zeros today, NaN tomorrow. Not reported if "
        "nn.init, copy_ or a loaded state wrote to it before the first update."
    )
    fix = "initialize it: nn.init.xavier_uniform_(self.weight); or torch.zeros, torch.randn"
    broken = """
weight = nn.Parameter(torch.empty(8, 3))  # <-
optimizer = optim.SGD([weight], lr=0.1)
for _ in range(3):
    loss = F.cross_entropy(x @ weight, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "weight = nn.Parameter(torch.empty(8, 3))  # <-":
            "weight = nn.Parameter(torch.empty(8, 3))\nnn.init.xavier_uniform_(weight)",
    })
    healthy = ("""
# Filled by its data, with ones.
weight = nn.Parameter(torch.empty(8, 3))
weight.data.fill_(1.0)
optimizer = optim.SGD([weight], lr=0.1)
loss = F.cross_entropy(x @ weight, y)
loss.backward()
optimizer.step()
""", """
# Loaded.
net = nn.Module()
net.weight = nn.Parameter(torch.empty(8, 3))
net.load_state_dict({"weight": torch.randn(8, 3)})
optimizer = optim.SGD(net.parameters(), lr=0.1)
loss = F.cross_entropy(x @ net.weight, y)
loss.backward()
optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.empty: dict[int, bytes] = {}  # addresses of memory from torch.empty: its first bytes
        self.unwritten: dict[int, tuple[int, bytes, Spot | None]] = {}

    def on_empty(self, tensor: Any) -> None:
        if len(self.empty) < _MAX_TENSORS:
            self.empty[tensor._array.ctypes.data] = _start(tensor._array)

    def on_parameter(self, parameter: Any, source: Any, spot: Spot | None) -> None:
        address = parameter._array.ctypes.data
        start = self.empty.pop(address, None)
        if start is not None and source is not None and get_version(source) == 0:
            self.session.follow(parameter)
            self.unwritten[id(parameter)] = address, start, spot

    def on_step(self, update: Update) -> None:
        if update.number != 1:
            return
        for parameter in update.params:
            address, start, spot = self.unwritten.pop(id(parameter), (0, b"", None))
            array = parameter._array
            if spot is not None and array.ctypes.data == address and get_version(parameter) == 0 \
                    and _start(array) == start:
                self.report(f"{self.session.parameter_name(parameter)} holds uninitialized "
                            "memory from torch.empty()", spot, update.spot,
                            shape=str(tuple(array.shape)))


def _start(array: np.ndarray) -> bytes:
    return array.reshape(-1)[:256].tobytes()
