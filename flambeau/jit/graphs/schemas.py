"""Operators' schemas by the types of a node's arguments: which overload, and what it returns."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ...ops.registration.aten_schemas import get_schemas
from ...ops.registration.schema import Schema
from .types import IRType, split_type

__all__ = ["choose_overload", "find_schema", "list_results"]

_ATOMS = {"SymInt": "int", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int",
          "SymBool": "bool", "Dimname": "str", "DeviceIndex": "int"}
_NUMBERS = ("int", "float", "bool", "complex", "number")


def choose_overload(name: str, positional: list[IRType], keywords: dict[str, IRType]
                    ) -> Schema | None:
    """Return the first overload of `aten::name` that takes arguments of these types, or None."""
    texts = tuple(str(kind) for kind in positional)
    named = tuple((key, str(kind)) for key, kind in keywords.items())
    return _choose(name, texts, named)


@cache
def _choose(name: str, positional: tuple[str, ...], keywords: tuple[tuple[str, str], ...]
            ) -> Schema | None:
    for schema in get_schemas(name).values():
        if not any(argument.is_out for argument in schema.arguments) and _fits(
                schema, positional, dict(keywords)):
            return schema
    return None


def _fits(schema: Schema, positional: tuple[str, ...], keywords: dict[str, str]) -> bool:
    names = [a.name for a in schema.arguments if not a.kwarg_only]
    if len(positional) > len(names):
        return False
    passed = dict(zip(names, positional, strict=False))
    if passed.keys() & keywords.keys() or not keywords.keys() <= {
            a.name for a in schema.arguments}:
        return False
    passed |= keywords
    return all(_takes(a.kind, passed[a.name]) if a.name in passed else not a.required
               for a in schema.arguments)


@cache
def _takes(expected: str, actual: str) -> bool:
    """Return whether a parameter of a schema takes values of a type."""
    head, inner = split_type(actual)
    if expected.endswith("?"):
        return head == "NoneType" or _takes(expected[:-1], inner[0] if head == "Optional"
                                            else actual)
    sequence = re.fullmatch(r"(.+)\[(\d*)\]", expected)
    if sequence is not None:
        if sequence[2] and _takes(sequence[1], actual):
            return True  # a number stands for a list of that length
        parts = inner if head in ("List", "Tuple") else ["?"]
        return all(part != "?" and _takes(sequence[1], part) for part in parts)
    expected = _ATOMS.get(expected, expected)
    if expected == "Scalar":
        return actual in _NUMBERS
    if expected == "float":
        return actual in ("float", "int")
    return actual == expected or expected == "Device" and actual == "str"


def find_schema(node: Any) -> Schema | None:
    """Return the schema of a node with all of its arguments, or None for other nodes."""
    space, _, name = node.kind().partition("::")
    if space != "aten":
        return None
    texts = [str(value.type()) for value in node.arguments]
    for schema in get_schemas(name).values():
        if len(schema.arguments) == len(texts) and all(
                _takes(a.kind, text) for a, text in zip(schema.arguments, texts, strict=True)):
            return schema
    return None


def list_results(schema: Schema) -> list[str]:
    """Return the types of the results of an operator."""
    return [result.type.annotation_str for result in schema.returns]
