"""Overlap of predicted and wanted regions: the mean intersection over union."""

from __future__ import annotations

import numpy as np

from .agreement import OfConfusion
from .metric import Value


class MeanIoU(OfConfusion):
    """The mean over classes of intersection over union of pixels (Jaccard index).

    Takes scores (n, classes, height, width) with labels (n, height, width), or labels twice.
    Classes that occur in neither are left out.

    >>> iou = MeanIoU()
    >>> iou.update(torch.tensor([[0, 1], [1, 1]]), torch.tensor([[0, 1], [0, 1]]))
    >>> round(iou.compute(), 4)
    0.5833
    """

    def __init__(
        self, *, task: str | None = None, threshold: float = 0.0, ignore_index: int | None = None,
        name: str = "mean_iou",
    ) -> None:
        super().__init__(task=task, threshold=threshold, ignore_index=ignore_index, name=name)

    def compute(self) -> Value:
        """From 0 to 1; NaN before the first batch."""
        both = np.diag(self.counts).astype(float)
        either = self.counts.sum(0) + self.counts.sum(1) - both
        is_present = either > 0
        if not is_present.any():
            return self._get_undefined()
        return float((both[is_present] / either[is_present]).mean())

