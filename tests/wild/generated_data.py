"""Data for pytorch/examples, small and generated, in the files that the examples would download."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path


def prepare(examples: Path, name: str, work: Path) -> Path:
    """A copy of an example below `work`, with its data; the folder to run it in."""
    place = work / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(examples / name, place)
    for data in (place / "data", work / "data"):
        write_mnist(data / "MNIST" / "raw")
    if name == "word_language_model":
        write_text(place / "data" / "wikitext-2")
    return place


def write_mnist(folder: Path, images: int = 256) -> None:
    """Digits-like noise in the files of MNIST: pixels brighter by class, so that it is learnt."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)
    for part, count in (("train", images), ("t10k", images // 2)):
        labels = [generator.randrange(10) for _ in range(count)]
        pixels = bytearray()
        for label in labels:
            rows = [generator.randrange(64) + (160 if row // 2 == label else 0)
                    for row in range(28) for _ in range(28)]
            pixels += bytes(rows)
        for kind, header, body in (
            ("images-idx3", struct.pack(">IIII", 2051, count, 28, 28), bytes(pixels)),
            ("labels-idx1", struct.pack(">II", 2049, count), bytes(labels)),
        ):
            # torchvision asks only whether the archive is there once the file is.
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + body)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(b"")


def write_text(folder: Path) -> None:
    """A few thousand words of forty kinds, in three files."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)
    words = [f"w{i}" for i in range(40)]
    for part, lines in (("train", 120), ("valid", 30), ("test", 30)):
        text = "\n".join(" ".join(generator.choices(words, k=12)) for _ in range(lines))
        (folder / f"{part}.txt").write_text(text + "\n")
