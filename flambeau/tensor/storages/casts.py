"""The common base of untyped and typed storages: dtype conversions and device queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices import CPU, device
from ..dtypes import dtype, parse_dtype

if TYPE_CHECKING:
    from ..storage import TypedStorage


class StorageCasts:
    """Conversions to typed storages of other dtypes, and properties of CPU memory."""

    __slots__ = ()

    is_sparse = is_sparse_csr = is_hpu = False

    @property
    def device(self) -> Any:
        """The device that holds the memory."""
        raise NotImplementedError

    def _array(self) -> np.ndarray:
        """Return the elements as an array that shares the memory."""
        raise NotImplementedError

    def cpu(self) -> Any:
        """Return the same elements in main memory."""
        raise NotImplementedError

    def _cast(self, kind: dtype) -> TypedStorage:
        """Return a typed storage with the elements copied to `kind`."""
        raise NotImplementedError

    def get_device(self) -> int | None:
        """Return the device's index: None on the CPU.

        >>> torch.zeros(1).untyped_storage().get_device() is None
        True
        """
        return None

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Return whether the memory is page-locked: always False."""
        return False

    def _share_fd_cpu_(self) -> Any:
        self._check_shareable("_share_fd_")

    def _share_filename_cpu_(self) -> Any:
        self._check_shareable("_share_filename_")

    def _check_shareable(self, name: str) -> None:
        if self.device != CPU:
            raise RuntimeError(f"{name}: only available on CPU")

    def _write_file(self, file: Any, is_real_file: bool, save_size: bool,
                    element_size: int) -> None:
        """Write the elements to a file, after their number if `save_size`."""
        data = self.cpu()._array().tobytes()
        if save_size:
            file.write((len(data) // element_size).to_bytes(8, "little"))
        file.write(data)

    def pin_memory(self, device: Any = "cuda") -> Any:
        """Raise RuntimeError: there is no accelerator."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """Raise RuntimeError: there is no GPU."""
        raise RuntimeError("Torch not compiled with CUDA enabled")

    def hpu(self, device: Any = None, non_blocking: bool = False) -> Any:
        """Raise RuntimeError: there is no HPU."""
        raise RuntimeError("Cannot get HPU device: there is none")

    def mps(self) -> Any:
        """Raise RuntimeError: there is no Metal device."""
        raise RuntimeError("The MPS backend is not available")

    def to(self, *, device: Any, non_blocking: bool = False) -> Any:
        """Return self; NotImplementedError for a device other than the CPU."""
        _check_cpu(device)
        return self


def _check_cpu(target: Any) -> None:
    if device(target) != CPU:
        raise NotImplementedError(f"storages on {target} are not implemented in flambeau")


def _create_cast(name: str, kind: dtype) -> Callable[[StorageCasts], TypedStorage]:
    def cast(self: StorageCasts) -> TypedStorage:
        return self._cast(kind)

    cast.__name__ = name
    cast.__doc__ = f"The elements as {kind}."
    return cast


_CASTS = {
    "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8", "char": "int8", "double": "float64",
    "float": "float32", "half": "float16", "int": "int32", "long": "int64", "short": "int16",
    "complex_double": "complex128", "complex_float": "complex64",
    "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
    "float8_e4m3fnuz": "float8_e4m3fnuz", "float8_e5m2fnuz": "float8_e5m2fnuz",
}
for _name, _kind in _CASTS.items():
    setattr(StorageCasts, _name, _create_cast(_name, parse_dtype(_kind)))
