"""Rows that are kept for a test, in the loss of the training."""

from __future__ import annotations

import ast
import re
from types import FrameType
from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame, is_internal
from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...places import Spot, find_variable_name, place_of
from ...programs import edit
from ...source import find_statements
from ..rule import Rule

_NAMES = re.compile(r"(^|_)(test|te|val|valid|validation|held|holdout|dev)(_|\d|$)", re.IGNORECASE)
_TRAINED = re.compile(r"(^|_)(train|training|tr)(_|\d|$)", re.IGNORECASE)
_TIMES = 2  # losses of all rows
_ROWS = 8
_MAX_TARGETS = 64  # that are remembered
_MAX_SHARE = 0.8  # of the rows that are held out


class HeldOutInLoss(Rule):
    """Looks for targets that a loss took as a whole, and of which a part is evaluated."""

    id = "held-out-rows-in-the-loss"
    level = Level.LIKELY
    needs = ("on_loss", "on_compare", "on_function")
    title = "the loss covers all rows, including those held out for the test"
    why = (
        "A graph is processed as a whole, and masks select the nodes for training and for "
        "testing. Reported when training computes the loss on all targets, and the accuracy uses "
        "a part of the same targets, selected by a mask or indices named like held-out rows, such "
        "as test_mask, or by the complement of the training rows. A hint for other names."
    )
    fix = "loss = criterion(out[train_mask], y[train_mask])"
    broken = """
test_mask = torch.arange(64) >= 48
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    scores = net(x)
    F.cross_entropy(scores, y).backward()  # <-
    optimizer.step()
    accuracy = (scores.argmax(1)[test_mask] == y[test_mask]).float().mean()
"""
    fixed = edit(broken, {
        "F.cross_entropy(scores, y).backward()  # <-":
            "F.cross_entropy(scores[~test_mask], y[~test_mask]).backward()",
    })
    healthy = (edit(broken, {
        # The accuracy of each class, of what is trained on.
        "test_mask = torch.arange(64) >= 48": "",
        "accuracy = (scores.argmax(1)[test_mask] == y[test_mask]).float().mean()":
            "accuracy = [(scores.argmax(1)[y == c] == c).float().mean() for c in range(3)]",
    }), """
# All rows go into the loss, those of the test with the weight 0.
test_mask = torch.arange(64) >= 48
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    scores = net(x)
    (F.cross_entropy(scores, y, reduction="none") * ~test_mask).mean().backward()
    optimizer.step()
    accuracy = (scores.argmax(1)[test_mask] == y[test_mask]).float().mean()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.whole: dict[tuple[int, int], tuple[Any, Spot | None, int]] = {}  # targets of losses
        self.parts: list[tuple[Any, Any, Any]] = []  # of targets: the result, the whole, the index
        self.results: list[tuple[Any, Any]] = []  # comparisons of all rows, and their targets

    def on_loss(self, call: LossCall) -> None:
        target = getattr(call.target, "_array", None)
        if target is None or not call.recorded or target.ndim != 1 or len(target) < _ROWS \
                or call.argument("reduction", "mean") == "none" or call.name not in (
                    "cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "mse_loss") \
                or np.any(target == call.argument("ignore_index", -100)):
            return
        previous = self.whole.get(_make_key(call.target))
        if len(self.whole) < _MAX_TARGETS or previous is not None:
            self.whole[
                _make_key(call.target)
            ] = call.target, call.spot, previous[2] + 1 if previous else 1

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name != "getitem":
            return
        source, index, result = args[0], args[1], args[-1]
        chosen = getattr(index, "_array", None)
        if not isinstance(result, Tensor) or chosen is None or chosen.ndim != 1:
            return
        for compared, target in self.results:
            if compared is source or _shows(source, compared):
                self._judge(target, index, spot)
        if _make_key(source) in self.whole:
            self.parts = [*self.parts[-7:], (result, source, index)]

    def on_compare(self, a: Any, b: Any, result: Any, spot: Spot | None) -> None:
        for rows, table, index in self.parts:
            if rows is a or rows is b:
                self._judge(table, index, spot)
        for side in (a, b):
            if _make_key(side) in self.whole:
                self.results = [*self.results[-3:], (result, side)]

    def _judge(self, target: Any, index: Any, spot: Spot | None) -> None:
        _, loss, times = self.whole[_make_key(target)]
        rows = index._array
        count = int(rows.sum()) if rows.dtype.kind == "b" else len(rows)
        if times < _TIMES or not 0 < count < _MAX_SHARE * len(target._array) \
                or find_bound_name(index, _TRAINED, find_user_frame(1)):
            return
        name = find_held_out_name(index, find_user_frame(1)) or _find_subscript_name(spot)
        shown = name or find_variable_name(index, find_user_frame(1)) or "a part"
        self.report(f"the loss is of all {len(target._array)} rows, {count} of which are evaluated "
                    f"as {shown}", loss, spot, level=None if name else Level.HINT,
                    rows=len(target._array), evaluated=count)


def find_bound_name(target: Any, pattern: re.Pattern[str], frame: FrameType | None) -> str | None:
    """The name, of those that fit a pattern, of a variable that holds an object."""
    while frame is not None:
        if not is_internal(frame.f_code):
            for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
                if value is target and pattern.search(name):
                    return str(name)
        frame = frame.f_back
    return None


def find_held_out_name(index: Any, frame: FrameType | None) -> str | None:
    """Return a name that marks rows as held out: of a variable with the index, or of the training
    mask that the index complements."""
    name, rows = find_bound_name(index, _NAMES, frame), index._array
    while name is None and frame is not None and rows.dtype.kind == "b":
        for candidate, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
            mask = getattr(value, "_array", None) if _TRAINED.search(candidate) else None
            if isinstance(mask, np.ndarray) and mask.dtype.kind == "b" \
                    and mask.shape == rows.shape and not (mask == rows).any():
                return f"~{candidate}"
        frame = frame.f_back
    return name


def _find_subscript_name(spot: Spot | None) -> str | None:
    """Return the attribute by which the statement at a spot picks held-out rows: data.test_mask."""
    place = place_of(spot)
    statements = list(find_statements(place.file, place.line))[-1:] if place is not None else []
    for node in (child for statement in statements for child in ast.walk(statement)):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Attribute) \
                and _NAMES.search(node.slice.attr):
            return ast.unparse(node.slice)
    return None


def _shows(tensor: Any, compared: Any) -> bool:
    """Whether a tensor holds a comparison's results as numbers, as `.float()` gives them."""
    a, b = tensor._array, compared._array
    return a.shape == b.shape and a.dtype.kind == "f" and bool(np.array_equal(a, b))


def _make_key(tensor: Tensor) -> tuple[int, int]:
    array = tensor._array
    return array.__array_interface__["data"][0], array.size
