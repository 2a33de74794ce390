"""Image files: decode and encode PNG, JPEG, WEBP and GIF with Pillow, if it is installed.

torchvision looks them up in its compiled library; here they are `torch.ops.image.*`. They are not
registered operators: they take bytes and paths and have no derivatives.
"""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from ..native.foundation.user_frames import warn
from ..tensor.tensor import Tensor, wrap

NAMESPACE = "image"
OPERATORS = ()

UNCHANGED, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA = range(5)
_MODES = {GRAY: "L", GRAY_ALPHA: "LA", RGB: "RGB", RGB_ALPHA: "RGBA"}
_SIGNATURES = {
    b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG", b"GIF89a": "GIF", b"GIF87a": "GIF",
    b"RIFF": "WEBP",
}
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I")  # 16 bits per channel, from PNG files


def _import_pillow(name: str) -> Any:
    """Import a module of Pillow; RuntimeError if Pillow is not installed."""
    try:
        return importlib.import_module(f"PIL.{name}")
    except ImportError as error:
        raise RuntimeError(
            "torch.ops.image: images are read and written by Pillow, which is not installed"
        ) from error


def read_file(path: str) -> Tensor:
    """Read a file as a uint8 tensor; RuntimeError if it is missing or empty."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise RuntimeError(f"[Errno {error.errno}] {error.strerror}: '{path}'") from error
    if not content:
        raise RuntimeError("Expected a non empty file")
    return wrap(np.frombuffer(bytearray(content), np.uint8))


def write_file(path: str, data: Tensor) -> None:
    """Write the bytes of a 1-d uint8 tensor to a file."""
    if data._array.dtype != np.uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if data.dim() != 1:
        raise RuntimeError("Input data should be a 1-dimensional tensor")
    try:
        Path(path).write_bytes(np.ascontiguousarray(data._array).tobytes())
    except OSError as error:
        raise RuntimeError("Error opening output file") from error


def _read_bytes(data: Tensor) -> bytes:
    if data._array.dtype != np.uint8:
        raise RuntimeError(f"Input tensor must have uint8 data type, got {data._array.dtype}")
    if data.dim() != 1 or not data.numel():
        raise RuntimeError(
            f"Input tensor must be 1-dimensional and non-empty, got {data.dim()} dims and "
            f"{data.numel()} numels."
        )
    return np.ascontiguousarray(data._array).tobytes()


_WRONG = {
    "PNG": "Content is not png!", "JPEG": "Not a JPEG file",
    "GIF": "DGifOpenFileName() failed - 103", "WEBP": "WebPGetFeatures failed with error code 3",
}

_BROKEN = {
    "PNG": "Out of bound read in decode_png. Probably, the input image is corrupted",
    "JPEG": "Image is incomplete or truncated",
}


def _open_image(content: bytes, kind: str) -> Any:
    """Open a file's content with Pillow; RuntimeError if it is broken or of another kind."""
    if _detect_format(content) != kind:
        first = f": starts with 0x{content[0]:02x} 0x{content[1:2].hex()}"
        raise RuntimeError(_WRONG[kind] + (first if kind == "JPEG" else ""))
    image_module = _import_pillow("Image")
    try:
        image = image_module.open(io.BytesIO(content), formats=(kind,))
        image.load()
    except (OSError, SyntaxError, ValueError, image_module.DecompressionBombError) as error:
        raise RuntimeError(_BROKEN.get(kind, f"decode_{kind.lower()}: {error}")) from error
    return image


def _detect_format(content: bytes) -> str | None:
    for signature, kind in _SIGNATURES.items():
        if content.startswith(signature) and (kind != "WEBP" or content[8:12] == b"WEBP"):
            return kind
    return None


