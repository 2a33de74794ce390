"""SchemaMatcher: which overload an operator's event called, and which arguments it writes."""

from __future__ import annotations

from typing import Any

from ...autograd.traces.event_fields import _TensorMetadata
from ...ops.registration.aten_schemas import get_schemas
from ...ops.registration.schema import Schema
from ...ops.registration.tags import find_out_overload

__all__ = ["SchemaMatcher"]

_NUMBERS: dict[str, tuple[type, ...]] = {
    "Scalar": (bool, int, float, complex), "float": (int, float), "int": (int,), "SymInt": (int,),
    "bool": (bool,),
}


class SchemaMatcher:
    """Finds schemas by name and by what a profile notes of arguments."""

    @classmethod
    def lookup_schemas(cls, name: str) -> tuple[Schema, ...] | None:
        """Return the overloads of an operator, or None of a name without a namespace."""
        if "::" not in name:
            return None
        namespace, _, bare = name.partition("::")
        return tuple(get_schemas(bare).values()) if namespace == "aten" else ()

    @classmethod
    def match_schemas(cls, fields: Any) -> tuple[Schema, ...]:
        """Return the overloads that the arguments of an operator's event fit."""
        return tuple(
            _write_to_out(schema) if len(fields.inputs) > len(schema.arguments) else schema
            for schema in cls.lookup_schemas(fields.name) or () if cls._fit(schema, fields.inputs))

    @classmethod
    def inputs_are_mutable(cls, fields: Any) -> tuple[bool | None, ...]:
        """Return whether each argument is written; None if no overload is known."""
        schemas = cls.match_schemas(fields)
        if not schemas:
            return tuple(None for _ in fields.inputs)
        return tuple(any(i >= len(schema.arguments) or schema.arguments[i].is_written
                         for schema in schemas) for i in range(len(fields.inputs)))

    @staticmethod
    def _fit(schema: Schema, values: list[Any]) -> bool:
        """Return whether a schema fits, or its `out` overload, which has the results as further
        arguments; `get_schemas` lists none of these."""
        arguments = schema.arguments
        values, outputs = values[: len(arguments)], values[len(arguments):]
        if outputs and len(outputs) != len(schema.returns):
            return False
        return all(isinstance(value, _TensorMetadata) for value in outputs) and all(
            value is None and argument.kind.endswith("?") or _fits(argument.kind, value)
            for argument, value in zip(arguments, values, strict=False)
        ) and all(not argument.required for argument in arguments[len(values):])


def _write_to_out(schema: Schema) -> Schema:
    """Return the schema of the overload with an `out`, or the same schema if its name is unknown.
    """
    overload = find_out_overload(schema.opname)
    if overload is None or len(schema.returns) != 1:
        return schema
    inner = schema.text.partition("(")[2].rpartition(") ->")[0]
    star = "" if any(argument.kwarg_only for argument in schema.arguments) else "*, "
    name = f"{schema.opname}.{overload}"
    return Schema("aten", f"{name}({inner}, {star}Tensor(a!) out) -> Tensor(a!)")


def _fits(kind: str, value: Any) -> bool:
    """Return whether a noted value may be an argument of a type; None may be of any other type
    than tensors."""
    kind = kind.removesuffix("?")
    is_tensor, is_list = kind.startswith("Tensor"), kind.endswith("]")
    if isinstance(value, list):
        return is_tensor and is_list
    if isinstance(value, _TensorMetadata):
        return is_tensor and not is_list
    if value is None:
        return not is_tensor or is_list
    if is_list:
        kind = kind.partition("[")[0]
    return any(isinstance(value, number) for number in _NUMBERS.get(kind, ()))
