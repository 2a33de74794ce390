"""Points for TensorBoard's projector: TSV files, a sprite image, and the projector config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorboardX.embedding import append_pbtxt, make_mat, make_sprite, make_tsv


def write(
    log_dir: str,
    points: np.ndarray,
    metadata: Sequence | None,
    pictures: np.ndarray | None,
    step: int,
    tag: str,
    header: Sequence[str] | None,
) -> None:
    """Write points (n, dimensions) to a directory and add them to projector_config.pbtxt.

    `pictures` are (n, c, h, w). Raises ValueError if lengths do not match.
    """
    if points.ndim != 2:
        raise ValueError(f"mat should be 2D, where mat.size(0) is the number of data points, "
                         f"but has shape {points.shape}")
    for name, values in (("metadata", metadata), ("label_img", pictures)):
        if values is not None and len(values) != len(points):
            raise ValueError(f"#{name} should equal with #data points: {len(values)} and "
                             f"{len(points)}")
    folder = f"{step:05d}/{tag.replace('%', '%25').replace('/', '%2f')}"
    directory = os.path.join(log_dir, *folder.split("/"))
    os.makedirs(directory, exist_ok=True)
    make_mat(points, directory)
    if metadata is not None:
        make_tsv([_join_lines(row) for row in metadata], directory, metadata_header=header)
    if pictures is not None:
        make_sprite(pictures, directory)
    append_pbtxt(metadata, pictures, log_dir, folder, step, tag)


def _join_lines(row: Any) -> Any:
    """Return a label without tabs and line breaks, which would start another column or row."""
    if isinstance(row, (list, tuple)):
        return [_join_lines(cell) for cell in row]
    return " ".join(str(row).split())
