"""Byte order conversion of files from machines of the other endianness."""

from __future__ import annotations

import numpy as np

from ..tensor.dtypes import dtype


def swap_bytes(memory: np.ndarray, element_type: dtype) -> None:
    """Reverse the bytes of each element in place; of each part of complex elements."""
    width = element_type.itemsize // 2 if element_type.is_complex else element_type.itemsize
    memory.view(f"u{width}").byteswap(inplace=True)
