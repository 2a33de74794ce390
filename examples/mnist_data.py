"""The digits that come with the examples: the first 10,000 training images of MNIST and the first
2,000 of its test images, in MNIST's own order. Uses NumPy only."""

from __future__ import annotations

from pathlib import Path

import numpy as np

MEAN, DEVIATION = 0.1307, 0.3081  # of all training pixels, after division by 255


def load(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 1, 28, 28) as normalised float32 and labels (count,) as int64.

    `split` is "train" or "test".
    """
    with np.load(Path(__file__).parent / "data" / "mnist.npz") as archive:
        pixels, labels = archive[f"{split}_images"], archive[f"{split}_labels"]
    images = (pixels.astype(np.float32) / 255 - MEAN) / DEVIATION
    return np.ascontiguousarray(images[:, None], dtype=np.float32), labels.astype(np.int64)
