"""Results with named fields, as `torch.return_types` has them: tuples that print field by field."""

from __future__ import annotations

from typing import Any

RETURN_TYPES: dict[str, type] = {}


class _Structure(tuple):
    """A tuple whose items have names."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, *items: Any) -> _Structure:
        values = items[0] if len(items) == 1 and len(cls._fields) != 1 else items
        if len(values) != len(cls._fields):
            raise TypeError(
                f"torch.return_types.{cls.__name__}() takes a {len(cls._fields)}-sequence "
                f"({len(values)}-sequence given)"
            )
        return tuple.__new__(cls, values)

    def __repr__(self) -> str:
        lines = ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"torch.return_types.{type(self).__name__}(\n{lines})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


def return_type(name: str, *fields: str) -> type:
    """Return the result type called `name` with these fields, created once.

    `name_out` is the type of results that were written into `out`.
    """
    if name not in RETURN_TYPES:
        if not name.endswith("_out") and name != "histogramdd":  # which takes no `out`
            return_type(f"{name}_out", *fields)
        attributes: dict[str, Any] = {"__slots__": (), "_fields": fields}
        attributes |= {f: property(_create_item_getter(i)) for i, f in enumerate(fields)}
        attributes |= {"n_fields": len(fields), "n_sequence_fields": len(fields)}
        result = type(name, (_Structure,), attributes)
        result.__module__ = "torch.return_types"
        RETURN_TYPES[name] = result
    return RETURN_TYPES[name]


def get_written_type(result_type: type) -> type:
    """Return the type of results of this type that were written into `out`."""
    return RETURN_TYPES.get(f"{result_type.__name__}_out", result_type)


def _create_item_getter(index: int) -> Any:
    return lambda self: self[index]
