"""Basic indexing for `__torch_dispatch__`: one call per index entry, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.aten import aten


def indexed(call: Callable[[Any, tuple], Any], x: Any, index: Any) -> Any:
    """Return x[index], by a call(overload, arguments) for each integer, slice and None."""
    entries = index if isinstance(index, tuple) else (index,)
    axis = 0
    for k, entry in enumerate(entries):
        if entry is Ellipsis:
            axis = x.dim() - sum(e is not None for e in entries[k + 1 :])
        elif entry is None:
            x = call(aten.unsqueeze.default, (x, axis))
            axis += 1
        elif isinstance(entry, slice):
            if entry != slice(None):
                start, stop, step = entry.indices(x.shape[axis])
                x = call(aten.slice.Tensor, (x, axis, start, max(start, stop), step))
            axis += 1
        else:
            x = call(aten.select.int, (x, axis, int(entry)))
    return x
