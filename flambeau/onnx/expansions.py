"""How operators without a conversion are expanded into operators that have one.

A composite operator runs its body, any other its formula, both on the tensors of the export.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..ops.core.operator import Kind
from .conversion_table import CONVERSIONS
from .formula_table import FORMULAS

__all__ = ["find_expansion", "import_formulas"]

_FAMILIES = ("activation", "layout", "loss", "pointwise", "product", "reduction")


def import_formulas() -> None:
    """Fill the table of formulas."""
    for family in _FAMILIES:
        importlib.import_module(f"{__package__}.formulas.{family}")


def find_expansion(function: Any, name: str, arguments: tuple[Any, ...]
                   ) -> Callable[[], Any] | None:
    """Return a call that computes the same from operators with conversions, or None."""
    args, kwargs, aten_args, aten_kwargs = arguments
    written = name.endswith("_") and not name.endswith("__")
    bare = name[:-1] if written else name
    if name in CONVERSIONS or bare in CONVERSIONS:
        return None
    aten_kwargs = {key: value for key, value in aten_kwargs.items()
                   if not (key == "out" and value is None)}
    formula = FORMULAS.get(bare)
    if formula is not None:
        if written:
            return lambda: aten_args[0].copy_(formula(*aten_args, **aten_kwargs))
        return lambda: formula(*aten_args, **aten_kwargs)
    operator = getattr(function, "operator", None)
    body = getattr(function, "__wrapped__", None)
    if body is None or getattr(operator, "kind", None) is not Kind.COMPOSITE:
        return None
    return lambda: body(*args, **kwargs)
