"""An image that is flipped while its mask is not."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_SAMPLES = 6
_MAX_MOVED = 64  # that are remembered


class MovedWithoutTarget(Rule):
    """Follows what a dataset flips, rotates or rolls into the batches of its loader."""

    id = "image-moved-without-its-target"
    level = Level.LIKELY
    needs = ("on_moved", "on_batch")
    title = "the input is flipped or rotated, but its target of the same size is not"
    why = (
        "A mask, a depth map or a clean image corresponds to its input pixel by pixel, so both "
        f"must be transformed alike. Reported when {_SAMPLES} samples of a data set are "
        "transformed and their targets of the same height and width are not. Not reported for "
        "labels, or if both are transformed together."
    )
    fix = "flip both together: image, mask = image.flip(-1), mask.flip(-1)"
    broken = """
class Shapes(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        image = x[i : i + 8, None]
        mask = (image > 0).float()
        if i % 2:
            image = image.flip(-1 if i % 4 else 0)  # <-
        return image, mask

for image, mask in DataLoader(Shapes(), batch_size=4):
    pass
"""
    fixed = edit(broken, {
        "image = image.flip(-1 if i % 4 else 0)  # <-": "image, mask = image.flip(0), mask.flip(0)",
    })
    healthy = ("""
# A label does not turn with its image.
class Labelled(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        image = x[i : i + 8]
        return image.flip(0) if i % 2 else image, y[i]

for image, label in DataLoader(Labelled(), batch_size=4):
    pass
""", """
# Both in one tensor.
class Shapes(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        both = torch.stack([x[i : i + 8], (x[i : i + 8] > 0).float()])
        both = both.flip(1) if i % 2 else both
        return both[0], both[1]

for image, mask in DataLoader(Shapes(), batch_size=4):
    pass
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.moved: list[tuple[np.ndarray, np.ndarray, Spot | None]] = []
        self.times: dict[Spot | None, int] = {}

    def on_moved(self, name: str, before: Any, after: Any, spot: Spot | None) -> None:
        if spot is not None and spot[0].co_name == "__getitem__" and len(self.moved) < _MAX_MOVED:
            self.moved.append((before._array, after._array, spot))

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        transforms, self.moved = self.moved, []
        if not transforms or not isinstance(batch, (tuple, list)) or len(batch) != 2:
            return
        image, target = (getattr(element, "_array", None) for element in batch)
        if image is None or target is None or min(image.ndim, target.ndim) < 3 \
                or image.shape[-2:] != target.shape[-2:] or len(image) != len(target):
            return
        for source, result, transform_spot in transforms:
            if np.array_equal(source, result):
                continue
            rows = [i for i, sample in enumerate(image) if np.array_equal(sample, result)]
            is_target_transformed = any(np.array_equal(target_result, target_sample) for i in rows
                                        for target_sample in target[i : i + 1]
                                        for _, target_result, _ in transforms)
            if rows and not is_target_transformed:
                self.times[transform_spot] = self.times.get(transform_spot, 0) + 1
                if self.times[transform_spot] >= _SAMPLES:
                    self.report("an input is transformed, but its target of the same size is "
                                "not", transform_spot,
                                spot, samples=self.times[transform_spot])
