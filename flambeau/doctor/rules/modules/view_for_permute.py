"""view() where axes were to be moved."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class ViewForPermute(Rule):
    """Compares the shape of a tensor with that of its view."""

    id = "view-for-permute"
    level = Level.LIKELY
    needs = ("on_view",)
    title = "view() or reshape() to the same lengths in another order does not move the axes"
    why = (
        "It reads the same numbers in the same order: pixels of all channels are mixed up. Told "
        "for three or more axes, when the new lengths are the old ones in another order, and "
        "which one went where is clear. Silent for lengths of 1."
    )
    fix = "permute(...) or transpose(...) moves axes"
    broken = """
images = torch.rand(8, 12, 10, 3)
net = nn.Conv2d(3, 4, 3)
out = net(images.view(8, 3, 12, 10))  # <-
"""
    fixed = edit(broken, {
        "out = net(images.view(8, 3, 12, 10))  # <-": "out = net(images.permute(0, 3, 1, 2))",
    })
    healthy = ("""
# Heads of attention: an axis is split, then moved.
q = torch.randn(4, 6, 16)
heads = q.view(4, 6, 2, 8).transpose(1, 2)
back = heads.transpose(1, 2).reshape(4, 6, 16)
""", """
# A channel is added to images of one colour.
images = torch.rand(8, 12, 10)
out = nn.Conv2d(1, 4, 3)(images.view(8, 1, 12, 10))
""")

    def on_view(self, before: Any, after: Any, spot: Spot | None) -> None:
        old, new = before._array.shape, after._array.shape
        if len(old) < 3 or len(old) != len(new) or old == new or sorted(old) != sorted(new) \
                or 1 in old or before._array.dtype.kind != "f":
            return
        if isinstance(after, Tensor):
            self.report(f"a view of {old} as {new} mixes up the axes: it moves none", spot,
                        **{"from": str(old), "to": str(new)})
