"""A value that backward needs, changed through .data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Backward
from ...finding import Level
from ...graph import iterate_saved_arrays
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_LARGEST = 1 << 16  # numbers that are copied to compare
_MAX_COPIES = 64  # that are remembered


class DataWrite(Rule):
    """Keeps copies of what `.data` was asked of, and compares them when backward reads it."""

    id = "data-write"
    level = Level.CERTAIN
    needs = ("on_backward",)
    title = "a value that backward() reads was overwritten through .data: the gradient is wrong"
    why = (
        "Writes through .data do not bump the version counter, so backward() cannot notice them. "
        "Reported when elements of an intermediate result saved by the graph have changed. Not "
        "reported for parameters, which optimizers update."
    )
    fix = (
        "compute a new tensor instead of overwriting the old one, or use detach(), whose writes "
        "are counted"
    )
    broken = """
weight = nn.Parameter(torch.ones(8))
for _ in range(3):
    weight.grad = None
    h = torch.exp(x * weight)
    h.data.clamp_(max=1.0)  # <-
    (h * h).mean().backward()
"""
    fixed = edit(broken, {
        "h = torch.exp(x * weight)": "h = torch.exp(x * weight).clamp(max=1.0)",
        "h.data.clamp_(max=1.0)  # <-": "",
    })
    healthy = ("""
# Weights are clamped after the step, as critics are.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
    for parameter in net.parameters():
        parameter.data.clamp_(-0.01, 0.01)
""", """
# .data is read, not written.
net = nn.Linear(8, 1)
for _ in range(3):
    output = torch.exp(net(x))
    biggest = output.data.max()
    output.mean().backward()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.copies: dict[int, tuple[np.ndarray, np.ndarray, Spot | None]] = {}

    def on_cut(self, method: str, tensor: Any, spot: Spot | None) -> None:
        array = tensor._array
        if method == ".data" and isinstance(array, np.ndarray) and array.size <= _LARGEST \
                and len(self.copies) < _MAX_COPIES:
            self.copies.setdefault(id(array), (array, array.copy(), spot))

    def on_backward(self, backward: Backward) -> None:
        if self.copies and backward.watched:
            for node in backward.graph.nodes:
                for _, array in iterate_saved_arrays(node):
                    entry = self.copies.get(id(array))
                    if entry is not None and not np.array_equal(array, entry[1], equal_nan=True):
                        self._tell(entry, node.name(), backward)
        self.copies.clear()

    on_gradient = on_backward

    def _tell(
        self, entry: tuple[np.ndarray, np.ndarray, Spot | None], reader: str, backward: Backward
    ) -> None:
        current, saved, spot = entry
        self.report(f"values that {reader} saved were changed through .data", spot, backward.spot,
                    **{"numbers changed": int((current != saved).sum()),
                       "of": int(current.size)})
