"""Pictures for summaries: axes in order, bytes out of floats, several in a grid, PNG files."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np


def png(image: np.ndarray) -> bytes:
    """The PNG file of a uint8 image (h, w, c), with 1 to 4 channels."""
    height, width, channels = image.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}.get(channels)
    if kind is None:
        raise ValueError(f"an image has 1 to 4 channels, but this one has {channels}")
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # a filter byte, 0, before each row
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


def channels_last(image: np.ndarray, formats: str) -> np.ndarray:
    """An image, or a batch as a grid, as (h, w, 3 or 4); `formats` names its axes, as "CHW"."""
    formats = formats.upper()
    if len(formats) != image.ndim or len(set(formats)) != len(formats):
        raise ValueError(
            f"dataformats={formats!r} names {len(formats)} axes, but the image has shape "
            f"{image.shape}"
        )
    if set(formats) - set("NCHW") or not {"H", "W"} <= set(formats):
        raise ValueError(f"dataformats is made of N, C, H and W, not {formats!r}")
    if "C" not in formats:
        image, formats = image[..., None], formats + "C"
    if "N" in formats:
        image = grid(image.transpose([formats.index(axis) for axis in "NHWC"]))
    else:
        image = image.transpose([formats.index(axis) for axis in "HWC"])
    return np.repeat(image, 3, 2) if image.shape[2] == 1 else image


def grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Images (n, h, w, c) side by side as one (H, W, c), at most `columns` in a row."""
    n, h, w, c = images.shape
    columns = min(n, columns)
    rows = -(-n // columns)
    whole = np.zeros((rows * columns, h, w, c), images.dtype)
    whole[:n] = images
    whole = whole.reshape(rows, columns, h, w, c)
    # (rows, columns, h, w, c) -> (rows, h, columns, w, c)
    return whole.transpose(0, 2, 1, 3, 4).reshape(rows * h, columns * w, c)


def as_bytes(image: np.ndarray) -> np.ndarray:
    """uint8 as it is; anything else from 0 to 1, clipped."""
    if image.dtype == np.uint8:
        return image
    scaled = np.nan_to_num(image.astype(np.float32)) * 255
    return scaled.clip(0, 255).astype(np.uint8)


def of_figure(figure: Any) -> np.ndarray:
    """What a matplotlib figure looks like, as uint8 (h, w, 4)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())
