"""Padding by a constant, reflection, replication or wrapping round.

`padding` is one number, or one for each side, those of the last dimension first.
"""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..common_types import _size_2_t, _size_4_t, _size_6_t
from ..module import Module
from .utils import _pair, _quadruple, _settings, _sextuple

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
    """A padding whose only setting is the widths."""

    padding: tuple[int, ...]

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_ShownByPadding):
    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__}._check_input_dim")

    def _require_dim(self, input: Tensor, unbatched: int) -> None:
        if input.dim() not in (unbatched, unbatched + 1):
            raise ValueError(
                f"expected {unbatched}D or {unbatched + 1}D input (got {input.dim()}D input)"
            )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension of (n, c, w) or (c, w) with what is at its other end."""

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)

    def _check_input_dim(self, input: Tensor) -> None:
        self._require_dim(input, 2)


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions of (n, c, h, w) or (c, h, w) with their other ends."""

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)

    def _check_input_dim(self, input: Tensor) -> None:
        self._require_dim(input, 3)


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions of (n, c, d, h, w) or (c, d, h, w) with their other ends."""

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)

    def _check_input_dim(self, input: Tensor) -> None:
        self._require_dim(input, 4)


class _ConstantPadNd(Module):
    padding: tuple[int, ...]
    value: float

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return _settings(self, "padding", "value")


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with `value`."""

    def __init__(self, padding: _size_2_t, value: float) -> None:
        super().__init__(value)
        self.padding = _pair(padding)


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with `value`."""

    def __init__(self, padding: _size_4_t, value: float) -> None:
        super().__init__(value)
        self.padding = _quadruple(padding)


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with `value`."""

    def __init__(self, padding: _size_6_t, value: float) -> None:
        super().__init__(value)
        self.padding = _sextuple(padding)


class ZeroPad1d(ConstantPad1d):
    """Pads the last dimension with zeros."""

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads the last two dimensions with zeros."""

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads the last three dimensions with zeros."""

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_ShownByPadding):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its mirror image, the edge not repeated."""

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with their mirror image, the edges not repeated."""

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with their mirror image, the edges not repeated."""

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)


class _ReplicationPadNd(_ShownByPadding):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension by repeating its edge."""

    def __init__(self, padding: _size_2_t) -> None:
        super().__init__()
        self.padding = _pair(padding)


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions by repeating their edges."""

    def __init__(self, padding: _size_4_t) -> None:
        super().__init__()
        self.padding = _quadruple(padding)


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions by repeating their edges."""

    def __init__(self, padding: _size_6_t) -> None:
        super().__init__()
        self.padding = _sextuple(padding)
