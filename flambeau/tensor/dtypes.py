"""Data types: one `dtype` object each, with its NumPy counterpart and its promotion category.

bfloat16 and float8 come from ml_dtypes. `finfo` and `iinfo` hold a dtype's limits.
"""

from __future__ import annotations

import math
import re
from typing import Any

import ml_dtypes
import numpy as np

from .ambient import note_change
from .narrow_dtypes import COMPLEX32

# Promotion picks the higher category (bool < integer < floating < complex).
BOOL, INTEGER, FLOATING, COMPLEX = range(4)


_PARTS: Any = re.compile(r"([a-z]+)(\d*)(.*)")  # of a name: the kind, its bits, a variant


class dtype:
    """The type of tensor elements. Users refer to the instances (`float32`, `int64`, ...).

    >>> torch.float64.itemsize, torch.float64.is_floating_point, torch.complex64.to_real()
    (8, True, torch.float32)
    """

    __slots__ = (
        "category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy",
    )

    def __init__(self, name: str, numpy: np.dtype, category: int) -> None:
        self.name = name
        self.numpy = numpy
        self.itemsize = numpy.itemsize
        self.category = category
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.is_signed = not (category == BOOL or numpy.kind == "u")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return parse_dtype, (self.name,)

    @property
    def abbr(self) -> str:
        """Its short name: "f32", "bf16", "b8" for bool."""
        name = {"bool": "b8", "bfloat16": "bf16"}.get(self.name)
        kind, bits, rest = _PARTS.fullmatch(self.name).groups()
        return name or kind[0] + bits + rest.replace("_", "")

    def to_real(self) -> dtype:
        """Return the dtype of the real part: float32 for complex64."""
        return {"complex32": float16, "complex64": float32,
                "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        """Return the complex dtype for parts of this dtype; RuntimeError if there is none."""
        if self.is_complex:
            return self
        complex_types = {"float64": complex128, "float32": complex64, "float16": complex32,
                         "bfloat16": complex64}.get(self.name)
        if complex_types is None:
            name = _SCALARS.get(self.name, self.name.capitalize())
            raise RuntimeError(f"Unknown Complex ScalarType for {name}")
        return complex_types


_SCALARS = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
            "int64": "Long"}  # names in PyTorch's errors
_BY_NAME: dict[str, dtype] = {}
FROM_NUMPY: dict[np.dtype, dtype] = {}


def _declare(name: str, scalar_type: type, category: int) -> dtype:
    result = dtype(name, np.dtype(scalar_type), category)
    _BY_NAME[name] = FROM_NUMPY[result.numpy] = result
    return result


bool_ = _declare("bool", np.bool_, BOOL)
uint8 = _declare("uint8", np.uint8, INTEGER)
int8 = _declare("int8", np.int8, INTEGER)
int16 = _declare("int16", np.int16, INTEGER)
int32 = _declare("int32", np.int32, INTEGER)
int64 = _declare("int64", np.int64, INTEGER)
uint16 = _declare("uint16", np.uint16, INTEGER)
uint32 = _declare("uint32", np.uint32, INTEGER)
uint64 = _declare("uint64", np.uint64, INTEGER)
float16 = _declare("float16", np.float16, FLOATING)
bfloat16 = _declare("bfloat16", ml_dtypes.bfloat16, FLOATING)
float32 = _declare("float32", np.float32, FLOATING)
float64 = _declare("float64", np.float64, FLOATING)
float8_e4m3fn = _declare("float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOATING)
float8_e5m2 = _declare("float8_e5m2", ml_dtypes.float8_e5m2, FLOATING)
float8_e8m0fnu = _declare("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, FLOATING)
float8_e8m0fnu.is_signed = False
complex32 = _declare("complex32", COMPLEX32, COMPLEX)  # type: ignore[arg-type]
complex64 = _declare("complex64", np.complex64, COMPLEX)
complex128 = _declare("complex128", np.complex128, COMPLEX)


class Nominal(dtype):
    """A dtype without tensors in flambeau, which programs only compare others with."""

    __slots__ = ()

    def __init__(self, name: str, itemsize: int, category: int, signed: bool | None) -> None:
        self.name, self.itemsize, self.category = name, itemsize, category
        self.is_floating_point, self.is_complex = category == FLOATING, category == COMPLEX
        if signed is not None:
            self.is_signed = signed

    @property
    def numpy(self) -> np.dtype:  # type: ignore[override]
        """Raise NotImplementedError."""
        raise NotImplementedError(f"tensors of dtype torch.{self.name} are not implemented in "
                                  "flambeau")


class QuantizedDtype(Nominal):
    """The dtype of a quantized tensor. `codes`: NumPy dtype of its integers; `limits`: their range.

    `scalar_name`: its name in PyTorch's messages. `packed`: the number of integers per byte.
    """

    __slots__ = ("codes", "limits", "packed", "scalar_name")

    def __init__(self, name: str, codes: type, scalar_name: str, packed: int = 1) -> None:
        self.codes, self.scalar_name, self.packed = np.dtype(codes), scalar_name, packed
        limits = np.iinfo(codes)
        self.limits = int(limits.min), int(limits.max) if packed == 1 else 2 ** (8 // packed) - 1
        super().__init__(name, self.codes.itemsize, INTEGER, None)

    @property
    def is_signed(self) -> bool:  # type: ignore[override]
        """Raise RuntimeError, as PyTorch does."""
        raise RuntimeError("isSignedType not supported for quantized types")

    @property
    def numpy(self) -> np.dtype:  # type: ignore[override]
        """Raise NotImplementedError: only quantization makes such tensors."""
        error = NotImplementedError(f"a tensor of dtype torch.{self.name} needs a scale and a zero "
                                    "point")
        error.add_note("torch.quantize_per_tensor and torch.quantize_per_channel make them.")
        raise error


qint8 = QuantizedDtype("qint8", np.int8, "QInt8")
quint8 = QuantizedDtype("quint8", np.uint8, "QUInt8")
qint32 = QuantizedDtype("qint32", np.int32, "QInt32")
quint4x2 = QuantizedDtype("quint4x2", np.uint8, "QUInt4x2", packed=2)
quint2x4 = QuantizedDtype("quint2x4", np.uint8, "QUInt2x4", packed=4)
QUANTIZED = {kind.name: kind for kind in (qint8, quint8, qint32, quint4x2, quint2x4)}

NOMINAL: dict[str, dtype] = {
    name: Nominal(name, 1, FLOATING, True)
    for name in ("float4_e2m1fn_x2", "float8_e4m3fnuz", "float8_e5m2fnuz")
}
NOMINAL.update(QUANTIZED)
for _name, _size in (("bits8", 1), ("bits16", 2), ("bits1x8", 1), ("bits2x4", 1), ("bits4x2", 1)):
    NOMINAL[_name] = Nominal(_name, _size, INTEGER, False)
for _bits in range(1, 8):
    NOMINAL[f"int{_bits}"] = Nominal(f"int{_bits}", 1, INTEGER, True)
    NOMINAL[f"uint{_bits}"] = Nominal(f"uint{_bits}", 1, INTEGER, False)

# Alternative names, as in PyTorch.
ALIASES = {
    "half": float16, "float": float32, "double": float64, "short": int16, "int": int32,
    "long": int64, "chalf": complex32, "cfloat": complex64, "cdouble": complex128,
}

# Python types that are accepted as dtypes in arguments.
PYTHON_TYPES: dict[Any, dtype] = {
    bool: bool_, int: int64, float: float64, complex: complex128,
}

FLOAT32, FLOAT64 = float32.numpy, float64.numpy
FLOATS = frozenset((FLOAT32, FLOAT64))
HALF = (float16, bfloat16, float8_e4m3fn, float8_e5m2)


def as_dtype(wanted: Any) -> Any:
    """Return the dtype for a Python type; return anything else unchanged.

    >>> torch.zeros(2, dtype=float).dtype, torch.ones(1).to(bool)
    (torch.float64, tensor([True]))
    """
    return PYTHON_TYPES.get(wanted, wanted) if wanted.__class__ is type else wanted


def parse_dtype(name: str) -> dtype:
    """Return the dtype called `name`, without 'torch.'; KeyError if there is none."""
    result = _BY_NAME.get(name) or NOMINAL.get(name)
    return ALIASES[name] if result is None else result


def all_dtypes() -> dict[str, dtype]:
    """Return all dtypes that tensors can have, by name."""
    return dict(_BY_NAME)


class DefaultDtype:
    """The dtype of tensors made from Python floats."""

    floating = float32


def get_default_dtype() -> dtype:
    """Return the dtype that Python floats become: float32 unless set.

    >>> torch.get_default_dtype()
    torch.float32
    """
    return DefaultDtype.floating


def set_default_dtype(d: dtype) -> None:
    """Set the dtype that Python floats become; TypeError if it is not a floating dtype.

    >>> torch.set_default_dtype(torch.float64)
    >>> x = torch.tensor([1.5])
    >>> torch.set_default_dtype(torch.float32)
    >>> x.dtype
    torch.float64
    """
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type"
        )
    DefaultDtype.floating = d
    note_change()


def _type_name(numpy_dtype: Any) -> str:
    kind = np.dtype(numpy_dtype).type
    return f"{kind.__module__}.{kind.__name__}"


def from_numpy_dtype(numpy_dtype: np.dtype) -> dtype:
    """Return the dtype for a NumPy dtype; TypeError if tensors do not support it."""
    known = FROM_NUMPY.get(numpy_dtype)
    if known is not None:
        return known
    native = np.dtype(numpy_dtype).newbyteorder("=")
    if native not in FROM_NUMPY:
        raise TypeError(
            f"can't convert np.ndarray of type {_type_name(numpy_dtype)}. The only supported "
            "types are: float64, float32, float16, complex64, complex128, int64, int32, int16, "
            "int8, uint64, uint32, uint16, uint8, and bool."
        )
    return FROM_NUMPY[native]


def infer_scalar_dtype(value: bool | int | float | complex) -> dtype:
    """Return the dtype of a tensor made from a Python number."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return DefaultDtype.floating
    return DefaultDtype.floating.to_complex()


def _require_limits(function: str, type: Any) -> Any:
    """Return the dtype for `finfo` or `iinfo`; TypeError if it isn't one."""
    result = as_dtype(type)
    if not isinstance(result, (dtype, QuantizedDtype)):
        raise TypeError(
            f"{function}(): argument 'type' (position 1) must be torch.dtype, not "
            f"{type.__class__.__name__}"
        )
    return result


class finfo:
    """Limits of a floating or complex dtype (by default, of the default dtype).

    >>> torch.finfo(torch.float16).max, torch.finfo(torch.float32).eps
    (65504.0, 1.1920928955078125e-07)
    """

    def __init__(self, type: dtype | None = None) -> None:
        chosen = get_default_dtype() if type is None else _require_limits("finfo", type)
        chosen = chosen.to_real()
        if not chosen.is_floating_point:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                "'torch.finfo'"
            )
        info = ml_dtypes.finfo(chosen.numpy)  # type: ignore[no-untyped-call]
        self.dtype = chosen.name
        self.bits = chosen.itemsize * 8
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        # PyTorch counts whole decimal digits; NumPy rounds the power to the dtype.
        self.resolution = 10.0 ** -int(info.nmant * math.log10(2))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, "
            f"tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype.

    >>> torch.iinfo(torch.int8).min, torch.iinfo(torch.int8).max
    (-128, 127)
    """

    def __init__(self, type: dtype) -> None:
        self._type: Any
        type = _require_limits("iinfo", type)
        if isinstance(type, QuantizedDtype):  # the limits of its integers, without a dtype name
            self._type, self.bits = type, type.codes.itemsize * 8
            byte_or_more: Any = type.codes
            ends = np.iinfo(byte_or_more)
            self.min, self.max = int(ends.min), int(ends.max)
            return
        if type.category == BOOL:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.category != INTEGER:
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                "'torch.iinfo'"
            )
        info = np.iinfo(type.numpy)
        self._type, self.dtype = type, type.name
        self.bits, self.min, self.max = info.bits, info.min, info.max

    def __getattr__(self, name: str) -> Any:
        if name == "dtype":
            raise NotImplementedError(f"\"dtype\" not implemented for '{self._type.scalar_name}'")
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other._type == self._type

    def __hash__(self) -> int:
        return hash(self._type)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
