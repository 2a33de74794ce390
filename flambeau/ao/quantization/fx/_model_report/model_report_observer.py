"""ModelReportObserver: ranges and percentiles of a value, by batch and by channel."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....tensor import Tensor
from .....tensor.dtypes import qint8
from ...observer import ObserverBase

__all__ = ["ModelReportObserver"]


class ModelReportObserver(ObserverBase):
    """Records how a value's range varies from batch to batch, and how far its outliers lie out.

    Args:
        ch_axis: The axis of channels.
        comp_percentile: The quantile, between 0 and 1, that the maximum is compared with.
    """

    num_batches_tracked: int
    average_batch_activation_range: Tensor
    epoch_activation_min: Tensor
    epoch_activation_max: Tensor
    min_val: Tensor
    max_val: Tensor
    comp_percentile: Tensor
    average_percentile_ratio: Tensor
    percentile_batches_tracked: Tensor
    constant_channels: Tensor

    def __init__(self, ch_axis: int = 1, comp_percentile: float = 0.9) -> None:
        super().__init__(qint8)
        self.ch_axis = ch_axis
        self.register_buffer("comp_percentile", ops.tensor([comp_percentile]))
        for name in ("epoch_activation_min", "epoch_activation_max", "min_val", "max_val",
                     "average_percentile_ratio", "percentile_batches_tracked",
                     "constant_channels"):
            self.register_buffer(name, None)
        self.reset_batch_and_epoch_values()

    def reset_batch_and_epoch_values(self) -> None:
        """Forget all batches."""
        self.num_batches_tracked = 0
        self.average_batch_activation_range = ops.tensor(0.0)
        self.epoch_activation_min = ops.tensor(float("inf"))
        self.epoch_activation_max = ops.tensor(float("-inf"))
        for name in ("min_val", "max_val", "average_percentile_ratio",
                     "percentile_batches_tracked", "constant_channels"):
            setattr(self, name, ops.tensor([]))

    def forward(self, x: Tensor) -> Tensor:
        """Record a batch and return it."""
        batch = x.detach().float()
        self._record_range(batch)
        channels = batch.transpose(0, self.ch_axis).flatten(1)  # (channels, values)
        low, high = ops.aminmax(channels, dim=1)
        is_first = self.min_val.numel() == 0
        self.min_val = low if is_first else ops.minimum(low, self.min_val)
        self.max_val = high if is_first else ops.maximum(high, self.max_val)
        self._record_percentiles(channels)
        return x

    def _record_range(self, batch: Tensor) -> None:
        low, high = ops.aminmax(batch)
        self.epoch_activation_min = ops.minimum(self.epoch_activation_min, low)
        self.epoch_activation_max = ops.maximum(self.epoch_activation_max, high)
        count = self.num_batches_tracked
        self.average_batch_activation_range = (
            self.average_batch_activation_range * count + (high - low)) / (count + 1)
        self.num_batches_tracked += 1

    def _record_percentiles(self, channels: Tensor) -> None:
        """Average the ratios of the maxima to a quantile, over batches in which one is not 0."""
        points = ops.tensor([0.0, float(self.comp_percentile), 1.0])
        low, middle, high = ops.quantile(channels, points, dim=1, interpolation="lower")
        counts = ((middle != 0) | (high != 0)).int()
        ratios = counts * ops.nan_to_num(high / middle)
        constant = (high - low == 0).int()
        if self.percentile_batches_tracked.numel() == 0:
            self.percentile_batches_tracked = ops.zeros_like(counts)
            self.average_percentile_ratio = ops.zeros_like(ratios)
            self.constant_channels = ops.zeros_like(constant)
        before = self.average_percentile_ratio * self.percentile_batches_tracked
        self.percentile_batches_tracked = self.percentile_batches_tracked + counts
        self.average_percentile_ratio = ops.nan_to_num(
            (before + ratios) / self.percentile_batches_tracked)
        self.constant_channels = self.constant_channels + constant

    def get_batch_to_epoch_ratio(self) -> Tensor:
        """Return the mean range of a batch over the range of all; near 1 for stationary values.

        ValueError if all values are equal, or one is infinite.
        """
        epoch = self.epoch_activation_max - self.epoch_activation_min
        if epoch == 0:
            raise ValueError("Range for Epoch is 0")
        if epoch == float("inf"):
            raise ValueError("No data has been run through observer or infinity value present")
        return self.average_batch_activation_range / epoch

    def calculate_qparams(self) -> Any:
        """Raise Exception: this observer quantizes nothing."""
        raise Exception("calculate_qparams should not be called for ModelReportObserver")
