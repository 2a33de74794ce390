"""Whether a schema can replace an older one: for calls written before, and for calls written now.

PyTorch's rules (aten/src/ATen/core/function_schema.cpp). Arguments for outputs come last and are
compared among themselves, so that new options may stand in front of them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["check_backward", "check_forward"]


def check_backward(new: Any, old: Any) -> tuple[bool, str]:
    """Return whether calls of the old schema are valid for the new one, and why not."""
    if not _has_same_form(new, old) or len(new.arguments) < len(old.arguments):
        return False, ""
    if not all(_replaces(before, now) for before, now in zip(old.returns, new.returns,
                                                             strict=True)):
        return False, ""
    first, last = _count_inputs(old), _count_inputs(new)
    if last < first or not all(map(_replaces, new.arguments[:first], old.arguments[:first])):
        return False, ""
    for argument in new.arguments[first:last]:
        if argument.required:
            return False, ("Function schema not backward compatible since the new argument "
                           f"'{argument.name}' of type {argument.type.str()} did not provide a "
                           "default value.")
    outputs = new.arguments[last:], old.arguments[first:]
    return len(outputs[0]) >= len(outputs[1]) and all(map(_replaces, *outputs)), ""


def check_forward(new: Any, old: Any) -> tuple[bool, str]:
    """Return whether calls of the new schema are valid for the old one, and why not."""
    if not _has_same_form(new, old):
        return False, ""
    first, last = _count_inputs(old), _count_inputs(new)
    if len(old.arguments) - first != len(new.arguments) - last:
        return False, "Function schema should have the same number of out arguments"
    for now, before in zip(new.arguments[:last], old.arguments[:first], strict=False):
        if not _is_unchanged(now, before):
            return False, (f"'{now.name}' is not forward compatible with the older version of the "
                           "schema")
    for argument in new.arguments[first:last]:
        problem = "did not provide a default value." if argument.required else \
            "has a container type as its default value." \
            if isinstance(argument.default_value, (list, dict)) else ""
        if problem:
            return False, ("Function schema is not forward compatible since the new argument "
                           f"'{argument.name}' of type {argument.type.str()} {problem}")
    for i, before in enumerate(old.arguments[first:]):
        if not _is_unchanged(new.arguments[last + i], before):
            name = new.arguments[first + i].name  # PyTorch's, with its quotes
            return False, (f"Out argument ''{name} is not FC with the older version of the schema")
    return True, ""


def _has_same_form(new: Any, old: Any) -> bool:
    """Whether name, overload, number of results and open ends are the same."""
    return (new.name, new.overload_name, new.is_vararg, new.is_varret, len(new.returns)) == (
        old.name, old.overload_name, old.is_vararg, old.is_varret, len(old.returns))


def _count_inputs(schema: Any) -> int:
    """Return the index of the first argument for an output."""
    return next((i for i, a in enumerate(schema.arguments) if a.is_out), len(schema.arguments))


def _replaces(new: Any, old: Any) -> bool:
    """Whether an argument takes all values that the old one took, and has its default."""
    return _is_same_place(new, old) and old.type.is_subtype_of(new.type) and (
        old.required or (not new.required and new.default_value == old.default_value))


def _is_unchanged(new: Any, old: Any) -> bool:
    """Whether the old argument takes all values that this one takes, with the same default."""
    return _is_same_place(new, old) and new.type.is_subtype_of(old.type) and (
        (new.required, new.default_value) == (old.required, old.default_value))


def _is_same_place(new: Any, old: Any) -> bool:
    """Whether name, memory and length agree, so that positional calls still work."""
    return (new.name, new.N, new.alias_info) == (old.name, old.N, old.alias_info) \
        and (old.kwarg_only or not new.kwarg_only)
