"""Cast the floating-point tensors among a module's inputs."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...tensor import Tensor


def cast_floats(value: Any, dtype: Any) -> Any:
    """Cast the floating-point tensors in nested containers and dataclasses; keep the rest."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        items = {key: cast_floats(inner, dtype) for key, inner in value.items()}
        return items if type(value) is dict else type(value)(items)
    if isinstance(value, tuple):
        inner_values = [cast_floats(inner, dtype) for inner in value]
        return type(value)(*inner_values) if hasattr(value, "_fields") else tuple(inner_values)
    if isinstance(value, list):
        return [cast_floats(inner, dtype) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: cast_floats(getattr(value, f.name), dtype)
                  for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **fields)
    return value
