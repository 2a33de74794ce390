"""What an operator returns: shape and dtype by the rule of its kind, or its entry in the table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .parameter_table import Description

_PLAIN = {"bool": "Whether it is so.", "int": "The number.", "None": "Nothing."}


def describe_result(
    function: Callable, operator: Any, paths: list[str], module: str
) -> Description:
    """Return the type and description of the result of the function published as `paths`."""
    names = list(inspect.signature(function).parameters)
    if paths[0].endswith("_") and names[:1] in (["self"], ["input"]):
        return Description("Tensor", f"`{names[0]}`, changed.")
    listed = _find_listed(paths, module)
    kind = "" if operator is None else operator.kind.name
    if kind == "POINTWISE":
        return _describe_pointwise(operator)
    if listed is not None and listed[0]:
        return listed[1]
    if kind == "VIEW" and listed is None:
        return Description("Tensor", "A view: it shares the memory of `input`.")
    by_parameters = _describe_by_parameters(names, paths[0])
    if by_parameters is not None:
        return by_parameters
    note = str(getattr(function, "__annotations__", {}).get("return", ""))
    if listed is not None and note not in _PLAIN:
        return listed[1]
    if note in _PLAIN:
        return Description(note, _PLAIN[note])
    if note.startswith("tuple"):
        return Description("tuple", "One entry for each axis.")
    return Description("object", "")


def _describe_pointwise(operator: Any) -> Description:
    tensors = operator.tensor_names
    if len(tensors) == 1:
        shape = f"Of the shape of `{tensors[0]}`"
        common = f"Of the shape and dtype of `{tensors[0]}`"
    else:
        operands = f"{', '.join(f'`{name}`' for name in tensors[:-1])} and `{tensors[-1]}`"
        shape = f"Of the broadcast shape of {operands}"
        common = f"{shape}, in their promoted dtype"
    sentence = {
        "COMMON": f"{common}.",
        "FLOATING": f"{common}; integers and bools give the default floating dtype.",
        "PREDICATE": f"{shape}, bool.",
        "NONE": f"{shape}.",
    }[operator.promotion.name]
    return Description("Tensor", sentence)


def _describe_by_parameters(names: list[str], path: str) -> Description | None:
    """The rules that parameters imply: reductions, losses, tensors of a size, like another."""
    if "keepdim" in names:
        dtype = "; `dtype`, or the input's, int64 for integers and bools" * ("dtype" in names)
        return Description("Tensor", f"Of the shape of `{names[0]}` without the axes `dim`{dtype}.")
    if "reduction" in names:
        return Description("Tensor", "Without axes; with reduction='none', one loss for each.")
    if path.endswith("_like"):
        return Description("Tensor", "Of the shape of `input`; `dtype`, or the input's.")
    if "size" in names and "dtype" in names:
        return Description("Tensor", "Of shape `size`, of `dtype` or the default one.")
    return None


def _find_listed(paths: list[str], module: str) -> tuple[bool, Description] | None:
    """The table's entry, and whether it is for this function alone."""
    place = module.partition(".ops.")[2]
    table = _read_table()
    for name in [*paths, *(path.rpartition(".")[2].removeprefix("linalg_") for path in paths)]:
        if f"{place}:{name}" in table:
            return True, table[f"{place}:{name}"]
    for length in range(place.count(".") + 1, 0, -1):
        family = ".".join(place.split(".")[:length])
        if family in table:
            return False, table[family]
    return None


@functools.cache
def _read_table() -> dict[str, Description]:
    from .result_sentences import RESULTS

    table: dict[str, Description] = {}
    for row in RESULTS.strip().replace(",\n    ", ",").replace("\n    ", " ").splitlines():
        location, kind, sentence = row.split(" | ")
        module, _, functions = location.partition(":")
        for function in functions.split(","):
            table[f"{module}:{function}" if function else module] = Description(kind, sentence)
    return table
