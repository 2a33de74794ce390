"""The random transform of training, on the samples of an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame
from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ...source import find_assignment
from ..rule import Rule

_SAMPLES = 4  # of the first batch that are compared
_MAX_DATASETS = 8  # of training that are remembered


class EvaluationAugmented(Rule):
    """Compares the first batch of each pass over a loader that does not shuffle."""

    id = "evaluation-is-augmented"
    level = Level.LIKELY
    needs = ("on_batch", "on_call", "evaluation")
    title = "evaluation samples pass through the random transform used for training"
    why = (
        "Random crops, flips and noise belong to training: in an evaluation they lower the score "
        "and change it from pass to pass. Reported when a loader without shuffling returns "
        "different inputs for the same targets in its next pass, a model is evaluated on them, "
        "and the data set is part of the training set or shares a transform with it. Not reported "
        "if targets have the shape of inputs, as for a denoiser."
    )
    fix = "give the evaluation data set a transform without random parts"
    broken = """
class Noisy(torch.utils.data.Dataset):
    def __init__(self, rows, labels, transform):
        self.rows, self.labels, self.transform = rows, labels, transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.transform(self.rows[i]), self.labels[i]

def jitter(row):
    return row + 0.1 * torch.randn_like(row)

train = Noisy(x[:48], y[:48], jitter)
test = Noisy(x[48:], y[48:], jitter)  # <-
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
training, testing = DataLoader(train, batch_size=16, shuffle=True), DataLoader(test, batch_size=16)
for epoch in range(3):
    net.train()
    for xb, yb in training:
        optimizer.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum(int((net(xb).argmax(1) == yb).sum()) for xb, yb in testing)
"""
    fixed = edit(broken, {
        "test = Noisy(x[48:], y[48:], jitter)  # <-": "test = Noisy(x[48:], y[48:], torch.clone)",
    })
    healthy = (edit(broken, {
        # How robust the model is to noise of its own kind.
        "test = Noisy(x[48:], y[48:], jitter)  # <-":
            "test = Noisy(x[48:], y[48:], lambda row: row + 0.5 * torch.randn_like(row))",
    }), edit(broken, {
        # A loader that shuffles, of samples that are always the same.
        "test = Noisy(x[48:], y[48:], jitter)  # <-": "test = Noisy(x[48:], y[48:], torch.clone)",
        "training, testing = DataLoader(train, batch_size=16, shuffle=True), "
        "DataLoader(test, batch_size=16)":
            "training, testing = (DataLoader(part, 16, shuffle=True) for part in (train, test))",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.first: dict[int, tuple[Any, Any, np.ndarray, np.ndarray]] = {}  # by loader
        self.changing: Any = None  # the loader whose samples changed, until the next batch
        self.trained: list[Any] = []  # datasets of training batches
        self.latest: Any = None

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        self.changing = None
        self.latest = loader = self.session.loaders.get(iterator)
        is_first = getattr(iterator, "_num_yielded", 0) <= 1
        arrays = [element._array for element in batch if isinstance(element, Tensor)] \
            if isinstance(batch, (list, tuple)) else []
        if not is_first or len(arrays) < 2 or arrays[0].dtype.kind != "f" or not arrays[0].ndim \
                or arrays[0].shape == arrays[1].shape \
                or type(getattr(loader, "sampler", None)).__name__ != "SequentialSampler":
            return
        inputs, targets = (element[:_SAMPLES].copy() for element in arrays[:2])
        first_pass = self.first.get(id(loader))
        if first_pass is None or first_pass[0] is not loader:
            self.first[id(loader)] = loader, spot, inputs, targets
        elif first_pass[2].shape == inputs.shape and np.array_equal(first_pass[3], targets) \
                and not np.array_equal(first_pass[2], inputs):
            self.changing = loader

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded and call.module.training and self.latest is not None:
            dataset = getattr(self.latest, "dataset", None)
            if all(dataset is not known for known in self.trained) \
                    and len(self.trained) < _MAX_DATASETS:
                self.trained.append(dataset)
        elif self.changing is not None and not call.recorded and not call.module.training:
            loader, self.changing = self.changing, None
            self._judge(loader)

    def _judge(self, loader: Any) -> None:
        dataset: Any = getattr(loader, "dataset", None)
        if any(dataset is training_set for training_set in self.trained):
            return  # the training samples, evaluated
        if any(shares_transform(find_root(dataset), find_root(training_set))
               for training_set in self.trained):
            line = find_assignment(dataset, find_user_frame(1)) or \
                find_assignment(find_root(dataset), find_user_frame(1))
            self.report("evaluation samples change from pass to pass because of the training "
                        "transform", Place(*line) if line else None, self.first[id(loader)][1],
                        samples=len(dataset))


def find_root(dataset: Any) -> Any:
    """The dataset that subsets are of."""
    while type(dataset).__name__ == "Subset":
        dataset = dataset.dataset
    return dataset


def shares_transform(a: Any, b: Any) -> bool:
    """Whether two datasets are the same object or share a function among their attributes."""
    transforms = [value for value in getattr(a, "__dict__", {}).values() if callable(value)]
    other_transforms = list(getattr(b, "__dict__", {}).values())
    return a is b or any(value is value_of_b for value in transforms
                         for value_of_b in other_transforms)
