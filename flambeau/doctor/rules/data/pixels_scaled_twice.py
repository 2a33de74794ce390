"""Bytes of images that were divided by 255 twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame
from ...events import ModuleCall
from ...finding import Level, Place
from ...programs import edit
from ...source import find_assignment
from ..rule import Rule

_CALLS = 3
_MAX_PIXELS = 1 << 16  # numbers that are looked at
_MIN_PIXELS = 64
_COUNTED_PIXELS = 1024  # among which levels are counted
_TOLERANCE = 0.02  # of a level: distance from whole numbers


class PixelsScaledTwice(Rule):
    """Looks at the range and the grid of what a model is given."""

    id = "pixels-scaled-twice"
    level = Level.LIKELY
    needs = ("on_call",)
    title = "images are divided by 255 twice: the network sees almost nothing but zeros"
    why = (
        "ToTensor() and similar functions already divide bytes by 255. Reported when all elements "
        "of a model's inputs are integer multiples of 1/255/255 and none exceeds 1/255, in "
        f"{_CALLS} calls."
    )
    fix = "divide by 255 once"
    broken = """
images = torch.randint(0, 256, (64, 64)) / 255
net = nn.Linear(64, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    inputs = images / 255  # <-
    loss = F.cross_entropy(net(inputs), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {"inputs = images / 255  # <-": "inputs = images - 0.5"})
    healthy = (edit(broken, {
        # Small numbers of another origin.
        "inputs = images / 255  # <-": "inputs = torch.rand(64, 64) / 255",
    }), edit(broken, {
        # Scaled once, and centered.
        "inputs = images / 255  # <-": "inputs = (images - 0.5) / 255",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[int, int] = {}

    def on_call(self, call: ModuleCall) -> None:
        key = id(call.module)
        if self.times.get(key, 0) >= _CALLS or not call.tensors or not call.recorded:
            return
        values = call.tensors[0]._array.reshape(-1)[:_MAX_PIXELS]
        scaled = values.dtype.kind == "f" and values.size >= _MIN_PIXELS and values.min() >= 0 \
            and 0.5 < values.max() * 255 < 1.001 and _on_grid(values * (255.0 * 255.0))
        self.times[key] = self.times.get(key, 0) + 1 if scaled else _CALLS
        if scaled and self.times[key] == _CALLS:
            line = find_assignment(call.tensors[0], find_user_frame(1))
            self.report("the model's inputs are bytes divided by 255 twice",
                        Place(*line) if line else None, call.spot, largest=float(values.max()))


def _on_grid(values: np.ndarray) -> bool:
    return bool(np.abs(values - np.round(values)).max() < _TOLERANCE) \
        and len(np.unique(np.round(values[:_COUNTED_PIXELS]))) > 2
