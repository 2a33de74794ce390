"""Images of bytes from 0 to 255 that reach a network unscaled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule
from .constant_inputs import find_conversion

_CONFIRMING_BATCHES = 3  # one bright batch may be an accident
_MIN_BRIGHTEST = 100  # below, the numbers may be classes or counts
_CONVERSIONS = frozenset((
    "float", "astype", "to", "from_numpy", "tensor", "as_tensor", "FloatTensor",
))


class RawPixels(Rule):
    """Examine the inputs of convolutions that read no other layer's output."""

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
        # Batches of bytes, by the layer's id; _CONFIRMING_BATCHES also means decided.
        self.batches: dict[int, int] = {}

    def on_layer(self, call: ModuleCall) -> None:
        key = id(call.module)
        if "Conv" not in type(call.module).__name__ or not call.recorded \
                or self.batches.get(key, 0) >= _CONFIRMING_BATCHES or not call.args:
            return
        first = call.args[0]
        if not isinstance(first, Tensor) or first._node is not None or not first._array.size:
            self.batches[key] = _CONFIRMING_BATCHES
            return
        low, high = float(first._array.min()), float(first._array.max())
        if not _are_bytes(first._array, low, high):
            self.batches[key] = _CONFIRMING_BATCHES
            return
        self.batches[key] = self.batches.get(key, 0) + 1
        if self.batches[key] == _CONFIRMING_BATCHES:
            self.report("images of bytes reach the first convolution unscaled",
                        find_conversion(self.session, _CONVERSIONS), call.spot,
                        self.session.built_at.get(call.module), range=[low, high])


def _are_bytes(values: np.ndarray, low: float, high: float) -> bool:
    """Whether all values are integers from 0 to 255, and some are large."""
    return low >= 0 and _MIN_BRIGHTEST < high <= 255 and np.array_equal(values, np.round(values))
