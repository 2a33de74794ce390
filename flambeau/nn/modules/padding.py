"""Padding with a constant, or by reflection, replication or wrapping around.

`padding` is one number, or one per side, those of the last dimension first.
"""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..common_types import _size_2_t, _size_4_t, _size_6_t
from ..module import Module
from .utils import _pair, _quadruple, format_settings, _sextuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _ShownByPadding(Module):
    """A padding whose only setting is its widths."""

    padding: tuple[int, ...]

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_ShownByPadding):
    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__}._check_input_dim")

    def _flambeau_require_dim(self, input: Tensor, unbatched: int) -> None:
        if input.dim() not in (unbatched, unbatched + 1):
            raise ValueError(
                f"expected {unbatched}D or {unbatched + 1}D input (got {input.dim()}D input)"
            )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pad the last dimension of (n, c, w) or (c, w), wrapping around.

    >>> nn.CircularPad1d((1, 2))(torch.tensor([[1, 2, 3]]))
    tensor([[3, 1, 2, 3, 1, 2]])
    """

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)

    def _check_input_dim(self, input: Tensor) -> None:
        self._flambeau_require_dim(input, 2)


class CircularPad2d(_CircularPadNd):
    """Pad the last two dimensions of (n, c, h, w) or (c, h, w), wrapping around.

    >>> nn.CircularPad2d(1)(torch.tensor([[[1, 2], [3, 4]]]))
    tensor([[[4, 3, 4, 3],
             [2, 1, 2, 1],
             [4, 3, 4, 3],
             [2, 1, 2, 1]]])
    """

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)

    def _check_input_dim(self, input: Tensor) -> None:
        self._flambeau_require_dim(input, 3)


class CircularPad3d(_CircularPadNd):
    """Pad the last three dimensions of (n, c, d, h, w) or (c, d, h, w), wrapping around.

    >>> nn.CircularPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
    torch.Size([1, 5, 6, 7])
    """

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)

    def _check_input_dim(self, input: Tensor) -> None:
        self._flambeau_require_dim(input, 4)


class _ConstantPadNd(Module):
    padding: tuple[int, ...]
    value: float

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return format_settings(self, "padding", "value")


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dimension with `value`.

    >>> nn.ConstantPad1d((1, 2), 9)(torch.tensor([[1, 2, 3]]))
    tensor([[9, 1, 2, 3, 9, 9]])
    """

    def __init__(self, padding: _size_2_t, value: float) -> None:
        super().__init__(value)
        self.padding = _pair(padding)


class ConstantPad2d(_ConstantPadNd):
    """Pad the last two dimensions with `value`.

    `padding` is one number or (left, right, top, bottom); negative amounts crop.

    >>> nn.ConstantPad2d((1, 0, 0, -1), 9)(torch.tensor([[[1, 2], [3, 4]]]))
    tensor([[[9, 1, 2]]])
    """

    def __init__(self, padding: _size_4_t, value: float) -> None:
        super().__init__(value)
        self.padding = _quadruple(padding)


class ConstantPad3d(_ConstantPadNd):
    """Pad the last three dimensions with `value`.

    >>> nn.ConstantPad3d(1, 0.5)(torch.zeros(1, 3, 4, 5)).shape
    torch.Size([1, 5, 6, 7])
    """

    def __init__(self, padding: _size_6_t, value: float) -> None:
        super().__init__(value)
        self.padding = _sextuple(padding)


class ZeroPad1d(ConstantPad1d):
    """Pad the last dimension with zeros.

    >>> nn.ZeroPad1d((1, 2))(torch.tensor([[1, 2, 3]]))
    tensor([[0, 1, 2, 3, 0, 0]])
    """

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pad the last two dimensions with zeros.

    >>> nn.ZeroPad2d((1, 0, 0, 1))(torch.tensor([[[1, 2], [3, 4]]]))
    tensor([[[0, 1, 2],
             [0, 3, 4],
             [0, 0, 0]]])
    """

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pad the last three dimensions with zeros.

    >>> nn.ZeroPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
    torch.Size([1, 5, 6, 7])
    """

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_ShownByPadding):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_ReflectionPadNd):
    """Pad the last dimension with its reflection, not repeating the edge.

    >>> nn.ReflectionPad1d(2)(torch.tensor([[1, 2, 3]]))
    tensor([[3, 2, 1, 2, 3, 2, 1]])
    """

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReflectionPad2d(_ReflectionPadNd):
    """Pad the last two dimensions with their reflection, not repeating the edges.

    >>> nn.ReflectionPad2d((1, 0, 1, 0))(torch.tensor([[[1., 2.], [3., 4.]]]))
    tensor([[[4., 3., 4.],
             [2., 1., 2.],
             [4., 3., 4.]]])
    """

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReflectionPad3d(_ReflectionPadNd):
    """Pad the last three dimensions with their reflection, not repeating the edges.

    >>> nn.ReflectionPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
    torch.Size([1, 5, 6, 7])
    """

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)


class _ReplicationPadNd(_ShownByPadding):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_ReplicationPadNd):
    """Pad the last dimension by repeating its edge.

    >>> nn.ReplicationPad1d(2)(torch.tensor([[1., 2., 3.]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReplicationPad2d(_ReplicationPadNd):
    """Pad the last two dimensions by repeating their edges.

    >>> nn.ReplicationPad2d((1, 0, 1, 0))(torch.tensor([[[1., 2.], [3., 4.]]]))
    tensor([[[1., 1., 2.],
             [1., 1., 2.],
             [3., 3., 4.]]])
    """

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReplicationPad3d(_ReplicationPadNd):
    """Pad the last three dimensions by repeating their edges.

    >>> nn.ReplicationPad3d(1)(torch.zeros(1, 3, 4, 5)).shape
    torch.Size([1, 5, 6, 7])
    """

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)
