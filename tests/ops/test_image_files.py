"""Images as files: what torchvision's compiled library gives for them."""

from __future__ import annotations

import io
import zlib

import numpy as np
import pytest

import flambeau as torch
import flambeau.ops.image_files as files

image_module = pytest.importorskip("PIL.Image")


def encoded(pixels: np.ndarray, kind: str, mode: str | None = None, **options) -> torch.Tensor:
    image = image_module.fromarray(pixels)
    image = image if mode is None else image.convert(mode)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


COLOURS = np.array([[[10, 200, 30], [255, 0, 7]]], np.uint8)  # (1, 2, 3)


def test_png_in_all_modes() -> None:
    data = encoded(COLOURS, "PNG")
    assert files.decode_png(data, files.UNCHANGED).tolist() == [[[10, 255]], [[200, 0]], [[30, 7]]]
    assert files.decode_image(data, files.GRAY).tolist() == [[[123, 77]]]  # rounded down
    assert files.decode_png(data, files.GRAY_ALPHA).tolist() == [[[123, 77]], [[255, 255]]]
    assert files.decode_png(data, files.RGB_ALPHA)[3].tolist() == [[255, 255]]


def test_png_of_bits_and_of_sixteen_bits() -> None:
    bits = encoded(np.array([[True, False]]), "PNG")
    assert files.decode_png(bits, files.UNCHANGED).tolist() == [[[255, 0]]]
    assert files.decode_png(bits, files.GRAY_ALPHA).tolist() == [[[255, 0]], [[1, 1]]]
    deep = files.decode_png(encoded(np.array([[513, 65535]], np.uint16), "PNG"), files.RGB)
    assert (deep.dtype, deep.tolist()) == (torch.uint16, [[[513, 65535]]] * 3)


def test_jpeg_turned_upright_and_inks() -> None:
    exif = image_module.Exif()
    exif[0x112] = 6  # the camera was held a quarter turn to the right
    tall = encoded(np.zeros((8, 16, 3), np.uint8), "JPEG", exif=exif)
    assert files.decode_jpeg(tall, files.RGB, True).shape == (3, 16, 8)
    assert files.decode_jpeg(tall, files.RGB).shape == (3, 8, 16)
    inks = encoded(np.full((8, 8, 3), 255, np.uint8), "JPEG", "CMYK")
    assert files.decode_jpeg(inks, files.UNCHANGED).unique().tolist() == [255]
    with pytest.raises(RuntimeError, match="mode is not supported for JPEG"):
        files.decode_jpeg(tall, files.RGB_ALPHA)


def test_gif_of_one_image_and_of_two() -> None:
    image = image_module.fromarray(COLOURS)
    assert files.decode_gif(encoded(COLOURS, "GIF")).shape == (3, 1, 2)
    two = encoded(COLOURS, "GIF", save_all=True, append_images=[image.rotate(180)])
    assert files.decode_image(two, files.RGB).shape == (2, 3, 1, 2)


def test_written_images_can_be_read(tmp_path) -> None:
    pixels = torch.arange(3 * 4 * 5, dtype=torch.uint8).reshape(3, 4, 5)
    path = str(tmp_path / "image.png")
    files.write_file(path, files.encode_png(pixels, 6))
    assert torch.equal(files.decode_image(files.read_file(path), files.UNCHANGED), pixels)
    lossy = files.decode_jpeg(files.encode_jpeg(pixels, 100), files.UNCHANGED)
    assert (lossy.int() - pixels.int()).abs().max() < 40


@pytest.mark.parametrize("call, text", [
    (lambda: files.decode_image(torch.arange(20, dtype=torch.uint8), 0), "Unsupported image file"),
    (lambda: files.decode_png(encoded(COLOURS, "JPEG"), 0), "Content is not png!"),
    (lambda: files.decode_jpeg(encoded(COLOURS, "PNG"), 0), "starts with 0x89 0x50"),
    (lambda: files.decode_jpeg(encoded(COLOURS, "JPEG")[:300], 0), "incomplete or truncated"),
    (lambda: files.decode_png(torch.ones(3), 0), "must have uint8 data type"),
    (lambda: files.decode_png(torch.ones(3, 3, dtype=torch.uint8), 0), "must be 1-dimensional"),
    (lambda: files.encode_png(torch.ones(2, 3, 3, dtype=torch.uint8), 6), "1 or 3, got: 2"),
    (lambda: files.encode_png(torch.ones(1, 3, 3), 6), "dtype should be uint8"),
    (lambda: files.encode_jpeg(torch.ones(3, 3, dtype=torch.uint8), 6), "3-dimensional"),
    (lambda: files.read_file("no such file"), r"\[Errno 2\] No such file or directory"),
])
def test_refusals(call, text) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_colours_of_sixteen_bits_are_refused() -> None:
    header = b"IHDR" + bytes([0, 0, 0, 1, 0, 0, 0, 1, 16, 2, 0, 0, 0])  # 1 x 1, 16 bits, colour
    rows = b"IDAT" + zlib.compress(bytes([0, 1, 2, 3, 4, 5, 6]))
    chunks = [len(c[4:]).to_bytes(4, "big") + c + zlib.crc32(c).to_bytes(4, "big")
              for c in (header, rows, b"IEND")]
    data = torch.frombuffer(bytearray(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)), dtype=torch.uint8)
    with pytest.raises(NotImplementedError, match="16 bits a channel"):
        files.decode_png(data, files.UNCHANGED)
