"""Decoders: convert a file's bytes to numbers, text, images or tensors, by its extension."""

from __future__ import annotations

import importlib
import io
import json
import os.path
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from ..... import ops, serialization
from .common import StreamWrapper

__all__ = [
    "Decoder", "ImageHandler", "MatHandler", "audiohandler", "basichandlers",
    "extension_extract_fn", "handle_extension", "imagehandler", "mathandler", "videohandler",
]

_INTEGERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_VIDEOS = ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv")
_SOUNDS = ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma")
_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")


def basichandlers(extension: str, data: Any) -> Any:
    """Decode text, integers, JSON, pickle and `torch.save` files; return None for others.

    >>> torch.utils.data.datapipes.utils.decoder.basichandlers("json", b"[1, 2]")
    [1, 2]
    """
    if extension in "txt text transcript":
        return data.decode("utf-8")
    if extension in _INTEGERS:
        try:
            return int(data)
        except ValueError:
            return None
    if extension in "json jsn":
        return json.loads(data)
    if extension in ("pyd", "pickle"):
        return pickle.loads(data)
    if extension == "pt":
        return serialization.load(io.BytesIO(data))
    return None


# By name: the image's result type, the type of its numbers, the color mode.
imagespecs: dict[str, tuple[str, str | None, str]] = {
    f"{prefix}{mode}{suffix}": (kind, numbers, mode)
    for prefix, kind in (("", "numpy"), ("torch", "torch"))
    for suffix, numbers in (("8", "uint8"), ("", "float"))
    for mode in ("l", "rgb", "rgba")
} | {
    "torch": ("torch", "float", "rgb"), "pill": ("pil", None, "l"), "pil": ("pil", None, "rgb"),
    "pilrgb": ("pil", None, "rgb"), "pilrgba": ("pil", None, "rgba"),
}


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """Return a handler that calls `f` with the data of keys that end with an extension."""
    targets = [target.split(".") for target in extensions.lower().split()]

    def handle(key: str, data: Any) -> Any:
        suffixes = key.lower().split(".")
        for target in targets:
            if len(target) <= len(suffixes):
                return f(data) if suffixes[-len(target):] == target else None
        return None

    return handle


def _import(module: str, package: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Package `{package.lower()}` is required to be installed for {purpose}. "
            f"Please use `pip install {package}` to install the package"
        ) from error


class ImageHandler:
    """Decodes images to the named kind: "pilrgb", "rgb8" (NumPy), "torchl" and so on."""

    def __init__(self, imagespec: str) -> None:
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension.lower() not in _IMAGES:
            return None
        images = _import("PIL.Image", "Pillow", "default image decoder")
        container, dtype, mode = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            image = images.open(stream)
            image.load()
        image = image.convert(mode.upper())
        if container == "pil":
            return image
        pixels = np.asarray(image)
        if container == "torch":
            tensor = ops.tensor(pixels.transpose(2, 0, 1).copy())  # (channels, height, width)
            return tensor if dtype == "uint8" else tensor / 255.0
        return pixels if dtype == "uint8" else pixels.astype("f") / 255.0


def imagehandler(imagespec: str) -> ImageHandler:
    """Return a handler of images."""
    return ImageHandler(imagespec)


def _read_through_file(extension: str, data: bytes, read: Callable[[str], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as stream:
            stream.write(data)
        return read(path)


def videohandler(extension: str, data: bytes) -> Any:
    """Decode a video with torchvision; None for other extensions."""
    if extension not in _VIDEOS:
        return None
    videos = _import("torchvision.io", "torchvision", "default video file loader")
    return _read_through_file(extension, data, videos.read_video)


def audiohandler(extension: str, data: bytes) -> Any:
    """Decode sound with torchaudio; None for other extensions."""
    if extension not in _SOUNDS:
        return None
    sounds = _import("torchaudio", "torchaudio", "default audio file loader")
    return _read_through_file(extension, data, sounds.load)


class MatHandler:
    """Decodes MATLAB's files with SciPy."""

    def __init__(self, **loadmat_kwargs: Any) -> None:
        self.sio = _import("scipy.io", "scipy", "mat file")
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension != "mat":
            return None
        return self.sio.loadmat(io.BytesIO(data), **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs: Any) -> MatHandler:
    """Return a handler of MATLAB's files; the keywords are those of `scipy.io.loadmat`."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname: str) -> str:
    """Return a path's extension without its dot."""
    return os.path.splitext(pathname)[1].removeprefix(".")


class Decoder:
    """Decodes pairs of path and data by the first handler that returns something."""

    def __init__(
        self, *handler: Callable[..., Any], key_fn: Callable[[str], str] = extension_extract_fn
    ) -> None:
        self.handlers = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler: Callable[..., Any]) -> None:
        """Add handlers before the existing ones."""
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data: Any) -> bool:
        stream = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(stream, (io.BufferedIOBase, io.RawIOBase))

    def decode1(self, key: str, data: Any) -> Any:
        """Return the decoded data of a key; a stream is read to its end first."""
        if not data:
            return data
        if Decoder._is_stream_handle(data):
            stream, data = data, b"".join(data)
            stream.close()
        for handler in self.handlers:
            decoded = handler(key, data)
            if decoded is not None:
                return decoded
        return data

    def decode(self, data: Any) -> dict[str, Any]:
        """Return decoded data by path; `data` is a pair, or an iterable of pairs."""
        pairs = [data] if isinstance(data, tuple) else data or ()
        return {
            path: value.decode("utf-8") if path[0] == "_" and isinstance(value, bytes)
            else self.decode1(self.key_fn(path), value)
            for path, value in pairs
        }

    def __call__(self, data: Any) -> dict[str, Any]:
        return self.decode(data)
