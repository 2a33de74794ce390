"""aten's pooling, grid and embedding operators as adapters for nn.functional.

aten encodes modes as numbers and always returns indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.core.operator import PUBLIC

__all__ = ["WINDOWS"]

_REDUCTIONS = ("none", "mean", "sum")
_SAMPLING, _PADDING = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _find_functional(name: str) -> Callable[..., Any]:
    result: Callable[..., Any] = PUBLIC["nn.functional"][name]
    return result


def _im2col(input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return _find_functional("unfold")(input, kernel_size, dilation, padding, stride)


def _col2im(input: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any,
            stride: Any) -> Any:
    return _find_functional("fold")(input, output_size, kernel_size, dilation, padding, stride)


def _grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int,
                  align_corners: bool) -> Any:
    return _find_functional("grid_sample")(input, grid, _SAMPLING[interpolation_mode],
                                           _PADDING[padding_mode], align_corners)


def _affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    return _find_functional("affine_grid")(theta, size, align_corners)


def _create_adaptive_max_pool(count: int) -> Callable[..., Any]:
    def call(input: Any, output_size: Any) -> Any:
        return _find_functional(f"adaptive_max_pool{count}d")(
            input, output_size, return_indices=True
        )

    return call


def _scatter_flat(input: Any, indices: Any, size: Any) -> Any:
    """Scatter values by flat index into zero planes or volumes of the given size."""
    count = len(size)
    lead = list(input.shape[:-count])
    total = 1
    for length in size:
        total *= length
    zeros = input.new_zeros([*lead, total])
    flat = zeros.scatter(-1, indices.reshape([*lead, -1]), input.reshape([*lead, -1]))
    return flat.reshape([*lead, *size])


def _max_unpool2d(input: Any, indices: Any, output_size: Any) -> Any:
    return _scatter_flat(input, indices, output_size)


def _max_unpool3d(input: Any, indices: Any, output_size: Any, stride: Any, padding: Any) -> Any:
    return _scatter_flat(input, indices, output_size)


def _embedding_bag(weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False,
                   mode: int = 0, sparse: bool = False, per_sample_weights: Any = None,
                   include_last_offset: bool = False, padding_idx: int | None = None) -> Any:
    """Return the bags, then empty tensors for the three that only aten's backward needs."""
    bags = _find_functional("embedding_bag")(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode], sparse=sparse, per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=None if padding_idx is None or padding_idx < 0 else padding_idx)
    empty = indices.new_empty([0])
    return bags, empty, empty, empty


def _ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
              blank: int = 0, reduction: int = 1, zero_infinity: bool = False) -> Any:
    return _find_functional("ctc_loss")(log_probs, targets, input_lengths, target_lengths, blank,
                                        _REDUCTIONS[reduction], zero_infinity)


def _nearest_exact(input: Any, output_size: Any, *scales: Any, scale_factors: Any = None) -> Any:
    factors = scales[0] if scales and isinstance(scales[0], (list, tuple)) else scale_factors
    if output_size is not None:
        return _find_functional("interpolate")(input, size=list(output_size), mode="nearest-exact")
    return _find_functional("interpolate")(input, scale_factor=list(factors), mode="nearest-exact")


def _create_upsample_antialiased(mode: str) -> Callable[..., Any]:
    def call(input: Any, output_size: Any, align_corners: bool, *scales: Any,
             scale_factors: Any = None) -> Any:
        factors = scales[0] if scales and isinstance(scales[0], (list, tuple)) else scale_factors
        return _find_functional("interpolate")(
            input, size=None if output_size is None else list(output_size),
            scale_factor=None if output_size is not None else list(factors), mode=mode,
            align_corners=align_corners, antialias=True)

    return call


WINDOWS: dict[str, Callable[..., Any]] = {
    "im2col": _im2col, "col2im": _col2im, "grid_sampler": _grid_sampler,
    "grid_sampler_2d": _grid_sampler, "grid_sampler_3d": _grid_sampler,
    "affine_grid_generator": _affine_grid_generator,
    **{f"adaptive_max_pool{n}d": _create_adaptive_max_pool(n) for n in (1, 2, 3)},
    "max_unpool2d": _max_unpool2d, "max_unpool3d": _max_unpool3d,
    "embedding_bag": _embedding_bag, "ctc_loss": _ctc_loss,
    **{f"_upsample_nearest_exact{n}d": _nearest_exact for n in (1, 2, 3)},
    "_upsample_bilinear2d_aa": _create_upsample_antialiased("bilinear"),
    "_upsample_bicubic2d_aa": _create_upsample_antialiased("bicubic"),
}
