"""Traces: an operator's arguments in the words of PyTorch's traces, `Input type` and
`Concrete Inputs`."""

from __future__ import annotations

from typing import Any

from ...tensor.dtypes import dtype

__all__ = ["format_type", "format_value", "number_of", "type_of"]

# c10's dtypes in the order of their numbers, with the C++ types that traces name.
_DTYPES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int",
    "int64": "long int", "float16": "c10::Half", "float32": "float", "float64": "double",
    "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>", "bool": "bool", "qint8": "c10::qint8",
    "quint8": "c10::quint8", "qint32": "c10::qint32", "bfloat16": "c10::BFloat16",
}
_DTYPE_NUMBERS = {name: number for number, name in enumerate(_DTYPES)}
_SCALARS = (bool, int, float, complex)


def format_type(value: Any, dtypes: Any) -> str:
    """Return an argument's `Input type`. `dtypes`: that of a tensor, a tuple of those of a list."""
    if isinstance(dtypes, tuple):
        return "TensorList"
    if dtypes is not None:
        return type_of(dtypes)
    if isinstance(value, _SCALARS) or number_of(value) is not None:
        return "Scalar"
    return "ScalarList" if _is_list(value) else ""


def format_value(value: Any) -> str:
    """Return an argument's `Concrete Inputs`; empty for tensors, None and what is no number."""
    if _is_list(value):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}."
    number = number_of(value)
    if number is not None:
        return str(number)
    return str(value) if isinstance(value, _SCALARS) else ""


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, _SCALARS) for v in value)


def type_of(kind: dtype) -> str:
    """Return the C++ type of a dtype."""
    return _DTYPES.get(kind.name, f"c10::{kind.name}")


def number_of(value: Any) -> int | None:
    """Return c10's number of a dtype, or None."""
    return _DTYPE_NUMBERS.get(value.name) if isinstance(value, dtype) else None
