"""Inputs scaled by statistics that are not those of the training data."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ...events import ModuleCall, Statistic
from ...finding import Level, Place
from ...places import Spot, place_of
from ...programs import edit
from ...samples import hash_rows
from ...source import parse_file
from ..rule import Rule

_ROWS = 16  # of each part
_MAX_ROWS = 1 << 14  # rows of a part that are added up
_ERROR = 2e-4  # of a mean and a deviation that were set to 0 and 1: float32, and an epsilon
_SCALERS = ("fit_transform", "fit")
_MAX_STATISTICS = 64  # that are remembered


class Part:
    """The rows of one part of the data, each once, and their sums by column."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.count, self.whole = 0, True
        self.sums: tuple[Any, Any] = 0.0, 0.0  # of the numbers and of their squares
        self.spot: Spot | None = None

    def add(self, call: ModuleCall) -> None:
        """Add the samples of a batch that have not been added before."""
        array = call.tensors[0]._array
        hashes = hash_rows(array)
        if len(hashes) != len(array) or len(self.seen) > _MAX_ROWS:
            self.whole = False
            return
        self.spot = call.spot
        unseen = [i for i, row in enumerate(hashes) if row not in self.seen]
        self.seen.update(hashes)
        if unseen:
            rows = array[unseen].astype(np.float64)
            self.count += len(unseen)
            self.sums = self.sums[0] + rows.sum(0), self.sums[1] + (rows * rows).sum(0)

    @property
    def usable(self) -> bool:
        """Whether all rows are known, and enough of them."""
        return self.whole and self.count >= _ROWS

    def deviation(self) -> np.ndarray:
        """How far each column is from mean 0 and deviation 1, whichever way that is counted."""
        return _compute_deviation(self.count, *self.sums)


def _compute_deviation(count: int, sums: Any, squares: Any) -> np.ndarray:
    mean = sums / count
    spread = np.maximum(squares / count - mean * mean, 0)
    biased, unbiased = spread ** 0.5, (spread * count / (count - 1)) ** 0.5
    off = np.minimum(abs(biased - 1), abs(unbiased - 1))
    return np.asarray(np.maximum(abs(mean), off))


def is_standard(deviation: np.ndarray) -> bool:
    """Whether columns were scaled by their own statistics: two or more, and most of them."""
    exact = deviation < _ERROR
    return int(exact.sum()) >= 2 and exact.mean() > 0.5


class ScaledApart(Rule):
    """Adds up the columns of the rows that a model is trained and evaluated on."""

    id = "scaled-by-other-statistics"
    level = Level.LIKELY
    needs = ("on_call", "on_backward", "evaluation")
    title = "inputs are scaled with statistics of the evaluation samples"
    why = (
        "Mean and standard deviation must come from the training data. An evaluation scaled by "
        "its own statistics differs from the inputs that the model knows, and statistics of all "
        "rows leak the test data into training. Reported when the columns of the evaluation rows, "
        "or of all rows together, have mean 0 and standard deviation 1 to four digits and no row "
        "is in both parts. Not reported if not all batches were observed."
    )
    fix = "compute mean and standard deviation of the training rows and scale both parts with them"
    broken = """
def scaled(rows):
    return (rows - rows.mean(0)) / rows.std(0)

train, test = scaled(x[:40]), scaled(x[40:])  # <-
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(train), y[:40]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    accuracy = (net(test).argmax(1) == y[40:]).float().mean()
"""
    fixed = edit(broken, {
        "return (rows - rows.mean(0)) / rows.std(0)":
            "return (rows - x[:40].mean(0)) / x[:40].std(0)",
        "train, test = scaled(x[:40]), scaled(x[40:])  # <-":
            "train, test = scaled(x[:40]), scaled(x[40:])",
    })
    healthy = ("""
# Scaled as a whole, and evaluated on what the model was trained on.
rows = (x - x.mean(0)) / x.std(0)
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(rows), y).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    accuracy = (net(rows).argmax(1) == y).float().mean()
""", """
# Each sample is scaled by itself.
rows = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(rows[:40]), y[:40]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    accuracy = (net(rows[40:]).argmax(1) == y[40:]).float().mean()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.parts: dict[int, tuple[Part, Part]] = {}  # by model: trained on, evaluated on
        self.statistics: list[Statistic] = []

    def on_statistic(self, statistic: Statistic) -> None:
        if len(self.statistics) < _MAX_STATISTICS:
            self.statistics.append(statistic)

    def on_call(self, call: ModuleCall) -> None:
        array = call.tensors[0]._array if call.tensors else None
        if array is None or array.ndim != 2 or array.dtype.kind != "f" or array.shape[1] < 3 \
                or call.tensors[0].requires_grad:
            return
        train, test = self.parts.setdefault(id(call.module), (Part(), Part()))
        if call.recorded and call.module.training and train.whole:
            train.add(call)
        elif not call.recorded and not call.module.training and test.whole and train.count:
            test.add(call)

    def finish(self) -> None:
        """Whether a part, or both together, was standardized."""
        for train, test in list(self.parts.values()):
            if self.session.rested or not train.usable or not test.usable \
                    or len(train.seen & test.seen) or np.shape(train.sums) != np.shape(test.sums):
                continue
            self._judge(train, test)

    def _judge(self, train: Part, test: Part) -> None:
        is_scaled = is_standard(test.deviation())
        count = train.count + test.count
        sums, squares = (a + b for a, b in zip(train.sums, test.sums, strict=True))
        if is_scaled and is_standard(train.deviation() / 500):
            self.report(f"the {test.count} evaluation samples are scaled by their own mean "
                        f"and deviation", *self._find_cause(test.count, test.spot, True), test.spot,
                        rows=test.count, **{"largest deviation": float(test.deviation().max())})
        elif not is_scaled and not is_standard(train.deviation()) \
                and is_standard(_compute_deviation(count, sums, squares)):
            self.report(f"mean and standard deviation are those of all {count} samples, "
                        f"{test.count} evaluation samples included",
                        *self._find_cause(count, test.spot, False), test.spot,
                        rows=count, evaluated=test.count)

    def _find_cause(self, rows: int, spot: Spot | None, last: bool) -> list[Spot | Place | None]:
        """Return the lines that took statistics of `rows` rows: the caller of a function that
        several parts share, else the statistic itself."""
        for statistic in self.statistics:
            if statistic.rows == rows:
                row_counts = {other.rows for other in self.statistics
                              if other.spots[0] == statistic.spots[0]}
                return [*(reversed(statistic.spots)
                          if len(row_counts) > 1 else statistic.spots[:1])]
        return [_fit(spot, last)]


def _fit(spot: Spot | None, last: bool) -> Place | None:
    """Return the first or last call in a spot's file that takes statistics of columns. Calls of
    NumPy and scikit-learn send no events, so read the source."""
    place = place_of(spot)
    tree = parse_file(place.file) if place is not None else None
    lines = sorted(node.lineno for node in ast.walk(tree)
                   if isinstance(node, ast.Call) and _takes_statistics(node)) \
        if tree is not None else []
    return Place(place.file, lines[-1 if last else 0]) if place is not None and lines else None


def _takes_statistics(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute):
        return False
    axes = [*node.args, *(k.value for k in node.keywords if k.arg in ("axis", "dim"))]
    return node.func.attr in _SCALERS or node.func.attr in ("mean", "std", "var") and any(
        isinstance(axis, ast.Constant) and axis.value == 0 for axis in axes)
