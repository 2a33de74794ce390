"""Convolutions and transposed convolutions in one, two and three dimensions, and their lazy forms,
which infer in_channels from their first input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...native.foundation.shared_constructors import own_constructor
from ...tensor import Tensor
from .. import functional as F
from ..parameter import UninitializedParameter
from .convnd import _ConvNd as _ConvNd
from .convnd import _Convolution, _Transposed
from .convnd import _ConvTransposeMixin as _ConvTransposeMixin
from .convnd import _ConvTransposeNd as _ConvTransposeNd
from .lazy import LazyModuleMixin
from .utils import _pair, _single, _triple

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


class Conv1d(_Convolution):
    """Convolve an input (n, c, l) or (c, l) over one dimension.

    `padding` may be "same" or "valid"; `padding_mode` is zeros, reflect, replicate or circular.
    Raises ValueError if the channels are not divisible by `groups`.

    >>> nn.Conv1d(4, 8, 3, padding=1)(torch.zeros(2, 4, 10)).shape
    torch.Size([2, 8, 10])
    """

    _flambeau_as_tuple = staticmethod(_single)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = self._flambeau_pad(input)
            return F.conv1d(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        return F.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Convolution):
    """Convolve an input (n, c, h, w) or (c, h, w) over two dimensions.

    `padding` may be "same" or "valid"; `padding_mode` is zeros, reflect, replicate or circular.
    Raises ValueError if the channels are not divisible by `groups`.

    >>> nn.Conv2d(16, 33, (3, 5), stride=(2, 1), padding=(4, 2))
    Conv2d(16, 33, kernel_size=(3, 5), stride=(2, 1), padding=(4, 2))
    """

    _flambeau_as_tuple = staticmethod(_pair)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = self._flambeau_pad(input)
            return F.conv2d(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        return F.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv3d(_Convolution):
    """Convolve an input (n, c, d, h, w) or (c, d, h, w) over three dimensions.

    `padding` may be "same" or "valid"; `padding_mode` is zeros, reflect, replicate or circular.
    Raises ValueError if the channels are not divisible by `groups`.

    >>> nn.Conv3d(4, 8, 3, stride=2, padding=1)(torch.zeros(1, 4, 8, 10, 12)).shape
    torch.Size([1, 8, 4, 5, 6])
    """

    _flambeau_as_tuple = staticmethod(_triple)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            padded = self._flambeau_pad(input)
            return F.conv3d(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        return F.conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose1d(_Transposed):
    """Transposed convolution of (n, c, l) or (c, l); `output_size` resolves the ambiguous size.

    >>> up = nn.ConvTranspose1d(4, 2, 3, stride=2)
    >>> up(torch.zeros(1, 4, 5)).shape, up(torch.zeros(1, 4, 5), output_size=[12]).shape
    (torch.Size([1, 2, 11]), torch.Size([1, 2, 12]))
    """

    _flambeau_as_tuple = staticmethod(_single)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        settings = self._flambeau_list_settings(input, output_size)
        return F.conv_transpose1d(input, self.weight, self.bias, *settings)


class ConvTranspose2d(_Transposed):
    """Transposed convolution of (n, c, h, w) or (c, h, w); `output_size` as in ConvTranspose1d.

    >>> nn.ConvTranspose2d(4, 2, 2, stride=2)(torch.zeros(1, 4, 5, 5)).shape
    torch.Size([1, 2, 10, 10])
    """

    _flambeau_as_tuple = staticmethod(_pair)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        settings = self._flambeau_list_settings(input, output_size)
        return F.conv_transpose2d(input, self.weight, self.bias, *settings)


class ConvTranspose3d(_Transposed):
    """Transposed convolution of (n, c, d, h, w) or (c, d, h, w); `output_size` as in 1d.

    >>> nn.ConvTranspose3d(4, 2, 2, stride=2)(torch.zeros(1, 4, 3, 4, 5)).shape
    torch.Size([1, 2, 6, 8, 10])
    """

    _flambeau_as_tuple = staticmethod(_triple)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        settings = self._flambeau_list_settings(input, output_size)
        return F.conv_transpose3d(input, self.weight, self.bias, *settings)


class _LazyConvXdMixin(LazyModuleMixin):
    """Materializes the parameters of the convolution it is mixed into."""

    if TYPE_CHECKING:  # attributes of the convolution
        groups: int
        kernel_size: tuple[int, ...]

        def _flambeau_compute_weight_shape(self) -> tuple[int, ...]: ...

    def _flambeau_postpone(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Replace the empty parameters by parameters without a shape."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]  # the convolution's

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters the shapes that `input` asks for, and their first values."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._flambeau_compute_weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        unbatched = self._get_num_spatial_dims() + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[-unbatched]

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)


class _LazyConvolution(_LazyConvXdMixin):
    """The constructor of forward convolutions, without in_channels."""

    __init_subclass__ = own_constructor

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            False,
            padding_mode,
            device=device,
            dtype=dtype,
        )
        self._flambeau_postpone(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConvXdMixin):
    """The constructor of transposed convolutions, without in_channels."""

    __init_subclass__ = own_constructor

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device=device,
            dtype=dtype,
        )
        self._flambeau_postpone(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvolution, Conv1d):
    """Conv1d that infers in_channels from its first input, then becomes a Conv1d.

    >>> conv = nn.LazyConv1d(8, 3)
    >>> _ = conv(torch.zeros(2, 5, 10))
    >>> conv
    Conv1d(5, 8, kernel_size=(3,), stride=(1,))
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """Conv2d that infers in_channels from its first input, then becomes a Conv2d.

    >>> conv = nn.LazyConv2d(8, 3)
    >>> conv(torch.zeros(2, 5, 10, 10)).shape, conv.weight.shape
    (torch.Size([2, 8, 8, 8]), torch.Size([8, 5, 3, 3]))
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """Conv3d that infers in_channels from its first input, then becomes a Conv3d.

    >>> conv = nn.LazyConv3d(8, 3)
    >>> conv(torch.zeros(2, 5, 6, 6, 6)).shape, conv.weight.shape
    (torch.Size([2, 8, 4, 4, 4]), torch.Size([8, 5, 3, 3, 3]))
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """ConvTranspose1d that infers in_channels from its first input.

    >>> conv = nn.LazyConvTranspose1d(8, 3)
    >>> conv(torch.zeros(2, 5, 10)).shape, conv.weight.shape
    (torch.Size([2, 8, 12]), torch.Size([5, 8, 3]))
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """ConvTranspose2d that infers in_channels from its first input.

    >>> conv = nn.LazyConvTranspose2d(8, 3)
    >>> conv(torch.zeros(2, 5, 10, 10)).shape, conv.weight.shape
    (torch.Size([2, 8, 12, 12]), torch.Size([5, 8, 3, 3]))
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """ConvTranspose3d that infers in_channels from its first input.

    >>> conv = nn.LazyConvTranspose3d(8, 3)
    >>> conv(torch.zeros(2, 5, 6, 6, 6)).shape, conv.weight.shape
    (torch.Size([2, 8, 8, 8, 8]), torch.Size([5, 8, 3, 3, 3]))
    """

    cls_to_become = ConvTranspose3d
