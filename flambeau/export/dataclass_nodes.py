"""Dataclasses as pytree containers of their fields."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from ..utils import _pytree as pytree
from ..utils.pytree_keys import GetAttrKey

__all__ = ["register_dataclass_node"]


def register_dataclass_node(
    cls: type, *, serialized_type_name: str | None = None, return_none_fields: bool = False
) -> None:
    """Register a dataclass as a container.

    Fields that are None are part of the structure, unless `return_none_fields`.
    `serialized_type_name`: the class's name in files; its path by default.
    """
    if not is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    names = [f.name for f in fields(cls) if f.init]

    def flatten(x: Any) -> tuple[list[Any], Any]:
        present = [n for n in names if return_none_fields or getattr(x, n) is not None]
        return [getattr(x, n) for n in present], [present, [n for n in names if n not in present]]

    def flatten_with_keys(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, context = flatten(x)
        return [(GetAttrKey(n), v)
                for n, v in zip(context[0], values, strict=True)], context

    def unflatten(values: Any, context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    pytree.register_pytree_node(
        cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=serialized_type_name or f"{cls.__module__}.{cls.__qualname__}",
    )
