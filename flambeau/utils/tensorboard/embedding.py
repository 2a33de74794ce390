"""Points for TensorBoard's projector: TSV files, a sheet of thumbnails, and the list of them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .picture import as_bytes, grid, png


def write(
    log_dir: str,
    points: np.ndarray,
    metadata: Sequence | None,
    pictures: np.ndarray | None,
    step: int,
    tag: str,
    header: Sequence[str] | None,
) -> None:
    """Writes points (n, dimensions) into a directory, and adds them to projector_config.pbtxt.

    `pictures` are (n, c, h, w). Raises ValueError where lengths do not fit.
    """
    if points.ndim != 2:
        raise ValueError(f"mat should be 2D, where mat.size(0) is the number of data points, "
                         f"but has shape {points.shape}")  # fmt: skip
    for name, values in (("metadata", metadata), ("label_img", pictures)):
        if values is not None and len(values) != len(points):
            raise ValueError(f"#{name} should equal with #data points: {len(values)} and "
                             f"{len(points)}")  # fmt: skip
    folder = f"{step:05d}/{tag.replace('%', '%25').replace('/', '%2f')}"
    directory = os.path.join(log_dir, *folder.split("/"))
    os.makedirs(directory, exist_ok=True)
    _write_rows(os.path.join(directory, "tensors.tsv"), points.tolist())
    lines = [f'tensor_name: "{tag}:{step:05d}"', f'tensor_path: "{folder}/tensors.tsv"']
    if metadata is not None:
        rows = [row if isinstance(row, (list, tuple)) else [row] for row in metadata]
        if header:
            rows.insert(0, list(header))
        _write_rows(os.path.join(directory, "metadata.tsv"), rows)
        lines.append(f'metadata_path: "{folder}/metadata.tsv"')
    if pictures is not None:
        n, _, h, w = pictures.shape
        side = math.ceil(math.sqrt(n))
        sheet = np.zeros((side * side, *pictures.shape[1:]), pictures.dtype)
        sheet[:n] = pictures
        with open(os.path.join(directory, "sprite.png"), "wb") as file:
            file.write(png(as_bytes(grid(sheet.transpose(0, 2, 3, 1), side))))
        sprite = f'image_path: "{folder}/sprite.png" single_image_dim: {w} single_image_dim: {h}'
        lines.append(f"sprite {{ {sprite} }}")
    with open(os.path.join(log_dir, "projector_config.pbtxt"), "a") as file:
        file.write("embeddings {\n" + "\n".join(lines) + "\n}\n")


def _write_rows(path: str, rows: Sequence[Sequence[Any]]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            # A tab or a line break within a label would start another column or row.
            cells = (" ".join(str(cell).split()) for cell in row)
            file.write("\t".join(cells) + "\n")
