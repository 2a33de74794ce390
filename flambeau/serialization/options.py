"""Settings of saving and loading: default byte order, checksums, memory mapping."""

from __future__ import annotations

import mmap
from enum import Enum

# Windows has neither constant; files are always mapped privately there.
MAP_SHARED = getattr(mmap, "MAP_SHARED", 1)
MAP_PRIVATE = getattr(mmap, "MAP_PRIVATE", 2)


class LoadEndianness(Enum):
    """The byte order of a file that does not state it.

    >>> [order.name for order in torch.serialization.LoadEndianness]
    ['NATIVE', 'LITTLE', 'BIG']
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class Settings:
    """The current settings."""

    endianness: LoadEndianness | None = None
    crc32 = True
    mmap_flags: int = MAP_PRIVATE
    skip_data = False


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order assumed for files that do not state it. None means little-endian.

    >>> torch.serialization.get_default_load_endianness() is None
    True
    """
    return Settings.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order for files that do not state it. Raises TypeError for an invalid type.

    >>> torch.serialization.set_default_load_endianness(None)
    """
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    Settings.endianness = endianness


def get_crc32_options() -> bool:
    """Return whether `save` computes a checksum of each record.

    >>> torch.serialization.get_crc32_options()
    True
    """
    return Settings.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether `save` computes checksums. Without them damage goes undetected.

    >>> torch.serialization.set_crc32_options(True)
    """
    Settings.crc32 = compute_crc32


def get_default_mmap_options() -> int:
    """Return how `load(mmap=True)` maps: MAP_PRIVATE (writes stay in memory) or MAP_SHARED.

    >>> import mmap
    >>> torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return Settings.mmap_flags


class set_default_mmap_options:
    """Set how `load(mmap=True)` maps, permanently or as a context manager.

    >>> import mmap
    >>> with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     torch.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected "
                f"mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        self._before, Settings.mmap_flags = Settings.mmap_flags, flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        Settings.mmap_flags = self._before


class skip_data:
    """Context: `save` writes zeros for the data of tensors, `load` leaves theirs uninitialized.

    `materialize_fake_tensors` is accepted. `save` raises RuntimeError in the old file format.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> with torch.serialization.skip_data():
    ...     torch.save(torch.ones(2), buffer)
    >>> _ = buffer.seek(0)
    >>> torch.load(buffer)
    tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before, Settings.skip_data = Settings.skip_data, True

    def __exit__(self, *exception: object) -> None:
        Settings.skip_data = self._before
