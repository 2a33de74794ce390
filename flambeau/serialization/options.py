"""Settings of saving and loading: byte order of unmarked files, checksums, how files are mapped."""

from __future__ import annotations

import mmap
from enum import Enum

# Windows has neither name; there a file is always mapped privately.
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


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed of files that do not state theirs; None means little-endian.

    >>> torch.serialization.get_default_load_endianness() is None
    True
    """
    return Settings.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set it; TypeError for anything that is neither LoadEndianness nor None.

    >>> torch.serialization.set_default_load_endianness(None)
    """
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    Settings.endianness = endianness


def get_crc32_options() -> bool:
    """Whether `save` computes a checksum of each record.

    >>> torch.serialization.get_crc32_options()
    True
    """
    return Settings.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether `save` computes checksums; without, damage is not noticed.

    >>> torch.serialization.set_crc32_options(True)
    """
    Settings.crc32 = compute_crc32


def get_default_mmap_options() -> int:
    """How `load(mmap=True)` maps: MAP_PRIVATE (writes stay in memory) or MAP_SHARED.

    >>> import mmap
    >>> torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return Settings.mmap_flags


class set_default_mmap_options:
    """Sets how `load(mmap=True)` maps, for good or as a context manager.

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
