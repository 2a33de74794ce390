"""Inputs of an evaluation on another scale than those of the training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame
from ...events import ModuleCall
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ...source import find_assignment, find_table
from ..rule import Rule

_FACTOR = 10.0  # between deviations, or of a deviation between means
_NUMBERS = 256  # of each part, at least
_BATCHES = 32  # of each part that are looked at
_MOST = 0.8  # share of the columns that are off


class Scale:
    """Mean and deviation of the inputs of one part: by column for tables, else of all numbers."""

    def __init__(self) -> None:
        self.count, self.batches = 0, 0
        self.sums: tuple[Any, Any] = 0.0, 0.0
        self.places: list[Spot | Place | None] = []

    def add(self, array: np.ndarray) -> None:
        """Add the numbers of a batch, unless there were enough."""
        if self.batches >= _BATCHES:
            return
        rows = array.astype(np.float64) if array.ndim == 2 else \
            array.astype(np.float64).reshape(-1, 1)
        if np.shape(self.sums[0]) in ((), rows.shape[1:]):
            self.batches += 1
            self.count += len(rows)
            self.sums = self.sums[0] + rows.sum(0), self.sums[1] + (rows * rows).sum(0)

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation."""
        mean = self.sums[0] / self.count
        return mean, np.sqrt(np.maximum(self.sums[1] / self.count - mean * mean, 0))


class EvaluationScale(Rule):
    """Compares mean and deviation of a model's inputs in training and in evaluation."""

    id = "evaluation-on-another-scale"
    level = Level.LIKELY
    needs = ("on_call", "on_backward", "evaluation")
    title = "evaluation inputs are on a different scale from training inputs"
    why = (
        "Evaluation inputs must be divided, centered and scaled like training inputs. Reported "
        f"when standard deviations differ by a factor of {_FACTOR:.0f}, or means by {_FACTOR:.0f} "
        "standard deviations, in most columns of tables or over all elements of images and "
        "sequences."
    )
    fix = "apply the same preprocessing to both"
    broken = """
images = torch.randint(0, 256, (64, 16)).float()
train, test = images[:48] / 255, images[48:]  # <-
net = nn.Linear(16, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(train), y[:48]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    accuracy = (net(test).argmax(1) == y[48:]).float().mean()
"""
    fixed = edit(broken, {
        "train, test = images[:48] / 255, images[48:]  # <-":
            "train, test = images[:48] / 255, images[48:] / 255",
    })
    healthy = (edit(broken, {
        # Other data: somewhat farther, somewhat wider.
        "train, test = images[:48] / 255, images[48:]  # <-":
            "train, test = images[:48] / 255, 3 * images[48:] / 255 + 1",
    }), edit(broken, {
        # One of the columns is on another scale.
        "train, test = images[:48] / 255, images[48:]  # <-":
            "train, test = images[:48] / 255, images[48:] / 255\ntest[:, 0] *= 100",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.parts: dict[int, tuple[Scale, Scale]] = {}  # by model: of training, of evaluation
        self.loader: Any = None

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        self.loader = self.session.loaders.get(iterator)

    def on_call(self, call: ModuleCall) -> None:
        array = call.tensors[0]._array if call.tensors else None
        if array is None or array.ndim < 2 or array.dtype.kind != "f" or not array.size \
                or call.tensors[0].requires_grad:
            return
        train, test = self.parts.setdefault(id(call.module), (Scale(), Scale()))
        if call.recorded and call.module.training:
            train.add(array)
        elif not call.recorded and not call.module.training and train.count:
            if not test.places:
                test.places = [*self._find_origin(array), call.spot]
            test.add(array)

    def _find_origin(self, array: np.ndarray) -> list[Place]:
        """Where the evaluation's table or dataset was built."""
        frame = find_user_frame(1)
        line = find_table(array, frame, latest=True) or find_assignment(
            getattr(self.loader, "dataset", None), frame)
        return [Place(*line)] if line else []

    def finish(self) -> None:
        for train, test in self.parts.values():
            columns = np.size(train.sums[0])
            if min(train.count, test.count) * columns < _NUMBERS \
                    or np.shape(train.sums) != np.shape(test.sums):
                continue
            (mean, spread), (test_mean, test_spread) = train.moments, test.moments
            valid = (spread > 0) & (test_spread > 0)
            if not valid.any():
                continue
            ratio = test_spread[valid] / spread[valid]
            is_shifted = np.abs(test_mean - mean)[valid] > _FACTOR * np.maximum(test_spread,
                                                                                spread)[valid]
            is_off = (ratio > _FACTOR) | (ratio < 1 / _FACTOR) | is_shifted
            if is_off.mean() > _MOST and valid.mean() > 0.5:
                self.report("the model is evaluated with inputs on a different scale than in "
                            "training", *test.places,
                            **{"deviation in training": float(np.median(spread[valid])),
                               "in the evaluation": float(np.median(test_spread[valid]))})