def _convert_to_tensor(pixels: np.ndarray) -> Tensor:
    """Convert (height, width) or (height, width, channels) to (channels, height, width)."""
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return wrap(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def _rotate_by_exif(image: Any, is_enabled: bool) -> Any:
    """Rotate the image by its EXIF orientation, if wanted."""
    return _import_pillow("ImageOps").exif_transpose(image) if is_enabled else image


def decode_png(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """Decode a PNG file to uint8 or uint16 (channels, height, width).

    Mode unchanged gives the color indices of a palette image. NotImplementedError for color with 16
    bits per channel, which Pillow reduces to 8.
    """
    content = _read_bytes(data)
    image = _rotate_by_exif(_open_image(content, "PNG"), apply_exif_orientation)
    bits, colour = content[24], content[25]  # from the header, which comes first
    if bits == 16 and colour != 0:
        raise NotImplementedError("decode_png: 16 bits a channel in an image that is not gray")
    if mode not in (UNCHANGED, *_MODES):
        raise RuntimeError("The provided mode is not supported for PNG files")
    if image.mode == "1":
        image = image.convert("L")
    if mode == UNCHANGED:
        return _convert_to_tensor(_read_16_bit(image) if image.mode in _DEEP else np.asarray(image))
    return _convert_to_tensor(_convert_mode(image, mode, (1 << bits) - 1))


def _read_16_bit(image: Any) -> np.ndarray:
    return np.asarray(image).astype(np.uint16)


def _convert_mode(image: Any, mode: int, opaque: int) -> np.ndarray:
    """Convert a PNG image's pixels to a mode, like libpng; `opaque`: the alpha if it has none."""
    if image.mode == "P":
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    pixels = _read_16_bit(image) if image.mode in _DEEP else np.asarray(image)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    has_alpha = pixels.shape[2] in (2, 4)
    colours = pixels[:, :, :-1] if has_alpha else pixels
    if mode in (GRAY, GRAY_ALPHA) and colours.shape[2] == 3:
        red, green, blue = colours.astype(np.int64).transpose(2, 0, 1)
        gray = (9794 * red + 19234 * green + 3740 * blue) >> 15  # fixed-point luma
        colours = gray.astype(pixels.dtype)[:, :, None]
    if mode in (RGB, RGB_ALPHA) and colours.shape[2] == 1:
        colours = np.repeat(colours, 3, 2)
    if mode in (GRAY, RGB):
        return colours
    alpha = pixels[:, :, -1:] if has_alpha else np.full_like(pixels[:, :, :1], opaque)
    return np.concatenate([colours, alpha], 2)


def decode_jpeg(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """Decode a JPEG file to uint8 (channels, height, width): unchanged, gray or RGB."""
    image = _open_image(_read_bytes(data), "JPEG")
    if mode not in (UNCHANGED, GRAY, RGB):
        raise RuntimeError("The provided mode is not supported for JPEG files")
    image = _rotate_by_exif(image, apply_exif_orientation)
    if mode == UNCHANGED:
        pixels = np.asarray(image)
        return _convert_to_tensor(
            255 - pixels if image.mode == "CMYK" else pixels
        )  # as stored in the file
    return _convert_to_tensor(np.asarray(image.convert(_MODES[mode])))


def decode_webp(encoded_data: Tensor, mode: int) -> Tensor:
    """Decode a WEBP file to uint8 (channels, height, width): unchanged, RGB or RGBA."""
    image = _open_image(_read_bytes(encoded_data), "WEBP")
    if mode in (GRAY, GRAY_ALPHA):
        warn(
            "Webp does not support grayscale conversions. The returned tensor will be in the "
            "colorspace of the original image.",
        )
    return _convert_to_tensor(
        np.asarray(image.convert(_MODES[mode]) if mode in (RGB, RGB_ALPHA) else image)
    )


def decode_gif(data: Tensor) -> Tensor:
    """Decode a GIF file to uint8 (3, height, width), or (n, 3, height, width) if animated."""
    image, sequence = _open_image(_read_bytes(data), "GIF"), _import_pillow("ImageSequence")
    frames = [np.asarray(frame.convert("RGB")) for frame in sequence.Iterator(image)]
    pixels = np.stack(frames).transpose(0, 3, 1, 2)
    return wrap(np.ascontiguousarray(pixels[0] if len(frames) == 1 else pixels))


def decode_image(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """Decode a file whose format its first bytes determine; RuntimeError for an unknown format."""
    kind = _detect_format(_read_bytes(data))
    if kind == "GIF":
        return decode_gif(data)
    if kind == "WEBP":
        return decode_webp(data, mode)
    if kind is None:
        raise RuntimeError(
            "Unsupported image file. Only jpeg, png, webp and gif are currently supported. For "
            "avif and heic format, please rely on `decode_avif` and `decode_heic` directly."
        )
    decode = decode_png if kind == "PNG" else decode_jpeg
    return decode(data, mode, apply_exif_orientation)


def _encode(data: Tensor, kind: str, **options: Any) -> Tensor:
    if data._array.dtype != np.uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if data.dim() != 3:
        raise RuntimeError("Input data should be a 3-dimensional tensor")
    channels = data.shape[0]
    if channels not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {channels}")
    pixels = np.ascontiguousarray(data._array.transpose(1, 2, 0))
    image = _import_pillow("Image").fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return wrap(np.frombuffer(bytearray(file.getvalue()), np.uint8))


def encode_png(data: Tensor, compression_level: int) -> Tensor:
    """Encode a uint8 image (1 or 3, height, width) as PNG; compression levels 0 to 9."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError("Compression level should be between 0 and 9")
    return _encode(data, "PNG", compress_level=compression_level)


def encode_jpeg(data: Tensor, quality: int) -> Tensor:
    """Encode a uint8 image (1 or 3, height, width) as JPEG; quality 1 to 100."""
    if not 1 <= quality <= 100:
        raise RuntimeError("Image quality should be a positive number between 1 and 100")
    return _encode(data, "JPEG", quality=quality)


SCHEMAS = {
    "read_file(str _0) -> Tensor": read_file,
    "write_file(str _0, Tensor _1) -> ()": write_file,
    "decode_png(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor": decode_png,
    "decode_jpeg(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor": decode_jpeg,
    "decode_webp(Tensor encoded_data, int mode) -> Tensor": decode_webp,
    "decode_image(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor":
        decode_image,
    "decode_gif(Tensor _0) -> Tensor": decode_gif,
    "encode_png(Tensor _0, int _1) -> Tensor": encode_png,
    "encode_jpeg(Tensor _0, int _1) -> Tensor": encode_jpeg,
    "decode_jpegs_cuda(Tensor[] _0, int _1, Device _2) -> Tensor[]": None,
    "encode_jpegs_cuda(Tensor[] _0, int _1) -> Tensor[]": None,
    "_is_compiled_against_turbo() -> bool": lambda: True,
    "_jpeg_version() -> int": lambda: 62,
}
