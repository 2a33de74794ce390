"""Which types the schema of an operator may name, as PyTorch's parser of schemas knows them."""

from __future__ import annotations

import re

__all__ = ["check_types"]

_KNOWN = frozenset("""
Any AnyClassType AnyEnumType Await Capsule ConstQuantizerPtr Device DeviceIndex Dict Future
Generator Layout MemoryFormat None NoneType QScheme Quantizer RRef Scalar ScalarType Storage Stream
SymBool SymInt Tensor bool complex float int str
""".split())
_ADVICE = {
    "int64_t": "Use `SymInt` or `int` instead of `int64_t` in an operator's schema string. "
               "`SymInt` corresponds to c10::SymInt in C++ while `int` in schema corresponds to "
               "the int64_t type in C++.",
    "double": "Use `float` instead of `double` in an operator's schema string. `float` in schema "
              "corresponds to the double type in C++",
}
_UNKNOWN = (
    "unknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, "
    "Scalar; for a full list, please see "
    "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func ")
# The type of an argument or result: after the bracket or comma before it, up to its own brackets.
_TYPE = re.compile(r"(?:[(,]\s*|->\s*)([A-Za-z_]\w*)(?=[\s\[(?,)]|$)(?!\s*=)")


def check_types(text: str) -> None:
    """Raise RuntimeError if a schema names a type that there is not, and show where.

    >>> from flambeau.ops.registration.schema_types import check_types
    >>> check_types("f(Tensor x, int[] sizes) -> (Tensor, Tensor)")
    """
    plain = re.sub(r"=\s*(\[[^\]]*\]|\"[^\"]*\"|'[^']*'|[^,)]*)",  # without defaults
                   lambda match: " " * len(match[0]), text)
    plain = re.sub(r"\(\s*\w*(\|\w+)*\s*!?\s*(->\s*[\w*|]+)?\s*\)(?=[\s\[?,)]|$)",  # and aliases
                   lambda match: " " * len(match[0]) if _is_alias(match[0]) else match[0], plain)
    for match in _TYPE.finditer(plain):
        name = match[1]
        if name not in _KNOWN:
            line = f"{' ' * match.start(1)}{'~' * len(name)} <--- HERE"
            raise RuntimeError(f"\n{_ADVICE.get(name, _UNKNOWN)}:\n{text}\n{line}\n")


def _is_alias(group: str) -> bool:
    """Return whether what stands in brackets names memory, as in `Tensor(a!)`."""
    inner = group[1:-1].strip()
    return bool(inner) and inner not in _KNOWN
