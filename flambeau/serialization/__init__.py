"""Saving and loading: .pt files compatible with PyTorch, safe by default, and safetensors."""

from __future__ import annotations

from .loader import FileLike, get_unsafe_globals_in_checkpoint, load
from .location import MapLocation as MAP_LOCATION
from .location import (
    default_restore_location,
    location_tag,
    register_package,
    validate_cuda_device,
)
from .names import _get_layout
from .options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from .rebuild import StorageType
from .safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .saver import DEFAULT_PROTOCOL, save

__all__ = [
    "DEFAULT_PROTOCOL",
    "MAP_LOCATION",
    "FileLike",
    "LoadEndianness",
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "validate_cuda_device",
]
