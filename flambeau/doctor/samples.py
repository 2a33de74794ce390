"""Hash the rows of a batch, to recognize a sample in a later batch."""

from __future__ import annotations

import numpy as np

LOOKED = 1024  # rows hashed per batch
_NUMBERS = 256  # at most this many evenly spaced values hashed per row


def hash_rows(array: np.ndarray, min_columns: int = 3) -> list[int]:
    """Return a hash per sample, skipping samples with fewer than `min_columns` distinct values or
    only whole numbers among their first 16. Non-float arrays have none."""
    rows = array.reshape(len(array), -1)
    if rows.dtype.kind != "f" or rows.shape[1] < min_columns:
        return []
    rows = rows[:LOOKED]
    head = np.sort(rows[:, :16], axis=1)
    is_varied = (np.diff(head, axis=1) != 0).sum(1) >= min_columns - 1
    has_fraction = (head != np.round(head)).any(1)
    rows = rows[is_varied & has_fraction][:, :: -(-rows.shape[1] // _NUMBERS)]
    return [hash(row.tobytes()) for row in rows]
