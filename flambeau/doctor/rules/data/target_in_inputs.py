"""A feature that is the target."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame, is_internal
from ...events import Backward, LossCall, ModuleCall
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ...source import find_body, find_table
from ..rule import Rule

_BATCHES = 3
_ROWS = 32
_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
           "binary_cross_entropy_with_logits", "cross_entropy")
_COLUMNS = 3, 512  # at least and at most


class TargetInInputs(Rule):
    """Compares the columns of a model's inputs with the target of its loss."""

    id = "target-in-the-inputs"
    level = Level.LIKELY
    needs = ("on_call", "on_loss")
    title = "one of the input columns is the target: the network copies it"
    why = (
        "A table that still contains the column to predict gives excellent results, but none once "
        "the column is unknown. Reported when one of at least three columns, or the last step of "
        f"a window, equals the target in all rows of {_BATCHES} batches and {_ROWS} rows. Not "
        "reported for targets with several columns, such as an autoencoder's."
    )
    fix = "remove the target's column from the inputs"
    broken = """
table = torch.cat([x, t], dim=1)
net = nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = optim.Adam(net.parameters())
for rows in table.split(16):
    loss = F.mse_loss(net(rows), rows[:, -1:])  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net = nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 1))":
            "net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))",
        "loss = F.mse_loss(net(rows), rows[:, -1:])  # <-":
            "loss = F.mse_loss(net(rows[:, :-1]), rows[:, -1:])",
    })
    healthy = ("""
# An autoencoder: all inputs are targets.
net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 8))
optimizer = optim.Adam(net.parameters())
for rows in x.split(16):
    loss = F.mse_loss(net(rows), rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A line through points, of which there is one feature.
net = nn.Linear(1, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for rows in t.split(16):
    loss = F.mse_loss(net(rows), rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.inputs: np.ndarray | None = None
        self.windows: np.ndarray | None = None  # inputs of three axes: samples, steps, features
        self.loader: Any = None
        self.seen: dict[tuple[Spot | None, int], list[int]] = {}  # batches and rows that agree

    def on_call(self, call: ModuleCall) -> None:
        array = call.tensors[0]._array if call.tensors and call.recorded else None
        if array is not None and array.ndim == 3 and array.shape[1] > 2 \
                and array.dtype.kind == "f" and not call.tensors[0].requires_grad:
            self.windows = array
        usable = array is not None and array.ndim == 2 and array.dtype.kind == "f" \
            and _COLUMNS[0] <= array.shape[1] <= _COLUMNS[1] and not call.tensors[0].requires_grad
        if usable:
            self.inputs = array

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        self.loader = self.session.loaders.get(iterator)

    def _table(self, inputs: np.ndarray) -> np.ndarray:
        """The table that the inputs are rows of: a dataset's, whose rows a loader copied."""
        tensors = getattr(getattr(self.loader, "dataset", None), "tensors", None) or ()
        for array in (getattr(tensor, "_array", inputs) for tensor in tensors[:4]):
            if array.shape[1:] == inputs.shape[1:] and array is not inputs:
                return array
        return inputs

    def on_backward(self, backward: Backward) -> None:
        self.inputs = self.windows = None

    on_gradient = on_backward

    def on_loss(self, call: LossCall) -> None:
        self._judge_windows(call)
        inputs, target = self.inputs, getattr(call.target, "_array", None)
        if inputs is None or target is None or call.name not in _LOSSES or not call.recorded \
                or target.size != len(inputs) or getattr(call.target, "requires_grad", False):
            return
        target_values = target.reshape(-1)
        if target_values.min() == target_values.max():
            return
        equal = (inputs == target_values[:, None]).all(0)
        for column in np.flatnonzero(equal)[:4] if equal.sum() < inputs.shape[1] else ():
            counts = self.seen.setdefault((call.spot, int(column)), [0, 0])
            counts[0] += 1
            counts[1] += len(target_values)
            if counts[0] >= _BATCHES and counts[1] >= _ROWS:
                shared = np.shares_memory(inputs, target)  # written so, as in many an example
                line = find_table(self._table(inputs), find_user_frame(1))
                self.report(f"column {column} of the inputs is the target",
                            Place(*line) if line and not shared else None, call.spot,
                            level=Level.HINT if shared else None,
                            rows=counts[1], columns=inputs.shape[1])

    def _judge_windows(self, call: LossCall) -> None:
        """Compare the last step of windows with the targets."""
        windows, target = self.windows, getattr(call.target, "_array", None)
        if windows is None or target is None or call.name not in _LOSSES or not call.recorded \
                or target.size != len(windows) or target.min() == target.max():
            return
        if not (windows[:, -1] == target.reshape(-1, 1)).all(0).any():
            return
        counts = self.seen.setdefault((call.spot, -1), [0, 0])
        counts[0] += 1
        counts[1] += len(windows)
        if counts[0] >= _BATCHES and counts[1] >= _ROWS:
            self.report("the target is the last step of the model's input window",
                        _find_target_line(getattr(self.loader, "dataset", None)), call.spot,
                        fix="take the step after the window: series[start + length]",
                        rows=counts[1], steps=windows.shape[1])


def _find_target_line(dataset: Any) -> Place | None:
    """Return the line of a dataset's `__getitem__` that computes its second result."""
    code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    if code is None or is_internal(code):
        return None
    body = find_body(code.co_filename, code)
    nodes = list(ast.walk(body)) if body is not None else []
    values = [node.value.elts[1] for node in nodes if isinstance(node, ast.Return)
              and isinstance(node.value, ast.Tuple) and len(node.value.elts) > 1]
    if not values:
        return None
    names = {child.id for child in ast.walk(values[-1]) if isinstance(child, ast.Name)}
    lines = [node.lineno for node in nodes if isinstance(node, ast.Assign)
             and any(isinstance(child, ast.Name) and child.id in names
                     for target in node.targets for child in ast.walk(target))]
    return Place(code.co_filename, max(lines, default=values[-1].lineno), code.co_qualname)
