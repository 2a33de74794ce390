"""Workers: what one loading worker is, and the random numbers it sees.

Workers run inside the calling process. Each has its own copy of the dataset and its own states
of the three global generators (flambeau's, `random`'s and NumPy's), seeded as PyTorch seeds
those of a worker process and put in place while the worker runs.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau.tensor.random.generator import default_generator


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker is loading: its number, how many there are, its seed, its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


class _Current:
    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker that is loading now; None outside the workers of a DataLoader.

    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return _Current.info


def numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """The four words with which PyTorch seeds NumPy in a worker."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()


def _random_states() -> tuple[Any, Any, Any]:
    return default_generator.get_state(), random.getstate(), np.random.get_state()


def _set_random_states(states: tuple[Any, Any, Any]) -> None:
    default_generator.set_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])


class Worker:
    """One worker: `fetch` loads a batch as its process would."""

    def __init__(
        self,
        worker_id: int,
        num_workers: int,
        base_seed: int,
        dataset: Any,
        make_fetcher: Callable[[Any], Any],
        init_fn: Callable[[int], None] | None,
    ) -> None:
        try:
            own = copy.copy(dataset)
        except TypeError:  # nothing that can be copied, so nothing to tell apart
            own = dataset
        seed = base_seed + worker_id
        self.info = WorkerInfo(worker_id, num_workers, seed, own)
        self.active = True
        self._flambeau_states: tuple[Any, Any, Any] | None = None
        self._seeds = (seed, numpy_seed(base_seed, worker_id))
        self._make_fetcher, self._init_fn = make_fetcher, init_fn
        self._fetcher: Any = None
        self._started = False

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        outside, around = _random_states(), _Current.info
        if self._flambeau_states is None:
            default_generator.manual_seed(self._seeds[0])
            random.seed(self._seeds[0])
            np.random.seed(self._seeds[1])
        else:
            _set_random_states(self._flambeau_states)
        _Current.info = self.info
        try:
            yield
        finally:
            self._flambeau_states = _random_states()
            _set_random_states(outside)
            _Current.info = around

    def restart(self) -> None:
        """A new epoch with the same worker: its dataset and random states go on."""
        self.active, self._fetcher = True, None

    def fetch(self, index: Any) -> Any:
        """The batch at `index`; what it raises carries a note that says which worker."""
        with self._in_place():
            try:
                if not self._started:
                    self._started = True
                    if self._init_fn is not None:
                        self._init_fn(self.info.id)
                if self._fetcher is None:
                    self._fetcher = self._make_fetcher(self.info.dataset)
                return self._fetcher.fetch(index)
            except Exception as error:
                if not isinstance(error, StopIteration):
                    error.add_note(f"(raised in DataLoader worker {self.info.id})")
                raise
