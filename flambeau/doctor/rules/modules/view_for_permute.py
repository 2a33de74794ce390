"""view() where axes were to be moved."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ...events import Backward
from ...finding import Level
from ...graph import find_producer, get_operator_name
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MAX_PENDING = 64  # views that are remembered
_PADDING = ("pad", "_pad", "constant_pad_nd", "cat")


class ViewForPermute(Rule):
    """Compares the shape of a tensor with that of its view."""

    id = "view-for-permute"
    level = Level.LIKELY
    needs = ("on_view",)
    title = "view() or reshape() to permuted sizes does not move the axes"
    why = (
        "It reads the same elements in the same order: pixels of all channels are mixed up. "
        "Reported for three or more axes if the new sizes are a permutation of the old ones and "
        "the mapping is unambiguous. Not reported for sizes of 1, or if the last two axes are "
        "exchanged to shift rows against each other: after padding, or with a view back after "
        "dropping rows, as relative positions do."
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
# A channel is added to images of one color.
images = torch.rand(8, 12, 10)
out = nn.Conv2d(1, 4, 3)(images.view(8, 1, 12, 10))
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        # Views that exchange the last two axes, which the next one may take back.
        self.pending: list[tuple[tuple[int, ...], tuple[int, ...], Spot | None]] = []

    def on_view(self, before: Any, after: Any, spot: Spot | None) -> None:
        old, new = before._array.shape, after._array.shape
        if len(old) < 3 or len(old) != len(new) or old == new or sorted(old) != sorted(new) \
                or 1 in old or before._array.dtype.kind != "f":
            return
        if not isinstance(after, Tensor) or self._returns(old, new):
            return
        if old[:-2] != new[:-2]:
            self._tell(old, new, spot)
        elif not _is_padded(before):
            self.pending = [*self.pending[1 - _MAX_PENDING:], (old, new, spot)]

    def _returns(self, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        """Whether a view takes an earlier one back, of all of its rows or some."""
        for entry in self.pending:
            if entry[1][:-2] == old[:-2] and entry[1][-1] == old[-1] == new[-2]:
                self.pending.remove(entry)
                return True
        return False

    def on_backward(self, backward: Backward) -> None:
        self.finish()

    on_gradient = on_backward

    def finish(self) -> None:
        pending, self.pending = self.pending, []
        for entry in pending:
            self._tell(*entry)

    def _tell(self, old: tuple[int, ...], new: tuple[int, ...], spot: Spot | None) -> None:
        self.report(f"a view of {old} as {new} mixes up the axes: a view does not move axes", spot,
                    **{"from": str(old), "to": str(new)})


def _is_padded(tensor: Tensor) -> bool:
    """Whether a tensor comes from padding, or its last row is one number, as padding leaves it."""
    node, rows = find_producer(tensor), tensor._array
    return node is not None and get_operator_name(node) in _PADDING \
        or bool((rows[..., -1, :] == rows[..., -1:, -1:][..., 0, :]).all())
