"""LLVM's intrinsics: declared once in a module, named by the types that they work on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

_LETTERS = {"float": "f32", "double": "f64", "half": "f16"}


def declare(b: ir.IRBuilder, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """The declaration of an intrinsic in the builder's module, created on first use."""
    function = b.module.globals.get(name)
    return function or ir.Function(b.module, ir.FunctionType(result, arguments), name)


def suffix(vector: Any) -> str:
    """How a vector type is written in an intrinsic's name."""
    element = str(vector.element)
    return f"v{vector.count}{_LETTERS.get(element, element)}"
