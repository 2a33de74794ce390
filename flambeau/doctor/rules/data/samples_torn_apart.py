"""A collate function that orders inputs and labels apart."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...finding import Level, Place
from ...programs import edit
from ...source import find_body
from ..rule import Rule

_TIMES = 2
_ORDERS = ("sorted", "sort", "argsort", "shuffle", "randperm", "reverse", "reversed")


class SamplesTornApart(Rule):
    """Finds the samples of a batch again in what a collate function returned."""

    id = "samples-torn-apart"
    level = Level.CERTAIN
    needs = ("on_collate",)
    title = "the collate function pairs samples with the labels of other samples"
    why = (
        "If sequences are sorted by length for packing, their labels must be sorted with them. "
        "Reported when all rows of a batch come from its samples, but the labels are the samples' "
        f"labels in an order that does not match the rows, in {_TIMES} batches."
    )
    fix = "sort the samples as pairs: batch = sorted(batch, key=lambda pair: -len(pair[0]))"
    broken = """
samples = [(torch.randn(3 + i % 5, 2), i % 3) for i in range(48)]

def collate(batch):
    rows = sorted((row for row, _ in batch), key=len)  # <-
    return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([y for _, y in batch])

rnn, head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 3)
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
for rows, labels in DataLoader(samples, batch_size=16, collate_fn=collate):
    loss = F.cross_entropy(head(rnn(rows)[0].mean(1)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "rows = sorted((row for row, _ in batch), key=len)  # <-":
            "batch = sorted(batch, key=lambda pair: len(pair[0]))\n"
            "rows = [row for row, _ in batch]",
    })
    healthy = (edit(broken, {
        # The order of the batch.
        "rows = sorted((row for row, _ in batch), key=len)  # <-":
            "rows = [row for row, _ in batch]",
    }), edit(broken, {
        # Labels of another numbering.
        "rows = sorted((row for row, _ in batch), key=len)  # <-":
            "rows, batch = [row for row, _ in batch], [(row, 2 - y) for row, y in batch]",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[Any, int] = {}

    def on_collate(self, collate: Any, samples: list[Any], batch: Any) -> None:
        code = collate.__code__
        if self.times.get(code, 0) >= _TIMES or not isinstance(batch, (tuple, list)):
            return
        pairs = [(sample[0]._array, _read_number(sample[1])) for sample in samples
                 if isinstance(sample, (tuple, list)) and len(sample) == 2
                 and isinstance(sample[0], Tensor)]
        if len(pairs) < max(4, len(samples)) or any(label is None for _, label in pairs):
            return
        sample_labels = np.array([label for _, label in pairs])
        columns = [column._array for column in batch if isinstance(column, Tensor)]
        labels = [a for a in columns if a.shape == sample_labels.shape
                  and np.array_equal(np.sort(a), np.sort(sample_labels))]
        for rows in columns:
            order = _order(rows, [array for array, _ in pairs])
            if order is not None and len(labels) == 1 and (labels[0] != sample_labels[order]).any():
                self._tell(collate, len(samples))

    def _tell(self, collate: Any, count: int) -> None:
        code = collate.__code__
        self.times[code] = self.times.get(code, 0) + 1
        if self.times[code] == _TIMES:
            self.report("rows of the batch have labels of other samples", find_ordering(code),
                        samples=count)


def _read_number(label: Any) -> float | None:
    if isinstance(label, Tensor) and label._array.size == 1:
        return float(label._array.reshape(-1)[0])
    return float(label) if isinstance(label, (int, float, np.integer)) else None


def _order(rows: np.ndarray, samples: list[np.ndarray]) -> list[int] | None:
    """Return the index of each row's sample in a padded batch; None if any row is ambiguous."""
    if len(rows) != len(samples) or rows.ndim != samples[0].ndim + 1 or rows.dtype.kind != "f":
        return None
    order = []
    for row in rows:
        matches = [i for i, sample in enumerate(samples)
                   if sample.size > 1 and sample.shape[1:] == row.shape[1:]
                   and len(sample) <= len(row)
                   and np.array_equal(row[:len(sample)], sample)]
        if len(matches) != 1:
            return None
        order.append(matches[0])
    return order if len(set(order)) == len(order) else None


def find_ordering(code: Any) -> Place:
    """The line of a function that puts things in order; its first one where there is none."""
    body = find_body(code.co_filename, code)
    lines = [node.lineno for node in ast.walk(body) if isinstance(node, ast.Call)
             and ast.unparse(node.func).rsplit(".", 1)[-1] in _ORDERS] if body is not None else []
    return Place(code.co_filename, min(lines, default=code.co_firstlineno), code.co_qualname)
