"""Upsample: interpolation to a size or by a factor."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..common_types import _ratio_2_t, _ratio_any_t, _size_2_t, _size_any_t
from ..module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resize (n, c, *) to `size` or by `scale_factor`; modes as in `F.interpolate`.

    >>> nn.Upsample(scale_factor=2)(torch.tensor([[[1., 2.]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    def __init__(
        self,
        size: _size_any_t | None = None,
        scale_factor: _ratio_any_t | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: float | tuple[float, ...] | None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: dict) -> None:
        state.setdefault("recompute_scale_factor", True)  # the behavior of pickles without it
        super().__setstate__(state)

    def extra_repr(self) -> str:
        target = "size" if self.scale_factor is None else "scale_factor"
        return f"{target}={getattr(self, target)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample (n, c, h, w) to the nearest element.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(torch.tensor([[[[1., 2.]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(
        self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample (n, c, h, w) bilinearly with aligned corners.

    >>> nn.UpsamplingBilinear2d(size=(1, 3))(torch.tensor([[[[1., 2.]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(
        self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
