"""Labels of pixels that are resized as if they were colors."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ...events import LossCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_PIXELS = 1 << 20  # of the largest map looked at
_MEANS = ("linear", "bilinear", "bicubic", "trilinear", "area")


class LabelsInterpolated(Rule):
    """Compares class indices with an earlier interpolation of whole numbers."""

    id = "labels-interpolated"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "class indices are resized by interpolation: between classes 1 and 3 it creates class 2"
    why = (
        "The mean of two class indices is no class or a different one. Resize labels with "
        'mode="nearest". Certain if the targets of cross_entropy are the rounded result of '
        "interpolating integers and differ from the result of nearest. Not reported for images or "
        "probabilities."
    )
    fix = 'F.interpolate(labels, size=..., mode="nearest")'
    broken = """
net = nn.Conv2d(1, 4, 3, padding=1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
pictures, masks = torch.randn(4, 1, 6, 6), torch.randint(0, 4, (4, 1, 12, 12))
for _ in range(3):
    small = F.interpolate(masks.float(), size=(6, 6), mode="bilinear")  # <-
    loss = F.cross_entropy(net(pictures), small[:, 0].long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        'small = F.interpolate(masks.float(), size=(6, 6), mode="bilinear")  # <-':
            'small = F.interpolate(masks.float(), size=(6, 6), mode="nearest")',
    })
    healthy = ("""
# Pictures of whole numbers are resized; labels are not.
net = nn.Conv2d(1, 4, 3, padding=1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
pictures, masks = torch.randint(0, 4, (4, 1, 12, 12)), torch.randint(0, 4, (4, 6, 6))
for _ in range(3):
    small = F.interpolate(pictures.float(), size=(6, 6), mode="bilinear")
    loss = F.cross_entropy(net(small), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# One map for each class: shares of a pixel are probabilities.
net = nn.Conv2d(1, 4, 3, padding=1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
pictures, masks = torch.randn(4, 1, 6, 6), torch.randint(0, 4, (4, 12, 12))
for _ in range(3):
    maps = F.one_hot(masks, 4).permute(0, 3, 1, 2).float()
    shares = F.interpolate(maps, size=(6, 6), mode="bilinear")
    loss = F.cross_entropy(net(pictures), shares)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.latest: tuple[tuple[Any, ...], dict[str, Any], Spot | None] | None = None
        self.left = 6  # comparisons

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name != "interpolate" or not self.left:
            return
        source = args[0] if args else kwargs.get("input")
        array = getattr(source, "_array", None)
        mode = args[3] if len(args) > 3 else kwargs.get("mode", "nearest")
        if source is not None and array is not None and mode in _MEANS \
                and not source.requires_grad \
                and array.size <= _PIXELS and np.array_equal(array, np.trunc(array)):
            self.latest = args, kwargs, spot

    def on_loss(self, call: LossCall) -> None:
        target = getattr(call.target, "_array", None)
        latest, self.latest = self.latest, None
        if latest is None or call.name not in ("cross_entropy", "nll_loss") or target is None \
                or target.dtype.kind not in "iu":
            return
        args, kwargs, spot = latest
        self.left -= 1
        resize = importlib.import_module("flambeau.nn.functional").interpolate
        resized = resize(*args, **kwargs)._array
        if resized.size != target.size or np.array_equal(resized, np.trunc(resized)):
            return
        flat = target.reshape(-1)
        if any(np.array_equal(cast(resized).reshape(-1), flat) for cast in (np.trunc, np.rint)):
            n_between = int(np.sum(resized != np.trunc(resized)))
            self.report("the labels are means of class indices", spot, call.spot,
                        pixels=int(flat.size), between=n_between)
