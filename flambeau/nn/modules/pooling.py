"""Pooling: maximum, average, p-norm, adaptive, fractional, and the inverse of max pooling."""

from __future__ import annotations

from typing import Any

from ...native.foundation.shared_constructors import own_constructor
from ...tensor import Tensor
from .. import functional as F
from ..common_types import (
    _ratio_2_t,
    _ratio_3_t,
    _size_1_t,
    _size_2_t,
    _size_3_t,
    _size_any_opt_t,
    _size_any_t,
)
from ..module import Module
from .utils import _pair, format_settings, _single, _triple

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPoolNd(Module):
    def __init__(
        self,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        padding: _size_any_t = 0,
        dilation: _size_any_t = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return format_settings(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """Maximum of each window of (n, c, l), optionally with its index (`return_indices`).

    >>> nn.MaxPool1d(2, stride=1)(torch.tensor([[[1., 3., 2., 0.]]]))
    tensor([[[3., 3., 2.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool2d(_MaxPoolNd):
    """Maximum of each window of (n, c, h, w), optionally with its index (`return_indices`).

    >>> nn.MaxPool2d(2)(torch.arange(16.).reshape(1, 1, 4, 4))
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool3d(_MaxPoolNd):
    """Maximum of each window of (n, c, d, h, w), optionally with its index (`return_indices`).

    >>> nn.MaxPool3d(2)(torch.arange(8.).reshape(1, 1, 2, 2, 2))
    tensor([[[[[7.]]]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class _MaxUnpoolNd(Module):
    """The inverse of max pooling. Subclasses define `_flambeau_as_tuple`."""

    __init_subclass__ = own_constructor

    _flambeau_as_tuple: Any

    def __init__(
        self,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        padding: _size_any_t = 0,
    ) -> None:
        super().__init__()
        as_tuple = type(self)._flambeau_as_tuple
        self.kernel_size = as_tuple(kernel_size)
        self.stride = as_tuple(kernel_size if stride is None else stride)
        self.padding = as_tuple(padding)

    def extra_repr(self) -> str:
        return format_settings(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """Place each maximum at its MaxPool1d index, with zeros elsewhere.

    >>> y, indices = nn.MaxPool1d(2, return_indices=True)(torch.tensor([[[1., 3., 2., 0.]]]))
    >>> nn.MaxUnpool1d(2)(y, indices)
    tensor([[[0., 3., 2., 0.]]])
    """

    _flambeau_as_tuple = staticmethod(_single)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
    ) -> Tensor:
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpoolNd):
    """Place each maximum at its MaxPool2d index, with zeros elsewhere.

    >>> y, indices = nn.MaxPool2d(2, return_indices=True)(torch.arange(4.).reshape(1, 1, 2, 2))
    >>> nn.MaxUnpool2d(2)(y, indices)
    tensor([[[[0., 0.],
              [0., 3.]]]])
    """

    _flambeau_as_tuple = staticmethod(_pair)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
    ) -> Tensor:
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpoolNd):
    """Place each maximum at its MaxPool3d index, with zeros elsewhere.

    >>> y, indices = nn.MaxPool3d(2, return_indices=True)(torch.zeros(1, 3, 4, 4, 4))
    >>> y.shape, nn.MaxUnpool3d(2)(y, indices).shape
    (torch.Size([1, 3, 2, 2, 2]), torch.Size([1, 3, 4, 4, 4]))
    """

    _flambeau_as_tuple = staticmethod(_triple)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
    ) -> Tensor:
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _AvgPoolNd(Module):
    def extra_repr(self) -> str:
        return format_settings(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """Mean of each window of (n, c, l).

    >>> nn.AvgPool1d(2)(torch.tensor([[[0., 2., 4., 6.]]]))
    tensor([[[1., 5.]]])
    """

    def __init__(
        self,
        kernel_size: _size_1_t,
        stride: _size_1_t | None = None,
        padding: _size_1_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _DivisiblePool(_AvgPoolNd):
    """Average pooling in which `divisor_override` may replace the element count."""

    __init_subclass__ = own_constructor

    def __init__(
        self,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        padding: _size_any_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for name, usual in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, usual)  # old pickles lack them


class AvgPool2d(_DivisiblePool):
    """Mean of each window of (n, c, h, w), or its sum divided by `divisor_override`.

    >>> nn.AvgPool2d(2)(torch.arange(16.).reshape(1, 1, 4, 4))
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(_DivisiblePool):
    """Mean of each window of (n, c, d, h, w), or its sum divided by `divisor_override`.

    >>> nn.AvgPool3d(2)(torch.arange(8.).reshape(1, 1, 2, 2, 2))
    tensor([[[[[3.5000]]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class _FractionalMaxPool(Module):
    """Checks and state of fractional max pooling. Subclasses define `_flambeau_as_tuple`."""

    _flambeau_as_tuple: Any

    def __init__(
        self,
        kernel_size: _size_any_t,
        output_size: _size_any_t | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        as_tuple = type(self)._flambeau_as_tuple
        self.kernel_size = as_tuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else as_tuple(output_size)
        self.output_ratio = None if output_ratio is None else as_tuple(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, "
                "or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if not all(0 < ratio < 1 for ratio in self.output_ratio or ()):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max-pool (n, c, h, w) to a size or by a ratio, over randomly placed windows.

    Graham, Fractional Max-Pooling, 2014.

    >>> nn.FractionalMaxPool2d(2, output_size=5)(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 3, 5, 5])
    >>> nn.FractionalMaxPool2d(2, output_ratio=0.7)(torch.zeros(1, 3, 10, 10)).shape
    torch.Size([1, 3, 7, 7])
    """

    _flambeau_as_tuple = staticmethod(_pair)

    def __init__(
        self,
        kernel_size: _size_2_t,
        output_size: _size_2_t | None = None,
        output_ratio: _ratio_2_t | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool3d(_FractionalMaxPool):
    """FractionalMaxPool2d for (n, c, t, h, w).

    >>> nn.FractionalMaxPool3d(2, output_size=3)(torch.zeros(1, 3, 5, 6, 7)).shape
    torch.Size([1, 3, 3, 3, 3])
    """

    _flambeau_as_tuple = staticmethod(_triple)

    def __init__(
        self,
        kernel_size: _size_3_t,
        output_size: _size_3_t | None = None,
        output_ratio: _ratio_3_t | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        if any(k <= 0 for k in _triple(kernel_size)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class _LPPoolNd(Module):
    def __init__(
        self,
        norm_type: float,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return format_settings(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPoolNd):
    """p-norm of each window of (n, c, l), where p is `norm_type`.

    >>> nn.LPPool1d(2, 2)(torch.tensor([[[3., 4., 0., 5.]]]))
    tensor([[[5., 5.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(_LPPoolNd):
    """p-norm of each window of (n, c, h, w), where p is `norm_type`.

    >>> nn.LPPool2d(1, 2)(torch.arange(4.).reshape(1, 1, 2, 2))
    tensor([[[[6.]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool3d(_LPPoolNd):
    """p-norm of each window of (n, c, d, h, w), where p is `norm_type`.

    >>> nn.LPPool3d(2, 2)(torch.zeros(1, 3, 4, 6, 8)).shape
    torch.Size([1, 3, 2, 3, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _AdaptiveMaxPoolNd(Module):
    def __init__(self, output_size: _size_any_opt_t, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return format_settings(self, "output_size")


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max-pool (n, c, l) to `output_size`, choosing the windows to fit.

    >>> nn.AdaptiveMaxPool1d(2)(torch.tensor([[[0., 2., 4., 6.]]]))
    tensor([[[2., 6.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max-pool (n, c, h, w) to `output_size`; None keeps the size of a dimension.

    >>> nn.AdaptiveMaxPool2d((None, 1))(torch.arange(4.).reshape(1, 1, 2, 2))
    tensor([[[[1.],
              [3.]]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max-pool (n, c, d, h, w) to `output_size`; None keeps the size of a dimension.

    >>> nn.AdaptiveMaxPool3d(2)(torch.zeros(1, 3, 8, 5, 6)).shape
    torch.Size([1, 3, 2, 2, 2])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    def __init__(self, output_size: _size_any_opt_t) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return format_settings(self, "output_size")


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Average-pool (n, c, l) to `output_size`, choosing the windows to fit.

    >>> nn.AdaptiveAvgPool1d(2)(torch.tensor([[[0., 2., 4., 6.]]]))
    tensor([[[1., 5.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Average-pool (n, c, h, w) to `output_size`; None keeps the size of a dimension.

    >>> nn.AdaptiveAvgPool2d(1)(torch.arange(16.).reshape(1, 1, 4, 4))
    tensor([[[[7.5000]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Average-pool (n, c, d, h, w) to `output_size`; None keeps the size of a dimension.

    >>> nn.AdaptiveAvgPool3d((1, None, 2))(torch.zeros(1, 3, 8, 5, 6)).shape
    torch.Size([1, 3, 1, 5, 2])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)
