"""Metrics of image similarity: peak signal-to-noise ratio and structural similarity."""

from __future__ import annotations

from typing import Any

import numpy as np

from .metric import Metric, Value, as_array, widen


class _ImageMetric(Metric):
    """Mean of a measure over images. Batches are (n, channels, height, width)."""

    states = ("total", "count")
    higher_is_better = True

    def __init__(self, data_range: float, name: str) -> None:
        if not data_range > 0:
            raise ValueError(f"{type(self).__name__}: data_range must be positive, not "
                             f"{data_range}")
        self.data_range, self.name = data_range, name
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.total, self.count = 0.0, 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of images."""
        a, b = widen(as_array(output)), widen(as_array(target))
        if a.shape != b.shape or a.ndim != 4:
            raise ValueError(
                f"{type(self).__name__}: outputs of shape {a.shape} and targets of shape "
                f"{b.shape}; both are (n, channels, height, width)"
            )
        self.total += float(self._measure(a, b).sum())
        self.count += len(a)

    def compute(self) -> Value:
        """Return the mean over images; NaN before the first batch."""
        return self.total / self.count if self.count else self._get_undefined()

    def _measure(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class PSNR(_ImageMetric):
    """Peak signal-to-noise ratio in decibels: 10 log10(range^2 / mean squared error).

    >>> psnr = PSNR(data_range=1.0)
    >>> psnr.update(torch.zeros(1, 3, 8, 8), torch.full((1, 3, 8, 8), 0.1))
    >>> round(psnr.compute(), 2)
    20.0
    """

    def __init__(self, data_range: float = 1.0, *, name: str = "psnr") -> None:
        super().__init__(data_range, name)

    def _measure(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        error = ((a - b) ** 2).mean((1, 2, 3))
        with np.errstate(divide="ignore"):
            return 10 * np.log10(self.data_range**2 / error)


class SSIM(_ImageMetric):
    """Structural similarity over uniform 7 x 7 windows (Wang et al. 2004), like scikit-image's.

    >>> ssim = SSIM(data_range=1.0)
    >>> x = torch.rand(1, 1, 16, 16)
    >>> ssim.update(x, x)
    >>> ssim.compute()
    1.0
    """

    window = 7

    def __init__(self, data_range: float = 1.0, *, name: str = "ssim") -> None:
        super().__init__(data_range, name)

    def _measure(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if min(a.shape[2:]) < self.window:
            raise ValueError(f"SSIM: images must be at least {self.window} wide and high")
        pixels = self.window**2
        unbiased = pixels / (pixels - 1)
        mean_a, mean_b = self._average_windows(a), self._average_windows(b)
        variance_a = unbiased * (self._average_windows(a * a) - mean_a**2)
        variance_b = unbiased * (self._average_windows(b * b) - mean_b**2)
        covariance = unbiased * (self._average_windows(a * b) - mean_a * mean_b)
        c1, c2 = (0.01 * self.data_range) ** 2, (0.03 * self.data_range) ** 2
        numerator = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
        denominator = (mean_a**2 + mean_b**2 + c1) * (variance_a + variance_b + c2)
        return (numerator / denominator).mean((1, 2, 3))

    def _average_windows(self, images: np.ndarray) -> np.ndarray:
        """Return the mean of each window inside the image: first along columns, then along rows."""
        for axis in (2, 3):
            windows = np.lib.stride_tricks.sliding_window_view(images, self.window, axis=axis)
            images = windows.mean(-1)
        return images
