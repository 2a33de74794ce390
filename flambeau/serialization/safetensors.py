"""safetensors files: convert between tensors and the `safetensors` package's data.

https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..native.foundation.public_names import class_of
from ..tensor import Tensor
from ..tensor.dtypes import all_dtypes, dtype
from ..tensor.storage import UntypedStorage
from ..tensor.tensor import wrap_storage
from .atomic_file import open_replacement

if TYPE_CHECKING:
    from safetensors import SafetensorError as SafetensorError
    from safetensors import TensorSpec

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]

_FORMAT_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}


def __getattr__(name: str) -> Any:
    """Import the package's SafetensorError on first use."""
    if name == "SafetensorError":
        from safetensors import SafetensorError

        return SafetensorError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -------------------------------------------------------------------------------- saving


def _check_storable(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"Key `{name}` is invalid, expected torch.Tensor but received {class_of(tensor)}"
        )
    if tensor.dtype.name not in _FORMAT_DTYPES.values():
        raise ValueError(f"safetensors has no dtype for tensor `{name}` of {tensor.dtype}")
    if not tensor.is_contiguous():
        raise ValueError(
            f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It "
            "either means you are trying to save tensors which are reference of each other in "
            "which case it's recommended to save only the full tensors, and reslice at load time, "
            "or simply call `.contiguous()` on your tensor to pack it before saving."
        )


def _check_disjoint(tensors: dict[str, Tensor]) -> None:
    spans = sorted(
        (tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes, name)
        for name, tensor in tensors.items()
        if tensor.nbytes
    )
    for (_, end, first), (start, _, second) in itertools.pairwise(spans):
        if start < end:
            raise RuntimeError(
                f"Some tensors share memory, this will lead to duplicate memory on disk and "
                f"potential differences when loading them again: {{'{first}', '{second}'}}. Save "
                "one of them, or clone them."
            )


def _list_specs(tensors: dict[str, Tensor]) -> dict[str, TensorSpec]:
    """Return dtype, shape and address of each tensor, without copying."""
    from safetensors import TensorSpec

    for name, tensor in tensors.items():
        _check_storable(name, tensor)
    _check_disjoint(tensors)
    return {
        name: TensorSpec(
            dtype=tensor.dtype.name, shape=list(tensor.shape), data_ptr=tensor.data_ptr(),
            data_len=tensor.nbytes,
        )
        for name, tensor in tensors.items()
    }


def save_file(
    tensors: dict[str, Tensor], filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write named tensors. An existing file is replaced once the new one is complete.

    Raises ValueError for tensors that are not contiguous, RuntimeError for ones that share memory.
    """
    from safetensors import serialize_file

    specs = _list_specs(tensors)
    with open_replacement(Path(filename)) as file:
        serialize_file(specs, file.name, metadata=metadata)


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes that `save_file` would write."""
    from safetensors import serialize

    return bytes(serialize(_list_specs(tensors), metadata=metadata))


# ------------------------------------------------------------------------------- loading


def _find_dtype(format_dtype: str) -> dtype:
    name = _FORMAT_DTYPES.get(format_dtype)
    if name is None:
        raise NotImplementedError(f"safetensors: tensors of dtype {format_dtype}")
    return all_dtypes()[name]


def _create_tensor(memory: Any, format_dtype: str, shape: list[int]) -> Tensor:
    """Return a tensor over a writable buffer, without copying."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    buffer = np.frombuffer(memory, np.uint8) if len(memory) else np.empty(0, np.uint8)
    return wrap_storage(UntypedStorage(buffer), _find_dtype(format_dtype), 0, shape, strides[::-1])


class safe_open:
    """Opens a file and reads tensors from it one by one, by name.

    Raises SafetensorError if the format is invalid; in particular, tensors must fill the file
    without gaps or overlaps.
    """

    def __init__(
        self, filename: str | os.PathLike[str], framework: str = "pt", device: str = "cpu"
    ) -> None:
        from safetensors import safe_open as open_checked

        self._device = device
        self._header = open_checked(os.fspath(filename), framework="np")
        # The package supports only NumPy's own dtypes, so the bytes are read here. It has checked
        # that they lie contiguously after the header, in this order.
        self._file = open(filename, "rb")  # noqa: SIM115 (it is its own context manager)
        self._starts: dict[str, int] = {}
        at = 8 + int.from_bytes(self._file.read(8), "little")
        for name in self._header.offset_keys():
            self._starts[name] = at
            at += self._measure_entry(name)

    def _measure_entry(self, name: str) -> int:
        entry = self._header.get_slice(name)
        return math.prod(entry.get_shape()) * _find_dtype(entry.get_dtype()).itemsize

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """Return the names in alphabetical order."""
        return sorted(self._starts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def metadata(self) -> dict[str, str] | None:
        """Return the file's text metadata."""
        return self._header.metadata() or None

    def get_tensor(self, name: str) -> Tensor:
        """Return one tensor in newly allocated memory."""
        entry = self._header.get_slice(name)  # raises for an unknown name
        memory = np.empty(self._measure_entry(name), np.uint8)
        self._file.seek(self._starts[name])
        if memory.size and self._file.readinto(memory.data) != memory.size:
            raise OSError(f"tensor `{name}` is cut short: the file was changed while it was read")
        loaded = _create_tensor(memory, entry.get_dtype(), entry.get_shape())
        return loaded if str(self._device) == "cpu" else loaded.to(self._device)


def load_file(filename: str | os.PathLike[str], device: str = "cpu") -> dict[str, Tensor]:
    """Load all tensors of a file, by name."""
    with safe_open(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file}


def load(data: bytes) -> dict[str, Tensor]:
    """Load all tensors from the bytes of a file, by name."""
    from safetensors import deserialize

    return {
        name: _create_tensor(entry["data"], entry["dtype"], entry["shape"])
        for name, entry in deserialize(bytes(data))
    }
