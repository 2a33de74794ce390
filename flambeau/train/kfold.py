"""k-fold cross-validation: each part of the data validates a net trained on the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..ops.creation.random import manual_seed
from ..tensor.tensor import Tensor
from ..utils.data import Subset
from .state.data import build_dataset, is_arrays, is_loader
from .state.formatting import list_scalars, shorten


class KFold:
    """Split `n` samples into `k` parts: `split(n)` yields k (training, validation) index lists.

    Shuffles with a private generator, so a seed always gives the same parts. With `labels` each
    part keeps the class proportions of the whole. `groups` keeps samples of a group, such as a
    patient's, together; groups are assigned largest first.

    >>> [validation for _, validation in KFold(3, shuffle=False).split(7)]
    [[0, 1, 2], [3, 4], [5, 6]]
    """

    def __init__(self, k: int = 5, *, shuffle: bool = True, seed: int = 0) -> None:
        if k < 2:
            raise ValueError(f"KFold: k must be at least 2, not {k}")
        self.k, self.shuffle, self.seed = k, shuffle, seed

    def split(
        self, n: int, *, labels: Any = None, groups: Any = None
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Yield each fold's (training indices, validation indices), in increasing order.

        Raises ValueError for fewer samples, or groups, than folds, and for labels of another
        length.
        """
        if labels is not None and groups is not None:
            raise ValueError("KFold: labels or groups, not both")
        fold = np.empty(n, np.int64)
        if n < self.k:
            raise ValueError(f"KFold: {n} samples make no {self.k} folds")
        if groups is not None:
            fold[:] = self._assign_groups(_flatten(groups, n, "groups"))
        elif labels is not None:
            order = self._order_by_class(_flatten(labels, n, "labels"))
            fold[order] = np.arange(n) % self.k
        else:
            for index, validation in enumerate(np.array_split(self._order(n), self.k)):
                fold[validation] = index
        for index in range(self.k):
            is_validation = fold == index
            yield np.flatnonzero(~is_validation).tolist(), np.flatnonzero(is_validation).tolist()

    def _order(self, n: int) -> np.ndarray:
        return np.random.default_rng(self.seed).permutation(n) if self.shuffle else np.arange(n)

    def _order_by_class(self, labels: np.ndarray) -> np.ndarray:
        """Order samples by class: dealt out in turn, each fold gets its share of every class."""
        order = self._order(len(labels))
        return order[np.argsort(labels[order], kind="stable")]

    def _assign_groups(self, groups: np.ndarray) -> np.ndarray:
        names, group_index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        if len(names) < self.k:
            raise ValueError(f"KFold: {len(names)} groups make no {self.k} folds")
        order = self._order(len(names))
        fold_of, filled = np.empty(len(names), np.int64), np.zeros(self.k, np.int64)
        for group in order[np.argsort(-sizes[order], kind="stable")]:
            fold_of[group] = np.argmin(filled)
            filled[fold_of[group]] += sizes[group]
        return fold_of[group_index]


@dataclass
class Folds:
    """Result of cross_validate: the history and the trainer of each fold."""

    histories: list[list[dict[str, Any]]]
    trainers: list[Any]

    @property
    def last(self) -> list[dict[str, float]]:
        """Each fold's metrics in its last epoch."""
        return [list_scalars({k: v for k, v in rows[-1].items() if k != "epoch"})
                for rows in self.histories]

    @property
    def mean(self) -> dict[str, float]:
        """Means over the folds, by metric."""
        return {name: sum(values) / len(values) for name, values in self._collect_columns().items()}

    @property
    def deviation(self) -> dict[str, float]:
        """Sample standard deviations over the folds (divided by k - 1), by metric."""
        mean = self.mean
        return {
            name: math.sqrt(sum((v - mean[name]) ** 2 for v in values) / (len(values) - 1))
            for name, values in self._collect_columns().items()
        }

    def _collect_columns(self) -> dict[str, list[float]]:
        names = [name for name in self.last[0] if all(name in row for row in self.last)]
        return {name: [row[name] for row in self.last] for name in names}

    def __repr__(self) -> str:
        mean, deviation = self.mean, self.deviation
        numbers = (f"{name} {shorten(mean[name])} ± {shorten(deviation[name])}" for name in mean)
        return f"{len(self.histories)} folds: {', '.join(numbers)}"


def cross_validate(
    make: Callable[..., Any],
    data: Any,
    k: int | KFold = 5,
    epochs: int = 1,
    *,
    labels: Any = None,
    groups: Any = None,
    seed: int | None = 0,
    resume: Any = None,
    **options: Any,
) -> Folds:
    """Train `k` trainers created by `make()` or `make(fold)`; each validates on its own part.

    `data` is a dataset or arrays (x, y); `labels` keep classes in proportion (True: the targets of
    the arrays), `groups` keep samples together. `seed + fold` seeds each fold before its net is
    created; None leaves the random state alone. With `resume` each fold is saved in
    `resume/fold-1`, ..., and a second call continues where the first was killed. `options` go to
    `fit`.

    >>> from flambeau.train import Trainer
    >>> x = torch.randn(60, 2)
    >>> def make():
    ...     return Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False)
    >>> folds = cross_validate(make, (x, x.sum(1, keepdim=True)), k=3, epochs=2)
    >>> len(folds.trainers), sorted(folds.mean)
    (3, ['loss', 'valid_loss'])
    """
    if not callable(make):
        raise TypeError("cross_validate takes a function that creates a trainer, not a "
                        f"{type(make).__name__}: every fold begins with a new one")
    if is_loader(data):
        raise TypeError("cross_validate takes a dataset or arrays: a loader cannot be split")
    if labels is True:
        if not (is_arrays(data) and isinstance(data, tuple)):
            raise ValueError("labels=True takes the targets of arrays (x, y); give the labels")
        labels = data[-1]
    dataset = data
    if is_arrays(data):
        dataset = build_dataset(data if isinstance(data, tuple) else (data,), "cross_validate")
    splitter = k if isinstance(k, KFold) else KFold(k)
    folds = Folds([], [])
    parts = splitter.split(len(dataset), labels=labels, groups=groups)
    for fold, (training, validation) in enumerate(parts, 1):
        if seed is not None:
            manual_seed(seed + fold)
        trainer = make(fold) if _takes_fold(make) else make()
        if any(trainer.net is earlier.net for earlier in folds.trainers if earlier.net is not None):
            raise ValueError(f"cross_validate: in fold {fold} make returned the network of "
                             "another fold, which has seen this fold's validation data: create "
                             "a new one")
        if resume is not None:
            options["resume"] = Path(resume) / f"fold-{fold}"
        folds.histories.append(trainer.fit(
            Subset(dataset, training), Subset(dataset, validation), epochs, **options))
        folds.trainers.append(trainer)
    return folds


def _takes_fold(make: Callable[..., Any]) -> bool:
    from .events.handler_arguments import form_of

    return form_of(make) != ""


def _flatten(values: Any, n: int, subject: str) -> np.ndarray:
    array = values._array if isinstance(values, Tensor) else np.asarray(values)
    if array.shape[:1] != (n,) or array.size != n:
        raise ValueError(f"KFold: {n} samples, but {subject} of shape {array.shape}")
    return array.reshape(n)
