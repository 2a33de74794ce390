"""Workers that all read the whole of a stream."""

from __future__ import annotations

import dis
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ....utils.data import IterableDataset
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 2


class SameStream(Rule):
    """Compares the batches of an iterable dataset that follow each other."""

    id = "workers-read-the-same"
    level = Level.LIKELY
    needs = ("on_batch",)
    title = "every worker yields the whole iterable data set, so each sample appears several times"
    why = (
        "Each worker has a copy of the data set and runs its __iter__; it must select its share "
        f"with torch.utils.data.get_worker_info(). Reported when {_TIMES} batches of an "
        "IterableDataset with num_workers >= 2 equal the previous batch bit for bit."
    )
    fix = "info = get_worker_info(); yield every info.num_workers-th sample, starting at info.id"
    broken = """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from x  # <-

for batch in DataLoader(Stream(), batch_size=16, num_workers=2):
    pass
"""
    fixed = edit(broken, {
        "yield from x  # <-":
            "info = torch.utils.data.get_worker_info()\n"
            "yield from x[info.id :: info.num_workers]",
    })
    healthy = (edit(broken, {
        # One worker reads all.
        "yield from x  # <-": "yield from x",
        "for batch in DataLoader(Stream(), batch_size=16, num_workers=2):":
            "for batch in DataLoader(Stream(), batch_size=16, num_workers=1):",
    }), edit(broken, {
        # Random samples, without end: each worker draws its own.
        "yield from x  # <-": "yield from (torch.randn(8) for _ in range(64))",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.before: dict[int, np.ndarray] = {}
        self.times: dict[int, int] = {}

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        loader = self.session.loaders.get(iterator)
        dataset = getattr(loader, "dataset", None)
        if loader is None or not isinstance(dataset, IterableDataset) or loader.num_workers < 2:
            return
        first = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
        if not isinstance(first, Tensor) or np.ptp(first._array) == 0:
            return
        key = id(iterator)
        previous, self.before[key] = self.before.get(key), first._array
        if previous is not None and previous.shape == first._array.shape \
                and np.array_equal(previous, first._array):
            self.times[key] = self.times.get(key, 0) + 1
            if self.times[key] == _TIMES:
                code = getattr(type(dataset).__iter__, "__code__", None)
                line = None if code is None else Place(
                    code.co_filename, find_first_yield(code), code.co_qualname)
                self.report("batches of different workers are the same", line, spot,
                            num_workers=loader.num_workers)


def find_first_yield(code: Any) -> int:
    """The line of a generator's first yield; its first line where there is none."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("YIELD_VALUE", "GET_YIELD_FROM_ITER") and instruction.positions:
            return instruction.positions.lineno or int(code.co_firstlineno)
    return int(code.co_firstlineno)
