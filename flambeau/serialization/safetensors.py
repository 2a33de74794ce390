"""The safetensors format: a JSON header with dtypes, shapes and offsets, then the bytes.

Header: 8 bytes little-endian length, then JSON padded with spaces to a multiple of 8.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.tensor import Tensor
from flambeau.tensor.dtypes import all_dtypes
from flambeau.tensor.storage import UntypedStorage, tensor_on

from .saver import replacing

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "C64",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_DTYPES = {code: all_dtypes()[name] for name, code in _NAMES.items() if name in all_dtypes()}
# From the narrowest to the widest; the format's own writer puts them in this order, from the end.
_ORDER = (
    "bool", "uint8", "int8", "float8_e5m2", "float8_e4m3fn", "int16", "uint16", "float16",
    "bfloat16", "int32", "uint32", "float32", "complex64", "float64", "int64", "uint64",
)
_LONGEST_HEADER = 100_000_000


class SafetensorError(Exception):
    """A file that is not in the format."""


# -------------------------------------------------------------------------------- saving


def _memory(name: str, tensor: Tensor) -> np.ndarray:
    """A tensor's elements as bytes, without a copy."""
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}"
        )
    if tensor.dtype.name not in _NAMES:
        raise ValueError(f"safetensors has no dtype for tensor `{name}` of {tensor.dtype}")
    if not tensor.is_contiguous():
        raise ValueError(
            f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It "
            "either means you are trying to save tensors which are reference of each other in "
            "which case it's recommended to save only the full tensors, and reslice at load time, "
            "or simply call `.contiguous()` on your tensor to pack it before saving."
        )
    start = tensor.storage_offset() * tensor.element_size()
    size = tensor.numel() * tensor.element_size()
    return tensor.untyped_storage()._bytes[start : start + size] if size else np.empty(0, np.uint8)


def _refuse_sharing(memories: dict[str, np.ndarray]) -> None:
    spans = sorted(
        (m.ctypes.data, m.ctypes.data + m.size, name) for name, m in memories.items() if m.size
    )
    for (_, end, one), (start, _, other) in itertools.pairwise(spans):
        if start < end:
            raise RuntimeError(
                f"Some tensors share memory, this will lead to duplicate memory on disk and "
                f"potential differences when loading them again: {{'{one}', '{other}'}}. Save one "
                "of them, or clone them."
            )


