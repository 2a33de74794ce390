"""Results with named fields, as `torch.return_types` has them: tuples that print field by field."""

from __future__ import annotations

from typing import Any

RETURN_TYPES: dict[str, type] = {}


def _create(cls: Any, *items: Any) -> Any:
    names = cls.__match_args__
    values = tuple(items[0]) if len(items) == 1 and len(names) != 1 else items
    if len(values) != len(names):
        raise TypeError(f"torch.return_types.{cls.__name__}() takes a {len(names)}-sequence "
                        f"({len(values)}-sequence given)")
    return tuple.__new__(cls, values)


def _show(self: Any) -> str:
    pairs = zip(self.__match_args__, self, strict=True)
    lines = ",\n".join(f"{name}={value!r}" for name, value in pairs)
    return f"torch.return_types.{type(self).__name__}(\n{lines})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), (tuple(self),)


# PyTorch's types are struct sequences of CPython, which have no base but tuple, and no `_fields`.
_METHODS = {"__slots__": (), "__new__": _create, "__repr__": _show, "__reduce__": _reduce,
            "n_unnamed_fields": 0}


def return_type(name: str, *fields: str) -> type:
    """Return the result type called `name` with these fields, created once.

    `name_out` is the type of results that were written into `out`.
    """
    if name not in RETURN_TYPES:
        if not name.endswith("_out") and name != "histogramdd":  # which takes no `out`
            return_type(f"{name}_out", *fields)
        attributes: dict[str, Any] = {**_METHODS, "__match_args__": fields}
        attributes |= {f: property(_create_item_getter(i)) for i, f in enumerate(fields)}
        attributes |= {"n_fields": len(fields), "n_sequence_fields": len(fields)}
        result = type(name, (tuple,), attributes)
        result.__module__ = "torch.return_types"
        RETURN_TYPES[name] = result
    return RETURN_TYPES[name]


def has_named_fields(kind: type) -> bool:
    """Whether a class of tuples is a namedtuple's or a return type: both take their parts as
    arguments."""
    return hasattr(kind, "_fields") or RETURN_TYPES.get(kind.__name__) is kind


def get_written_type(result_type: type) -> type:
    """Return the type of results of this type that were written into `out`."""
    return RETURN_TYPES.get(f"{result_type.__name__}_out", result_type)


def _create_item_getter(index: int) -> Any:
    return lambda self: self[index]
