"""Devices: `cpu` holds data, `meta` only shapes. Other names such as `cuda` parse, but raise when
memory is allocated on them."""

from __future__ import annotations

import re
from typing import ClassVar

from ..native.foundation.user_frames import add_notes
from .ambient import note_change

_KNOWN = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga",
    "maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)

_DTYPE = re.compile(r"(bfloat|float|int|uint|complex)\d+")


class device:
    """A device by name ('cpu', 'cuda:1', 'meta'); `with device('meta'):` makes it the default.

    >>> torch.device("cpu"), torch.device("cuda:1").index
    (device(type='cpu'), 1)
    >>> with torch.device("meta"):
    ...     torch.zeros(2).device
    device(type='meta')
    """

    __slots__ = ("index", "type")

    index: int | None
    type: str

    def __init__(self, type: str | int | device = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if isinstance(type, int) and not isinstance(type, bool):
            if type < 0:
                raise RuntimeError("Device index must not be negative")
            self.type, self.index = "cuda", type
            return
        if not isinstance(type, str):
            raise TypeError(
                f"device(): argument 'type' must be str, int or device, "
                f"not {type.__class__.__name__}"
            )
        match = re.fullmatch(r"([a-z_]+)(?::(0|[1-9]\d*))?", type)
        if match is None:
            raise add_notes(
                RuntimeError(f"Invalid device string: '{type}'"),
                f"A dtype is no string: torch.{type}." if _DTYPE.fullmatch(type) else None,
            )
        if match[1] not in _KNOWN:
            raise RuntimeError(
                f"Expected one of {', '.join(_KNOWN)} device type at start of device string: "
                f"{match[1]}"
            )
        if match[2] is not None and index is not None:
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: "
                f"{type}"
            )
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        self.type = match[1]
        self.index = int(match[2]) if match[2] is not None else index

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[object, ...]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> device:
        DefaultDevice.stack.append(DefaultDevice.current)
        set_default_device(self)
        return self

    def __exit__(self, *exception: object) -> None:
        DefaultDevice.current = DefaultDevice.stack.pop()
        note_change()


CPU = device("cpu")
META = device("meta")


class DefaultDevice:
    """The device of new tensors if none is given."""

    current = CPU
    stack: ClassVar[list[device]] = []


def get_default_device() -> device:
    """Return the device of new tensors if none is given.

    >>> torch.get_default_device()
    device(type='cpu')
    """
    return DefaultDevice.current


def set_default_device(device_: device | str | None) -> None:
    """Set the device of new tensors; None means the CPU.

    >>> torch.set_default_device("meta")
    >>> x = torch.zeros(2)
    >>> torch.set_default_device(None)
    >>> x.device
    device(type='meta')
    """
    DefaultDevice.current = CPU if device_ is None else require_usable(device_)
    note_change()


def require_usable(wanted: device | str | int) -> device:
    """Return the device if tensors can be allocated on it; otherwise raise as PyTorch does."""
    if wanted is CPU or wanted.__class__ is str and wanted == "cpu":
        return CPU
    actual = wanted if wanted.__class__ is device else device(wanted)
    if actual.type in ("cpu", "meta"):
        return CPU if actual.type == "cpu" else META
    if actual.type == "cuda":
        raise add_notes(
            AssertionError("Torch not compiled with CUDA enabled"),
            f"flambeau runs on the CPU; device '{actual}' is not available. Check "
            "torch.cuda.is_available() first.",
        )
    raise NotImplementedError(
        f"device '{actual}' is not available in flambeau; use 'cpu' or 'meta'"
    )
