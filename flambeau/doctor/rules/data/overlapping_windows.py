"""Windows of a series that are divided at random between training and evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_LENGTH = 3  # values of a piece
_MAX_PIECES = 60_000  # of the training rows
_MAX_ROWS = 256  # of a batch
_MAX_COLUMNS = 512
_MIN_COVERED_ROWS = 16
_MIN_COVERED_SHARE = 0.66  # of the evaluated rows
_MIN_KNOWN_SHARE = 0.75  # of the pieces of a covered row


class OverlappingWindows(Rule):
    """Looks for pieces of the evaluated series in those that were trained on."""

    id = "windows-overlap"
    level = Level.LIKELY
    needs = ("on_call", "evaluation")
    title = "evaluated windows overlap training windows"
    why = (
        "Neighboring windows of a series share all values but one, so a random split leaks the "
        "evaluation's answers into the training data. Reported when at least two thirds of the "
        f"evaluated rows, and at least {_MIN_COVERED_ROWS}, consist of runs of {_LENGTH} values "
        "that occur in training rows, without being training rows themselves. Not reported for a "
        "split in time, where only windows at the border overlap."
    )
    fix = "split the series in time first, then cut each part into windows"
    broken = """
series = torch.randn(140).cumsum(0)
windows = series.unfold(0, 9, 1)
order = torch.randperm(len(windows))  # <-
train, test = windows[order[:100]], windows[order[100:]]
net = nn.Linear(8, 1)
optimizer = optim.Adam(net.parameters())
for rows in train.split(20):
    optimizer.zero_grad()
    F.mse_loss(net(rows[:, :8]), rows[:, 8:]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    error = F.mse_loss(net(test[:, :8]), test[:, 8:])
"""
    fixed = edit(broken, {
        "windows = series.unfold(0, 9, 1)":
            "train, test = series[:100].unfold(0, 9, 1), series[100:].unfold(0, 9, 1)",
        "order = torch.randperm(len(windows))  # <-": "",
        "train, test = windows[order[:100]], windows[order[100:]]": "",
    })
    healthy = ("""
# Windows split in time: those at the border overlap.
windows = torch.randn(140).cumsum(0).unfold(0, 9, 1)
train, test = windows[:100], windows[100:]
net = nn.Linear(8, 1)
optimizer = optim.Adam(net.parameters())
for rows in train.split(20):
    optimizer.zero_grad()
    F.mse_loss(net(rows[:, :8]), rows[:, 8:]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    error = F.mse_loss(net(test[:, :8]), test[:, 8:])
""", """
# Rows that share some features, as tables do.
table = torch.cat([x[torch.arange(64) // 8][:, :4], x[:, 4:]], dim=1)
net = nn.Linear(8, 1)
optimizer = optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    F.mse_loss(net(table[::2]), t[::2]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    error = F.mse_loss(net(table[1::2]), t[1::2])
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.pieces: dict[int, set[bytes]] = {}
        self.rows: dict[int, set[bytes]] = {}
        self.counts: dict[int, list[int]] = {}  # rows evaluated, of them covered
        self.shuffled: Spot | None = None

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name == "randperm" and self.shuffled is None and not self.pieces:
            self.shuffled = spot

    def on_call(self, call: ModuleCall) -> None:
        rows = _read_series(call)
        if rows is None or not self.session.watching:
            return
        key = id(call.module)
        trained_pieces = self.pieces.setdefault(key, set())
        trained_rows = self.rows.setdefault(key, set())
        if call.recorded and call.module.training:
            if len(trained_pieces) < _MAX_PIECES:
                trained_pieces.update(piece for row in rows for piece in _cut_pieces(row))
                trained_rows.update(row.tobytes() for row in rows)
        elif not call.recorded and not call.module.training and trained_pieces:
            counts = self.counts.setdefault(key, [0, 0])
            counts[0] += len(rows)
            counts[1] += sum(_is_covered(row, trained_pieces, trained_rows) for row in rows)
            if counts[1] >= max(_MIN_COVERED_ROWS, _MIN_COVERED_SHARE * counts[0]):
                self.report("evaluated windows consist of values that were trained on",
                            self.shuffled, call.spot, windows=counts[0],
                            **{"covered by training windows": counts[1]})


def _is_covered(row: np.ndarray, pieces: set[bytes], rows: set[bytes]) -> bool:
    """Whether a row is not a training row, but consists of pieces of training rows."""
    row_pieces = _cut_pieces(row)
    if not row_pieces or row.tobytes() in rows:
        return False
    return sum(piece in pieces for piece in row_pieces) >= _MIN_KNOWN_SHARE * len(row_pieces)


def _read_series(call: ModuleCall) -> np.ndarray | None:
    """Return the inputs as rows, a series each; None for inputs of another form."""
    if not call.tensors:
        return None
    array = call.tensors[0]._array
    if array.dtype.kind != "f" or call.tensors[0].requires_grad:
        return None
    if array.ndim == 3 and 1 in array.shape[1:]:
        array = array.reshape(len(array), -1)
    usable = array.ndim == 2 and 2 * _LENGTH <= array.shape[1] <= _MAX_COLUMNS
    return np.ascontiguousarray(array[:_MAX_ROWS]) if usable else None


def _cut_pieces(row: np.ndarray) -> list[bytes]:
    """Neighbouring values, where they differ and are no round numbers, without their place."""
    return [
        row[i : i + _LENGTH].tobytes() for i in range(len(row) - _LENGTH + 1)
        if row[i] != row[i + 1] and row[i] != round(float(row[i]), 2)
    ]
