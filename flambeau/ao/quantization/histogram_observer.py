"""HistogramObserver: finds the range that loses least when values beyond it are cut off."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ...tensor.capture_marks import read_values
from ...tensor.dtypes import quint8
from ...tensor.quantizers import per_tensor_affine
from .observer import UniformQuantizationObserverBase

_STEP = 1e-5  # of the quantiles that the search tries
_FINER = 16  # bins of the old histogram for each, when it is brought to a wider range


class HistogramObserver(UniformQuantizationObserverBase):
    """A histogram of all values that went by.

    >>> observer = torch.ao.quantization.HistogramObserver()
    >>> _ = observer(torch.linspace(0, 2.55, 1000))
    >>> observer.calculate_qparams()[1]
    tensor([0], dtype=torch.int32)
    """

    histogram: Tensor

    def __init__(
        self, bins: int = 2048, dtype: Any = quint8, qscheme: Any = per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: Any = None, eps: float = 2**-23, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:
        if qscheme.name not in ("per_tensor_affine", "per_tensor_symmetric"):
            raise NotImplementedError("HistogramObserver's qscheme only support "
                                      "torch.per_tensor_symmetric and torch.per_tensor_affine.")
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps,
                         is_dynamic, **kwargs)
        self.bins = bins
        self.register_buffer("histogram", ops.zeros(bins))
        self.register_buffer("min_val", ops.tensor(float("inf")))
        self.register_buffer("max_val", ops.tensor(float("-inf")))
        lowest, highest = dtype.limits
        self.dst_nbins, self.upsample_rate = highest - lowest + 1, _FINER

    def forward(self, x_orig: Tensor) -> Tensor:
        """Add a tensor to the histogram and return the tensor."""
        x = x_orig.detach().float()
        if x.isinf().any():
            warn("torch.inf detected in input tensor, ignoring input", UserWarning)
            x = x[~x.isinf()]
        if not x.numel():
            return x_orig
        lower, upper = ops.aminmax(x)
        if self.min_val.item() == float("inf") or self.max_val.item() == float("-inf"):
            self._take(ops.histc(x, self.bins, float(lower), float(upper)), lower, upper)
            return x_orig
        new_low, new_high = ops.minimum(self.min_val, lower), ops.maximum(self.max_val, upper)
        update = ops.histc(x, self.bins, float(new_low), float(new_high))
        self._take(update + self._widen_to(new_low, new_high), new_low, new_high)
        return x_orig

    def _take(self, histogram: Tensor, lower: Tensor, upper: Tensor) -> None:
        self.histogram.copy_(histogram)
        self.min_val.copy_(lower)
        self.max_val.copy_(upper)

    def _widen_to(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Resample the histogram to a wider range."""
        old_low, old_high = self.min_val, self.max_val
        if old_low == lower and old_high == upper:
            return self.histogram
        if old_low == old_high:
            single = ops.histc(old_low.reshape(1), self.bins, float(lower), float(upper))
            return single * self.histogram.sum()
        fine = self.histogram.repeat_interleave(_FINER) / _FINER
        width = (old_high - old_low) / (self.bins * _FINER)
        middles = ops.linspace(float(old_low), float(old_high), self.bins * _FINER + 1)[:-1] \
            + 0.5 * width
        bounds = ops.linspace(float(lower), float(upper), self.bins + 1)
        bins = (ops.bucketize(middles, bounds, right=True) - 1).clamp(0, self.bins - 1)
        result: Tensor = ops.bincount(bins, weights=fine, minlength=self.bins)
        return result

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale and zero point of the range with the least quantization error."""
        if not self._has_range():
            return ops.tensor([1.0]), ops.tensor([0])
        full_range = self.min_val, self.max_val
        try:
            self.min_val, self.max_val = self._search()
            return super().calculate_qparams()
        finally:
            self.min_val, self.max_val = full_range

    def _search(self) -> tuple[Tensor, Tensor]:
        """Move the end with fewer values inwards as long as the error falls."""
        width = (self.max_val - self.min_val) / self.bins
        total = float(self.histogram.sum())
        running = read_values(self.histogram.cumsum(0))
        alpha, beta, first, last, least_error = 0.0, 1.0, 0, self.bins - 1, float("inf")
        while alpha < beta:
            next_alpha, next_beta = alpha + _STEP, beta - _STEP
            next_first, next_last = first, last
            while next_first < last and running[next_first] < next_alpha * total:
                next_first += 1
            while next_last > first and running[next_last] > next_beta * total:
                next_last -= 1
            new_first, new_last = first, last
            if next_first - first > last - next_last:
                new_first, alpha = next_first, next_alpha
            else:
                new_last, beta = next_last, next_beta
            if (new_first, new_last) == (first, last):
                continue
            error = self._compute_quantization_error(new_first, new_last)
            if error > least_error:
                break
            least_error, first, last = error, new_first, new_last
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def _compute_quantization_error(self, first: int, last: int) -> float:
        """The squared error of quantizing with bins from `first` to `last`, values being spread
        evenly within each."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (ops.arange(self.bins) - first) * width
        end = begin + width
        last_bin = self.dst_nbins - 1
        of_begin = ops.div(begin, step, rounding_mode="floor").clamp(0, last_bin)
        of_end = ops.div(end, step, rounding_mode="floor").clamp(0, last_bin)
        density = self.histogram / width
        half = ops.tensor(step / 2)
        error = _norm(begin - (of_begin + 0.5) * step, half, density)
        error = error + (of_end - of_begin - 1) * _norm(-half, half, density)
        error = error + _norm(-half, end - (of_end * step + step / 2), density)
        return float(error.sum())


def _norm(begin: Any, end: Any, density: Tensor) -> Tensor:
    """The integral of the square between two distances, times the density."""
    return density * ((end * end * end - begin * begin * begin) / 3)


default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
