"""FloatTensor, LongStorage and their like: older names for tensors and storages by dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..native.foundation.user_frames import warn
from ..tensor import dtypes as types
from ..tensor.dtypes import dtype, set_default_dtype
from ..tensor.storage import STORAGE_TYPES, TypedStorage, UntypedStorage, find_stored_dtype
from ..tensor.tensor import Tensor

_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16",
    "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
    "Bool": "bool",
}
_COMPLEX = {"ComplexFloat": "complex64", "ComplexDouble": "complex128"}
_QUANTIZED = {
    "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32", "QUInt4x2": "quint4x2",
    "QUInt2x4": "quint2x4",
}


class _LegacyTensor(type):
    """The type of FloatTensor and the others: calling makes a tensor of its dtype."""

    legacy_dtype: dtype

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        if bases:
            raise TypeError(f"type 'torch.{bases[0].__name__}' is not an acceptable base type")
        return super().__new__(cls, name, bases, namespace)

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        from ..ops.creation.interchange import construct

        return construct(Tensor, *args, dtype=cls.legacy_dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.legacy_dtype


class _LegacyStorage(type):
    """The type of FloatStorage and the others: calling makes a TypedStorage of its dtype."""

    dtype: dtype

    def __call__(cls, *args: Any, wrap_storage: UntypedStorage | None = None) -> TypedStorage:
        if wrap_storage is None:
            supplied = args[0] if args else 0
            kind = find_stored_dtype(cls.dtype)
            array = (
                np.zeros(supplied, kind)
                if isinstance(supplied, (int, np.integer))
                else np.asarray(supplied, kind)
            )
            wrap_storage = UntypedStorage(array.view(np.uint8))
        return TypedStorage(wrap_storage=wrap_storage, dtype=cls.dtype)

    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """A copy of a buffer's elements, which are of the class's dtype."""
        return TypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs)

    _from_buffer = from_buffer  # what accelerate calls

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first elements of a file as memory, read when looked at."""
        return TypedStorage.from_file(filename, shared, size, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype


def _create_type(kind: type, name: str, attributes: dict[str, Any]) -> type:
    result = kind(name, (), attributes)
    result.__module__ = "torch"
    return result


def legacy_types() -> dict[str, type]:
    """The classes by name."""
    result = {}
    for name, short in _DTYPES.items():
        kind = types.parse_dtype(short)
        result[f"{name}Tensor"] = _create_type(_LegacyTensor, f"{name}Tensor",
                                               {"legacy_dtype": kind, "dtype": kind})
    for name, short in (_DTYPES | _COMPLEX | _QUANTIZED).items():
        kind = types.parse_dtype(short)
        new = _create_type(_LegacyStorage, f"{name}Storage", {"dtype": kind})
        result[f"{name}Storage"] = STORAGE_TYPES[kind] = new
    return result


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by a legacy type or its name ('torch.DoubleTensor').

    >>> torch.set_default_tensor_type("torch.FloatTensor")
    >>> torch.zeros(1).dtype
    torch.float32
    """
    warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        UserWarning,
    )
    name = t if isinstance(t, str) else f"torch.{getattr(t, '__name__', t)}"
    short = _DTYPES.get(name.removeprefix("torch.").removesuffix("Tensor"))
    if short is None:
        raise TypeError(f"invalid type object: {name} is no tensor type")
    set_default_dtype(types.parse_dtype(short))


def typename(obj: Any) -> str:
    """The qualified name of a tensor's type, or of any object's.

    >>> torch.typename(torch.ones(1))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    owner = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(owner, "__module__", None)
    return owner.__qualname__ if module in (None, "builtins") else f"{module}.{owner.__qualname__}"
