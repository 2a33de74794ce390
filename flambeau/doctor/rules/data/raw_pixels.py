"""Bytes from 0 to 255 that go into a network as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule
from .constant_inputs import conversion_line

_CALLS = 3
_CONVERSIONS = frozenset((
    "float", "astype", "to", "from_numpy", "tensor", "as_tensor", "FloatTensor",
))


class RawPixels(Rule):
    """Looks at the numbers that reach the first convolution."""

    id = "pixels-not-scaled"
    level = Level.LIKELY
    needs = ("on_layer",)
    title = "images of bytes from 0 to 255 reach the first convolution unscaled"
    why = (
        "Weight initialization assumes inputs of unit scale. Reported when all elements of three "
        "batches are integers between 0 and 255 with a maximum above 100. Not reported if another "
        "layer, such as a batch norm, comes first."
    )
    fix = "images / 255, then subtract the mean and divide by the standard deviation"
    broken = """
images = torch.randint(0, 256, (64, 1, 8, 8))
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
optimizer = optim.SGD(net.parameters(), lr=1e-5)
for _ in range(4):
    loss = F.cross_entropy(net(images.float()), y)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer = optim.SGD(net.parameters(), lr=1e-5)":
            "optimizer = optim.SGD(net.parameters(), lr=1e-2)",
        "loss = F.cross_entropy(net(images.float()), y)  # <-":
            "loss = F.cross_entropy(net(images / 255), y)",
    })
    healthy = ("""
# A batch norm at the input scales them.
images = torch.randint(0, 256, (64, 1, 8, 8)).float()
net = nn.Sequential(nn.BatchNorm2d(1), nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 3))
optimizer = optim.SGD(net.parameters(), lr=1e-2)
for _ in range(4):
    loss = F.cross_entropy(net(images), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Images of black and white.
images = torch.randint(0, 2, (64, 1, 8, 8)).float()
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 3))
optimizer = optim.SGD(net.parameters(), lr=1e-2)
for _ in range(4):
    loss = F.cross_entropy(net(images), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[int, int] = {}

    def on_layer(self, call: ModuleCall) -> None:
        key = id(call.module)
        if "Conv" not in type(call.module).__name__ or not call.recorded \
                or self.times.get(key, 0) >= _CALLS or not call.args:
            return
        first = call.args[0]
        if not isinstance(first, Tensor) or first._node is not None or not first._array.size:
            self.times[key] = _CALLS
            return
        values = first._array
        low, high = float(values.min()), float(values.max())
        if not (low >= 0 and 100 < high <= 255 and bool(np.array_equal(values, np.round(values)))):
            self.times[key] = _CALLS
            return
        self.times[key] = self.times.get(key, 0) + 1
        if self.times[key] == _CALLS:
            self.report("images of bytes reach the first convolution unscaled",
                        conversion_line(self.session, _CONVERSIONS), call.spot,
                        self.session.built_at.get(call.module), range=[low, high])
