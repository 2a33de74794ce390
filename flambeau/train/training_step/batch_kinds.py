"""The kinds of batches (structure, shapes, dtypes) for which a run compiles its step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...native.target.compile_costs import MAX_SPECIALIZATIONS
from ...tensor.tensor import Tensor
from ...tensor.tree import describe


@dataclass
class KindRecord:
    """What the run has learned about the step's program for one kind of batch."""

    rebuilds: int = 0  # how often the program was invalidated and built again
    stays_eager: bool = False
    was_compiled: bool = False  # in this process or an earlier one


class BatchKinds:
    """A record for each kind of batch that the run has met; saved with the run."""

    def __init__(self) -> None:
        self.records: dict[str, KindRecord] = {}

    def find(self, kind: str) -> KindRecord | None:
        """Return the record of a kind. A new kind gets one unless there are too many kinds."""
        record = self.records.get(kind)
        if record is None and len(self.records) < MAX_SPECIALIZATIONS:
            record = self.records[kind] = KindRecord()
        return record

    def state_dict(self) -> dict[str, Any]:
        """Return the records as strings and numbers, for checkpoints."""
        records = sorted(self.records.items())
        return {
            "known": {kind: record.rebuilds for kind, record in self.records.items()},
            "plain": [kind for kind, record in records if record.stays_eager],
            "compiled": [kind for kind, record in records if record.was_compiled],
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; missing entries are empty."""
        eager, compiled = saved.get("plain", ()), saved.get("compiled", ())
        self.records = {
            kind: KindRecord(rebuilds, kind in eager, kind in compiled)
            for kind, rebuilds in saved.get("known", {}).items()
        }


def describe_kind(batch: Any) -> str:
    """Describe a batch's structure, shapes and dtypes as a string, for checkpoints."""
    return describe(_describe_part, batch)


def _describe_part(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"{leaf.dtype}{tuple(leaf.shape)}"
    is_plain = isinstance(leaf, (bool, int, float, type(None)))
    return repr(leaf) if is_plain else type(leaf).__name__
