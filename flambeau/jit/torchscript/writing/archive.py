"""Write an archive: classes as text, the module tree as a protocol 2 pickle, tensors as records."""

from __future__ import annotations

import os
import re
import struct
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from ....serialization.archive import ArchiveWriter
from ....serialization.rebuild import STORAGE_NAMES
from ....tensor.devices import device
from ....tensor.tensor import Tensor

__all__ = ["Call", "Instance", "Tagged", "drop_state", "write"]

_VERSION = b"10\n"


@dataclass
class Instance:
    """An object of an archive's class: the class's qualified name and the object's state.

    `attributes`: a dict by name, or the argument of the class's `__setstate__`.
    """

    qualified_name: str
    attributes: Any = field(default_factory=dict)


@dataclass
class Call:
    """A named tuple or Enum member, pickled as a call of its class."""

    qualified_name: str
    argument: Any


@dataclass
class Tagged:
    """A container with its TorchScript type, which cannot be inferred if it is empty."""

    value: Any
    kind: str


_STATE = re.compile(r"^(\s+__(?:parameters|buffers)__ = )\[.*\]$", re.MULTILINE)


def drop_state(code: dict[str, str]) -> dict[str, str]:
    """Turn parameters and buffers into plain attributes in the classes' code, for freezing."""
    return {space: _STATE.sub(r"\1[]", text) for space, text in code.items()}


def write(file: Any, root: Instance, code: dict[str, str], constants: list[Any],
          extra_files: dict[str, Any] | None = None) -> None:
    """Write an archive. `code`: source text by namespace, such as `__torch__`."""
    is_path = isinstance(file, (str, os.PathLike))
    name = os.path.basename(os.fspath(file)).partition(".")[0] if is_path else ""
    parent = os.path.dirname(os.fspath(file)) if is_path else ""
    if parent and not os.path.isdir(parent):
        raise RuntimeError(f"Parent directory {parent} does not exist.")
    with open(file, "wb") if is_path else nullcontext(file) as stream:
        writer = ArchiveWriter(stream, name or "archive", version=_VERSION)
        for key, content in (extra_files or {}).items():
            writer.record(f"extra/{key}",
                          content.encode() if isinstance(content, str) else content)
        for record, value in (("data", root), ("constants", tuple(constants))):
            pickler = _Pickler()
            pickled = pickler.dump(value)
            for number, tensor in enumerate(pickler.storages):
                writer.record(f"{record}/{number}", tensor)
            writer.record(f"{record}.pkl", pickled)
        for space, text in code.items():
            writer.record(f"code/{space.replace('.', '/')}.py", text.encode())
        writer.record("byteorder", b"little")
        writer.close()


class _Pickler:
    """Pickler limited to opcodes that PyTorch's unpickler knows. Preserves sharing."""

    def __init__(self) -> None:
        self.parts: list[bytes] = [b"\x80\x02"]
        self.storages: list[bytes] = []
        self._memo: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []

    def dump(self, value: Any) -> bytes:
        """Return the pickle of a value."""
        self.value(value)
        self.parts.append(b".")
        return b"".join(self.parts)

    def value(self, value: Any) -> None:
        """Write a value, or a memo reference if already written."""
        if isinstance(value, (Instance, Tensor)):
            known = self._memo.get(id(value))
            if known is not None:
                self.parts.append(b"j" + struct.pack("<I", known))
                return
            if isinstance(value, Instance):
                self._instance(value)
            else:
                self._tensor(value)
                self._remember(value)
        elif value is None or isinstance(value, bool):
            self.parts.append({None: b"N", True: b"\x88", False: b"\x89"}[value])
        elif isinstance(value, int):
            self._int(value)
        elif isinstance(value, float):
            self.parts.append(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            text = value.encode()
            self.parts.append(b"X" + struct.pack("<I", len(text)) + text)
        elif isinstance(value, device):
            self._call("torch", "device", (str(value),))
        elif isinstance(value, Call):
            module, _, name = value.qualified_name.rpartition(".")
            self._call(module, name, value.argument)
        elif isinstance(value, Tagged):
            self._call("torch.jit._pickle", "restore_type_tag", (value.value, value.kind))
        else:
            self._write_container(value)

    def _write_container(self, value: Any) -> None:
        if isinstance(value, tuple):
            self.parts.append(b"(")
            for item in value:
                self.value(item)
            self.parts.append(b"t")
        elif isinstance(value, list):
            self.parts.append(b"](")
            for item in value:
                self.value(item)
            self.parts.append(b"e")
        elif isinstance(value, dict):
            self.parts.append(b"}(")
            for key, item in value.items():
                self.value(key)
                self.value(item)
            self.parts.append(b"u")
        else:
            raise NotImplementedError(f"torch.jit.save: an attribute of type {type(value)}")

    def _int(self, value: int) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self.parts.append(b"J" + struct.pack("<i", value))
        else:
            data = value.to_bytes(8, "little", signed=True)
            self.parts.append(b"\x8a\x08" + data)

    def _remember(self, value: Any) -> None:
        self._alive.append(value)
        number = self._memo[id(value)] = len(self._memo)
        self.parts.append(b"r" + struct.pack("<I", number))

    def _global(self, module: str, name: str) -> None:
        self.parts.append(f"c{module}\n{name}\n".encode())

    def _call(self, module: str, name: str, args: Any) -> None:
        self._global(module, name)
        self.value(args)
        self.parts.append(b"R")

    def _instance(self, value: Instance) -> None:
        module, _, name = value.qualified_name.rpartition(".")
        self._global(module, name)
        self.parts.append(b")\x81")
        self._remember(value)
        self.value(value.attributes)
        self.parts.append(b"b")

    def _write_quantizer(self, value: Tensor) -> None:
        """Write the quantization parameters of a tensor."""
        scheme = value.qscheme()
        self.parts.append(b"(")
        self._global("torch", scheme.name)
        by_tensor = scheme.name == "per_tensor_affine"
        for part in (value.q_scale(), value.q_zero_point()) if by_tensor else (
                value.q_per_channel_scales(), value.q_per_channel_zero_points(),
                value.q_per_channel_axis()):
            self.value(part)
        self.parts.append(b"t")

    def _tensor(self, value: Tensor) -> None:
        """Write a tensor as a view of its storage; write each storage once, in full."""
        kind = STORAGE_NAMES.get(value.dtype.name)
        if kind is None or value.layout.name != "strided":
            raise NotImplementedError(
                f"torch.jit.save: a tensor of {value.dtype} and layout {value.layout}")
        storage = value.detach().untyped_storage()
        key = storage.data_ptr()
        if key not in self._numbers or not storage.nbytes():
            self._numbers[key] = len(self.storages)
            self.storages.append(storage._array().tobytes())
            self._alive.append(storage)
        self._global("torch._utils",
                     "_rebuild_qtensor" if value.is_quantized else "_rebuild_tensor_v2")
        self.parts.append(b"((")
        self.value("storage")
        self._global("torch", kind)
        for part in (str(self._numbers[key]), "cpu", storage.nbytes() // value.dtype.itemsize):
            self.value(part)
        self.parts.append(b"tQ")
        for number in (value.storage_offset(), tuple(value.shape), tuple(value.stride())):
            self.value(number)
        if value.is_quantized:
            self._write_quantizer(value)
        self.value(bool(value.requires_grad))
        self._call("collections", "OrderedDict", ())
        self.parts.append(b"tR")
