"""Cast the floating-point tensors among a module's inputs."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...tensor import Tensor, tree


def cast_floats(value: Any, dtype: Any) -> Any:
    """Cast the floating-point tensors in nested containers and dataclasses; keep the rest."""
    return tree.map_leaves(lambda leaf: _cast_leaf(leaf, dtype), value)


def _cast_leaf(value: Any, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: cast_floats(getattr(value, f.name), dtype)
                  for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **fields)
    return value
