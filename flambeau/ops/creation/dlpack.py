"""DLPack support beyond NumPy's dtypes: bfloat16 is exported and imported as NumPy's uint16, with
the type in the capsule rewritten. Memory is shared."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ...tensor.dtypes import bfloat16

_UINT, _BFLOAT = 1, 4  # DLPack's codes


class _Tensor(ctypes.Structure):
    """The start of the struct in a "dltensor" capsule."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _read_capsule(capsule: Any) -> _Tensor | None:
    """Return the tensor in an unconsumed capsule of DLPack's unversioned kind, else None."""
    if not _is_valid(capsule, b"dltensor"):
        return None
    return _Tensor.from_address(_pointer_of(capsule, b"dltensor"))


def export_array(array: np.ndarray) -> Any:
    """Return a DLPack capsule for an array's memory."""
    if array.dtype != bfloat16.numpy:
        return array.__dlpack__()
    capsule = array.view(np.uint16).__dlpack__()
    tensor = _read_capsule(capsule)
    assert tensor is not None
    tensor.code = _BFLOAT
    return capsule


def import_array(source: Any) -> np.ndarray:
    """Return an array that shares memory with a DLPack capsule, or an object that offers one."""
    capsule = source if type(source).__name__ == "PyCapsule" else source.__dlpack__()
    tensor = _read_capsule(capsule)
    if tensor is None or (tensor.code, tensor.bits) != (_BFLOAT, 16):
        return _make_writable(np.from_dlpack(_Offered(capsule)))
    tensor.code = _UINT
    return _make_writable(np.from_dlpack(_Offered(capsule))).view(bfloat16.numpy)


def _make_writable(array: np.ndarray) -> np.ndarray:
    """Return a writable array on the same memory; NumPy imports such capsules as read-only."""
    if array.flags.writeable or not array.size:
        return array
    owner = _Owner()
    address, _ = array.__array_interface__["data"]
    owner.array = array
    owner.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
    return np.asarray(owner)


class _Owner:
    """An object that NumPy keeps alive as long as an array on its memory."""

    array: np.ndarray
    __array_interface__: dict[str, Any]


class _Offered:
    """Wraps a capsule as an object with DLPack's protocol, on the CPU."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0
