"""Data that the program changes each time it reads it."""

from __future__ import annotations

import ast
from typing import Any

from ....tensor.storage import get_version
from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level, Place
from ...places import Spot, place_of
from ...programs import edit
from ...source import find_statements
from ..rule import Rule

_KEEPING = ("copy_", "zero_", "fill_", "set_", "resize_", "requires_grad_", "detach_",
            "index_copy_", "scatter_", "masked_fill_", "squeeze_", "unsqueeze_")


class DataOverwritten(Rule):
    """Follows the versions of tensors that batches and samples are views of."""

    id = "data-overwritten"
    level = Level.LIKELY
    needs = ("on_call",)
    title = (
        "a batch or sample is a view of the data set and is modified in place, which changes the "
        "data set"
    )
    why = (
        "Noise accumulates from epoch to epoch, and data is normalized repeatedly. Slices and "
        "data[i] are views. Reported when the same part of the data is read again after in-place "
        "arithmetic. Not reported for buffers written by assignment, such as a replay memory."
    )
    fix = "x = x + noise instead of x += noise, or modify a copy: data[i].clone()"
    broken = """
net, data = nn.Linear(8, 3), torch.randn(64, 8)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for start in range(0, 64, 16):
        xb, yb = data[start:start + 16], y[start:start + 16]
        xb += 0.1 * torch.randn(16, 8)  # <-
        optimizer.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        optimizer.step()
"""
    fixed = edit(broken, {
        "xb += 0.1 * torch.randn(16, 8)  # <-": "xb = xb + 0.1 * torch.randn(16, 8)",
    })
    healthy = ("""
# Chosen by numbers, which copies.
net, data = nn.Linear(8, 3), torch.randn(64, 8)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for rows in torch.randperm(64).split(16):
        xb = data[rows]
        xb += 0.1 * torch.randn(16, 8)
        optimizer.zero_grad()
        F.cross_entropy(net(xb), y[rows]).backward()
        optimizer.step()
""", """
# A simulation, whose state moves on in place.
net, state = nn.Linear(4, 4), torch.randn(64, 8)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for step in range(12):
    place, speed = state[:, :4], state[:, 4:]
    place += 0.1 * speed
    optimizer.zero_grad()
    F.mse_loss(net(place.clone()), speed.clone()).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.parts: dict[int, dict[tuple[int, tuple[int, ...]], int]] = {}  # of bases: versions
        self.versions: dict[int, int] = {}  # of datasets' tensors

    def on_call(self, call: ModuleCall) -> None:
        if not call.recorded or not call.module.training:
            return
        for tensor in call.tensors:
            base = tensor._base
            if base is None or tensor.requires_grad or tensor._array.dtype.kind != "f" \
                    or tensor._array.shape[:1] == base._array.shape[:1]:
                continue
            self.session.follow(base)
            parts = self.parts.setdefault(id(base), {})
            key = (tensor._array.ctypes.data, tensor._array.shape)
            last_version, version = parts.get(key), get_version(tensor)
            parts[key] = version
            if last_version is not None and len(parts) > 1 and version - last_version >= len(parts):
                self._judge(tensor, call.spot, version - last_version)

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        dataset = getattr(self.session.loaders.get(iterator), "dataset", None)
        for value in list(getattr(dataset, "__dict__", {}).values()):
            if not isinstance(value, Tensor) or value._array.dtype.kind != "f" \
                    or value._array.ndim == 0:
                continue
            self.session.follow(value)
            first_version = self.versions.setdefault(id(value), get_version(value))
            if get_version(value) - first_version > 2 * len(value._array):
                self._judge(value, spot, get_version(value) - first_version)

    def _judge(self, tensor: Any, spot: Spot | None, writes: int) -> None:
        counter = tensor._counter
        writer = None if counter is None else counter.writer
        place = place_of(writer)
        if place is not None and _is_arithmetic(place):
            self.report("the data is modified in place each time it is read", place, spot,
                        writes=writes)


def _is_arithmetic(place: Place) -> bool:
    """Whether a statement computes in place rather than assigns."""
    for statement in reversed(list(find_statements(place.file, place.line))):
        if isinstance(statement, ast.AugAssign):
            return not isinstance(statement.target, ast.Attribute)
        methods = [n.func.attr for n in ast.walk(statement)
                   if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        if isinstance(statement, (ast.Expr, ast.Assign, ast.Return)):
            return any(m.endswith("_") and not m.startswith("_") and m not in _KEEPING
                       for m in methods)
    return False
