"""The step compiled in the background, for frequent kinds of batches.

Recording a step costs several eager steps, and the smaller last batch comes once per epoch. It
runs eagerly until it has come often enough, unless an earlier process cached its program.
"""

from __future__ import annotations

from typing import Any

from .batch_kinds import describe_kind
from .step_function import Step

_MAX_EAGER_BATCHES = 8  # of a later kind, before it is worth a program


class Frequent:
    """A compiled step for batches of frequent kinds (shapes, dtypes) only.

    `first` is the step for the kind that came first, if it differs.
    """

    def __init__(self, compiled: Any, plain: Step, first: Any = None) -> None:
        self.compiled, self.plain = compiled, plain
        self.first = compiled if first is None else first
        self.attempt = self.first.attempt  # the program's call, if there is one
        self._seen: dict[str, int] = {}  # kind: batches of it without a program
        self._is_cached: dict[str, bool] = {}  # whether an earlier process cached a rare kind

    def __call__(self, *batch: Any) -> Any:
        kind, counts = describe_kind(batch), self._seen
        counts[kind] = counts.get(kind, 0) + 1
        if kind == next(iter(counts)):
            return self.first(*batch)
        if counts[kind] <= _MAX_EAGER_BATCHES:
            if kind not in self._is_cached:
                self._is_cached[kind] = self.compiled.is_cached(*batch)
            if not self._is_cached[kind]:
                return self.plain(*batch)
        return self.compiled(*batch)
