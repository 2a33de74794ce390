"""Samples of a replay memory that are all one array."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_SAMPLES = 8
_TIMES = 3
_MAX_SHARED = 256  # that are remembered
_MIN_SHARE = 0.75  # of the samples of a batch


class SamplesShareMemory(Rule):
    """Looks at the memory of what torch.stack puts together."""

    id = "samples-share-memory"
    level = Level.LIKELY
    needs = ("on_function",)
    title = "the stacked samples are all the same array, which changes over time"
    why = (
        "from_numpy() shares the array's memory, and an environment that updates its state in "
        f"place changes every stored state. Reported when torch.stack receives {_SAMPLES} or more "
        "distinct tensors that nearly all share the same memory and whose values differed the "
        f"time before, {_TIMES} times. Not reported for one tensor that is repeated."
    )
    fix = "torch.from_numpy(state.copy()), or torch.tensor(state)"
    broken = """
import numpy
state, memory = numpy.zeros(8, "float32"), []
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for step in range(24):
    state += 0.1
    memory.append(torch.from_numpy(state))  # <-
    if len(memory) > 12:
        loss = net(torch.stack(memory[-12:])).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    fixed = edit(broken, {
        "memory.append(torch.from_numpy(state))  # <-": "memory.append(torch.tensor(state))",
    })
    healthy = ("""
# One row, repeated on purpose.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for row in x[:8]:
    loss = net(torch.stack([row] * 12)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Views of one memory, each of its own row.
memory, net = torch.zeros(32, 8), nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for step in range(24):
    memory[step] = torch.randn(8)
    loss = net(torch.stack([memory[i] for i in range(12)])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.shared: dict[int, Spot | None] = {}  # by address: where from_numpy was called
        # By line: the array that owns the memory, weakly, its numbers, and how often they changed.
        self.before: dict[Spot | None, tuple[Any, np.ndarray, int]] = {}

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name == "from_numpy":
            if len(self.shared) < _MAX_SHARED and isinstance(args[0], np.ndarray):
                self.shared.setdefault(args[0].ctypes.data, spot)
            return
        tensors = args[0] if name == "stack" and args else ()
        if not isinstance(tensors, (list, tuple)) or len(tensors) < _SAMPLES:
            return
        first = tensors[0]
        if not all(isinstance(t, Tensor) for t in tensors) or not first._array.ndim:
            return
        address = first._array.ctypes.data
        aliases = [t for t in tensors if t._array.ctypes.data == address and t.shape == first.shape]
        if len({id(t) for t in aliases}) >= max(_SAMPLES, _MIN_SHARE * len(tensors)):
            self._compare(first._array, address, spot, len(aliases))

    def _compare(self, array: np.ndarray, address: int, spot: Spot | None, count: int) -> None:
        owner = array if array.base is None else array.base
        if not isinstance(owner, np.ndarray):
            return
        reference, last_values, times = self.before.get(spot, (None, array, 0))
        if reference is not None and reference() is owner and last_values.shape == array.shape:
            times += not np.array_equal(last_values, array)
        self.before[spot] = weakref.ref(owner), array.copy(), times
        if times >= _TIMES:
            self.report("all stacked samples share the same memory",
                        self.shared.get(address), spot, samples=count)