def _header(tensors: dict[str, Tensor], metadata: dict[str, str] | None) -> tuple[bytes, list[str]]:
    entries: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    # Widest elements first, so that every tensor is aligned to its own.
    order = sorted(tensors, key=lambda name: (-_ORDER.index(tensors[name].dtype.name), name))
    at = 0
    for name in order:
        tensor = tensors[name]
        end = at + tensor.numel() * tensor.element_size()
        shape = list(tensor.shape)
        code = _NAMES[tensor.dtype.name]
        entries[name] = {"dtype": code, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, order


def _write(
    tensors: dict[str, Tensor], metadata: dict[str, str] | None, chunks: Any
) -> None:
    memories = {name: _memory(name, tensor) for name, tensor in tensors.items()}
    _refuse_sharing(memories)
    header, order = _header(tensors, metadata)
    chunks(header)
    for name in order:
        chunks(memories[name].data if memories[name].size else b"")


def save_file(
    tensors: dict[str, Tensor], filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """Writes tensors by name; the file is replaced when the new one is whole.

    ValueError for tensors that are not contiguous, RuntimeError for ones that share memory.
    """
    with replacing(Path(filename)) as file:
        _write(tensors, metadata, file.write)


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes that `save_file` writes."""
    made = bytearray()
    _write(tensors, metadata, made.extend)
    return bytes(made)


# ------------------------------------------------------------------------------- loading


class _Entry:
    """Where a tensor lies in the data part, and what it is."""

    def __init__(self, name: str, entry: Any) -> None:
        try:
            self.kind = _DTYPES[entry["dtype"]]
            self.shape = [int(n) for n in entry["shape"]]
            self.start, self.end = (int(n) for n in entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            raise SafetensorError(f"invalid header for tensor `{name}`: {error!r}") from None
        if min(self.shape, default=0) < 0 or not 0 <= self.start <= self.end:
            raise SafetensorError(f"invalid header for tensor `{name}`: negative size or offset")
        if math.prod(self.shape) * self.kind.itemsize != self.end - self.start:
            raise SafetensorError(
                f"tensor `{name}` of shape {self.shape} and {self.kind} does not have "
                f"{self.end - self.start} bytes"
            )

    def tensor(self, memory: np.ndarray) -> Tensor:
        """The tensor on its bytes."""
        strides, step = [], 1
        for n in reversed(self.shape):
            strides.append(step)
            step *= max(n, 1)
        return tensor_on(UntypedStorage(memory), self.kind, 0, self.shape, strides[::-1])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise SafetensorError("invalid header: a key appears twice")
    return dict(pairs)


def _parse(text: bytes) -> tuple[dict[str, _Entry], dict[str, str]]:
    try:
        header = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"invalid JSON in header: {error}") from None
    if not isinstance(header, dict):
        raise SafetensorError("invalid header: not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise SafetensorError("invalid header: __metadata__ is not an object")
    return {name: _Entry(name, entry) for name, entry in header.items()}, metadata


class safe_open:
    """Opens a file and reads tensors from it one by one, by name.

    SafetensorError when it is not in the format: in particular, the tensors must fill the file
    without gaps or overlaps.
    """

    def __init__(
        self, filename: str | os.PathLike[str] | io.BufferedIOBase, framework: str = "pt",
        device: str = "cpu",
    ) -> None:  # fmt: skip
        self._file: io.BufferedIOBase
        if isinstance(filename, (str, os.PathLike)):
            self._file = open(filename, "rb")  # noqa: SIM115 (it is its own context manager)
        else:
            self._file = filename
        self._device = device
        try:
            self._entries, self._metadata = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def _read_header(self) -> tuple[dict[str, _Entry], dict[str, str]]:
        total = self._file.seek(0, 2)
        self._file.seek(0)
        first = self._file.read(8)
        size = int.from_bytes(first, "little")
        if len(first) < 8 or size > min(total - 8, _LONGEST_HEADER):
            raise SafetensorError("header too large or too short: not a safetensors file")
        entries, metadata = _parse(self._file.read(size))
        self._start, at = 8 + size, 0
        for entry in sorted(entries.values(), key=lambda e: (e.start, e.end)):
            if entry.start != at:
                raise SafetensorError("invalid offsets: tensors overlap or leave gaps")
            at = entry.end
        if self._start + at != total:
            raise SafetensorError(f"the file has {total} bytes, its header says {self._start + at}")
        return entries, metadata

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """The names, in alphabetical order."""
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def metadata(self) -> dict[str, str] | None:
        """The text entries that the file carries."""
        return self._metadata or None

    def get_tensor(self, name: str) -> Tensor:
        """One tensor, in memory of its own."""
        if name not in self._entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        entry = self._entries[name]
        memory = np.empty(entry.end - entry.start, np.uint8)
        self._file.seek(self._start + entry.start)
        if memory.size and self._file.readinto(memory.data) != memory.size:
            raise SafetensorError(f"tensor `{name}` is cut short")
        made = entry.tensor(memory)
        return made if str(self._device) == "cpu" else made.to(self._device)


def load_file(filename: str | os.PathLike[str], device: str = "cpu") -> dict[str, Tensor]:
    """All tensors of a file, by name."""
    with safe_open(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file}


def load(data: bytes) -> dict[str, Tensor]:
    """All tensors in the bytes of a file."""
    with safe_open(io.BytesIO(data)) as file:
        return {name: file.get_tensor(name) for name in file}
