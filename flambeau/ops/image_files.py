"""Images as files: PNG, JPEG, WEBP and GIF decoded and encoded by Pillow, where it is installed.

torchvision asks for them by the name of its compiled library; they become `torch.ops.image.*`. They
are no operators of the registry: they take bytes and paths, and nothing is differentiated.
"""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor, wrap

NAMESPACE = "image"
OPERATORS = ()

UNCHANGED, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA = range(5)
_MODES = {GRAY: "L", GRAY_ALPHA: "LA", RGB: "RGB", RGB_ALPHA: "RGBA"}
_SIGNATURES = {
    b"\xff\xd8\xff": "JPEG", b"\x89PNG\r\n\x1a\n": "PNG", b"GIF89a": "GIF", b"GIF87a": "GIF",
    b"RIFF": "WEBP",
}  # fmt: skip
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I")  # 16 bits a channel, as Pillow reads PNG files
_UPRIGHT = 0x0112  # the tag of EXIF that says how the camera was held


def _pillow(name: str) -> Any:
    """A module of Pillow; RuntimeError that says what is missing."""
    try:
        return importlib.import_module(f"PIL.{name}")
    except ImportError as error:
        raise RuntimeError(
            "torch.ops.image: images are read and written by Pillow, which is not installed"
        ) from error


def read_file(path: str) -> Tensor:
    """The bytes of a file, as a uint8 tensor; RuntimeError where there is none, or nothing in it."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise RuntimeError(f"[Errno {error.errno}] {error.strerror}: '{path}'") from error
    if not content:
        raise RuntimeError(f"Expected a non empty file: '{path}'")
    return wrap(np.frombuffer(bytearray(content), np.uint8))


def write_file(path: str, data: Tensor) -> None:
    """Writes the bytes in a uint8 tensor of one dimension to a file."""
    _check_bytes(data)
    Path(path).write_bytes(np.ascontiguousarray(data._array).tobytes())


def _check_bytes(data: Tensor) -> None:
    if data._array.dtype != np.uint8:
        raise RuntimeError("Input tensor data type should be uint8")
    if data.dim() != 1 or not data.numel():
        raise RuntimeError("Input tensor dimension should be one")


def _opened(data: Tensor, kind: str) -> Any:
    """A file's content as a Pillow image; RuntimeError for one of another kind or a broken one."""
    _check_bytes(data)
    content = np.ascontiguousarray(data._array).tobytes()
    if _kind(content) != kind:
        raise RuntimeError(f"decode_{kind.lower()}: the content is no {kind} file")
    image_module = _pillow("Image")
    try:
        image = image_module.open(io.BytesIO(content), formats=(kind,))
        image.load()
    except (OSError, SyntaxError, ValueError, image_module.DecompressionBombError) as error:
        raise RuntimeError(f"decode_{kind.lower()}: {error}") from error
    return image


def _kind(content: bytes) -> str | None:
    for signature, kind in _SIGNATURES.items():
        if content.startswith(signature) and (kind != "WEBP" or content[8:12] == b"WEBP"):
            return kind
    return None


def _tensor(image: Any, mode: int, upright: bool, allowed: tuple[int, ...]) -> Tensor:
    """The image in one of PyTorch's modes: (channels, height, width)."""
    if mode not in allowed:
        raise RuntimeError("The provided mode is not supported for this kind of file")
    if upright:
        image = _pillow("ImageOps").exif_transpose(image)
    pixels = _deep(image, mode) if image.mode in _DEEP else np.asarray(_converted(image, mode))
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return wrap(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def _converted(image: Any, mode: int) -> Any:
    """The image in the mode; unchanged, palettes become colours and bits become bytes."""
    if mode != UNCHANGED:
        return image if image.mode == _MODES[mode] else image.convert(_MODES[mode])
    if image.mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    return image.convert("L") if image.mode == "1" else image


def _deep(image: Any, mode: int) -> np.ndarray:
    """A gray image of 16 bits a channel, in the mode's channels."""
    gray = np.asarray(image).astype(np.uint16)[:, :, None]
    alpha = np.full_like(gray, np.iinfo(np.uint16).max)
    parts = {UNCHANGED: [gray], GRAY: [gray], GRAY_ALPHA: [gray, alpha], RGB: [gray] * 3,
             RGB_ALPHA: [gray] * 3 + [alpha]}[mode]  # fmt: skip
    return np.concatenate(parts, 2)


_ALL = (UNCHANGED, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA)


def decode_png(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """A PNG file's image, uint8 or uint16 (channels, height, width)."""
    return _tensor(_opened(data, "PNG"), mode, apply_exif_orientation, _ALL)


def decode_jpeg(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """A JPEG file's image, uint8 (channels, height, width): unchanged, gray or RGB."""
    image = _opened(data, "JPEG")
    if mode == GRAY and image.mode == "YCbCr":
        image.draft("L", None)
    return _tensor(image, mode, apply_exif_orientation, (UNCHANGED, GRAY, RGB))


def decode_webp(encoded_data: Tensor, mode: int) -> Tensor:
    """A WEBP file's image, uint8 (channels, height, width); unchanged with its transparency."""
    return _tensor(_opened(encoded_data, "WEBP"), mode, False, _ALL)


def decode_gif(data: Tensor) -> Tensor:
    """A GIF file's image, uint8 (3, height, width), or all of several (n, 3, height, width)."""
    image, sequence = _opened(data, "GIF"), _pillow("ImageSequence")
    frames = [np.asarray(frame.convert("RGB")) for frame in sequence.Iterator(image)]
    pixels = np.stack(frames).transpose(0, 3, 1, 2)
    return wrap(np.ascontiguousarray(pixels[0] if len(frames) == 1 else pixels))


def decode_image(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """The image of a file whose kind its first bytes say; RuntimeError for an unknown kind."""
    _check_bytes(data)
    kind = _kind(data._array[:12].tobytes())
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


def _encoded(data: Tensor, kind: str, **options: Any) -> Tensor:
    if data._array.dtype != np.uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if data.dim() != 3:
        raise RuntimeError("Input data should be a 3-dimensional tensor")
    channels = data.shape[0]
    if channels not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {channels}")
    pixels = np.ascontiguousarray(data._array.transpose(1, 2, 0))
    image = _pillow("Image").fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return wrap(np.frombuffer(bytearray(file.getvalue()), np.uint8))


def encode_png(data: Tensor, compression_level: int) -> Tensor:
    """The bytes of a PNG file of a uint8 image (1 or 3, height, width); levels 0 to 9."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError("Compression level should be between 0 and 9")
    return _encoded(data, "PNG", compress_level=compression_level)


def encode_jpeg(data: Tensor, quality: int) -> Tensor:
    """The bytes of a JPEG file of a uint8 image (1 or 3, height, width); quality 1 to 100."""
    if not 1 <= quality <= 100:
        raise RuntimeError("Image quality should be a positive number between 1 and 100")
    return _encoded(data, "JPEG", quality=quality)


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
}  # fmt: skip
