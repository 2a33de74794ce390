"""Arguments of the kernels in depthwise.py for a convolution: blocks and tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import lcm
from typing import NamedTuple

import numpy as np

from ..loop_ir.ir import Kernel
from ..target.eager_costs import DEPTHWISE_COPY_LANES as LANES
from ..target.eager_costs import DEPTHWISE_FLAT_LANES as FLAT_LANES
from ..target.eager_costs import MAX_DEPTHWISE_IMAGES, MAX_DEPTHWISE_TAPS
from . import depthwise
from .conv_static import Geometry
from .depthwise import MAX_BLOCK_ELEMENTS, MAX_TILE_ELEMENTS, DepthwiseSizes

Pair = tuple[int, int]

UNUSED = DepthwiseSizes(*[0] * len(DepthwiseSizes._fields))


class DepthwiseCall(NamedTuple):
    """A kernel's builder, the stride it is compiled for, its table, and its sizes."""

    builder: Callable[..., Kernel]
    step: int | None
    offsets: np.ndarray
    sizes: tuple[int, ...]


class _Block(NamedTuple):
    """A block of results, and the input it reads: `parts` of `tall` rows of `pitch` columns."""

    rows: int
    columns: int
    down: int
    across: int
    parts: int
    tall: int
    pitch: int
    step: int

    @property
    def flats(self) -> int:
        """Return how many FLAT_LANES vectors cover its positions, row padding included."""
        last = (self.columns - 1) * self.step + 1
        return -(-((self.rows - 1) * self.pitch + last) // FLAT_LANES)

    def group(self, images: int, size: int) -> int:
        """Return how many images fit a thread's local memory, with elements of `size` bytes."""
        tile, room = self.parts * self.tall * self.pitch, self.flats * FLAT_LANES
        return max(
            1,
            min(
                MAX_DEPTHWISE_IMAGES,
                images,
                MAX_TILE_ELEMENTS[size] // tile,
                MAX_BLOCK_ELEMENTS[size] // room,
            ),
        )


def _round_up(a: int, b: int) -> int:
    return -(-a // b)


def _find_static_step(step: int) -> int | None:
    return step if step in (1, 2) else None


def _choose_block(size: int, output: Pair, reach: Pair, stride: Pair, steps: Pair) -> _Block | None:
    """Return the largest block that fits a thread's local memory; None if none does.

    `reach`: rows and columns from the first tap to the last. `stride`: of the results. `steps`: if
    there are several blocks, their extents are multiples of this.
    """
    best, width, parts = None, output[1], min(stride[0], reach[0] + 1)
    unit = lcm(LANES, steps[1])
    while True:
        pitch, more = (width - 1) * stride[1] + reach[1] + 1, reach[0] // stride[0]
        rows = min(
            output[0],
            MAX_TILE_ELEMENTS[size] // (parts * pitch) - more,
            MAX_BLOCK_ELEMENTS[size] // pitch,
        )
        if rows < output[0]:
            rows -= rows % steps[0]
        if rows > 0:
            share = rows * width / ((rows + more) * pitch)
            if best is None or share > best[0]:
                down, across = _round_up(output[0], rows), _round_up(output[1], width)
                best = share, _Block(rows, width, down, across, parts, rows + more, pitch,
                                     stride[1])
        if width // 2 < unit or (best is not None and best[0] * stride[1] > 0.5):
            return None if best is None else best[1]
        width = width // 2 // unit * unit


def _reach(g: Geometry) -> Pair:
    """Return the rows and columns from the first tap to the last."""
    return ((g.kernel[0] - 1) * g.dilation[0], (g.kernel[1] - 1) * g.dilation[1])


def _list_taps(g: Geometry) -> list[Pair]:
    return [
        (i * g.dilation[0], j * g.dilation[1])
        for i, j in product(range(g.kernel[0]), range(g.kernel[1]))
    ]


def _describe_images(g: Geometry, outputs: bool) -> DepthwiseSizes[int]:
    """Return the numbers of images and channels, and their strides. x is g's input and y its
    output, or the other way round."""
    each, taps = g.outputs_each, g.kernel[0] * g.kernel[1]
    target, narrow = (g.output, g.spatial) if outputs else (g.spatial, g.output)
    x, y = narrow[0] * narrow[1], target[0] * target[1]
    sizes = UNUSED._replace(
        images=g.batch, channels=g.groups, taps=taps, w_channel_stride=each * taps
    )
    if outputs:
        return sizes._replace(
            outputs_each=each,
            inputs_each=1,
            x_image_stride=g.groups * x,
            x_channel_stride=x,
            w_output_stride=taps,
            y_image_stride=g.groups * each * y,
            y_channel_stride=each * y,
            y_output_stride=y,
        )
    return sizes._replace(
        outputs_each=1,
        inputs_each=each,
        x_image_stride=g.groups * each * x,
        x_channel_stride=each * x,
        x_input_stride=x,
        w_input_stride=taps,
        y_image_stride=g.groups * y,
        y_channel_stride=y,
    )


def _place_tiles(sizes: DepthwiseSizes[int], block: _Block, size: int) -> DepthwiseSizes[int]:
    """Add the groups of images whose tiles and results fit a thread's local memory."""
    group = block.group(sizes.images, size)
    return sizes._replace(
        group_images=group,
        groups=_round_up(sizes.images, group),
        x_group_stride=group * sizes.x_image_stride,
        y_group_stride=group * sizes.y_image_stride,
        tile_stride=block.parts * block.tall * block.pitch,
        results_stride=block.flats * FLAT_LANES,
    )


def _place_outputs(
    sizes: DepthwiseSizes[int], block: _Block, output: Pair
) -> DepthwiseSizes[int]:
    """Add the sizes that place the results."""
    return sizes._replace(
        blocks_down=block.down,
        blocks_across=block.across,
        block_rows=block.rows,
        flat_vectors=block.flats,
        tile_pitch=block.pitch,
        y_row_stride=output[1],
        y_block_row_stride=block.rows * output[1],
        y_block_columns=block.columns,
        y_rows=output[0],
        y_columns=output[1],
        y_vectors=_round_up(block.columns, LANES),
        tile_columns=block.columns,
    )


def _place_inputs(
    sizes: DepthwiseSizes[int], block: _Block, spatial: Pair, padding: Pair, stride: Pair
) -> DepthwiseSizes[int]:
    """Add the sizes of the images that windows read; `padding` is the padding before them."""
    (h, w), (top, left) = spatial, padding
    return sizes._replace(
        x_row_stride=w,
        x_block_row_stride=block.rows * stride[0] * w,
        x_block_column_stride=block.columns * stride[1],
        x_start=-(top * w + left),
        tile_parts=block.parts,
        part_rows=block.tall,
        part_stride=block.tall * block.pitch,
        part_vectors=_round_up(block.pitch, LANES),
        row_step=stride[0],
        column_stride=stride[1],
        row_stride=stride[0] * w,
        vector_stride=LANES * stride[1],
        block_row_step=block.rows * stride[0],
        block_column_step=block.columns * stride[1],
        row_low=top,
        row_high=h + top,
        column_low=left,
        column_high=w + left,
    )


def _forward(g: Geometry, builder: Callable[..., Kernel]) -> DepthwiseCall | None:
    """Plan a pass over windows of the input."""
    block = _choose_block(g.type.size, g.output, _reach(g), g.stride, (1, 1))
    if block is None or g.kernel[0] * g.kernel[1] > MAX_DEPTHWISE_TAPS:
        return None
    sizes = _place_outputs(_describe_images(g, True), block, g.output)
    sizes = _place_inputs(sizes, block, g.spatial, g.padding, g.stride)
    part, stride = block.tall * block.pitch, g.stride[0]
    offsets = [i % stride * part + i // stride * block.pitch + j for i, j in _list_taps(g)]
    return DepthwiseCall(
        builder,
        _find_static_step(g.stride[1]),
        np.array(offsets, np.int64),
        _place_tiles(sizes, block, g.type.size),
    )


def plan_forward(g: Geometry) -> DepthwiseCall | None:
    """Plan the forward pass on x, offsets, weight, bias, y; None if windows are too large."""
    return _forward(g, depthwise.build_forward)


def plan_backward_weight(g: Geometry) -> DepthwiseCall | None:
    """Plan the weight gradient on x, offsets, gy, gw."""
    return _forward(g, depthwise.build_weight_gradient)


def plan_backward_data(g: Geometry) -> DepthwiseCall | None:
    """Plan the input gradient on gy, offsets, weight, zeros, gx."""
    reach = _reach(g)
    block = _choose_block(g.type.size, g.spatial, reach, (1, 1), g.stride)
    if block is None or g.kernel[0] * g.kernel[1] > MAX_DEPTHWISE_TAPS:
        return None
    offsets = np.array(
        [(reach[0] - i) * block.pitch + reach[1] - j for i, j in _list_taps(g)], np.int64
    )
    before = (reach[0] - g.padding[0], reach[1] - g.padding[1])  # places of the first block
    sizes = _place_outputs(_describe_images(g, False), block, g.spatial)
    if g.stride == (1, 1):
        sizes = _place_inputs(sizes, block, g.output, before, (1, 1))
        builder, step = depthwise.build_forward, _find_static_step(1)
    else:
        sizes = _spread(sizes, block, g.output, (-before[0], -before[1]), g.stride)
        builder, step = depthwise.build_strided_input_gradient, _find_static_step(g.stride[1])
    return DepthwiseCall(builder, step, offsets, _place_tiles(sizes, block, g.type.size))


def _spread(
    sizes: DepthwiseSizes[int], block: _Block, output: Pair, first: Pair, stride: Pair
) -> DepthwiseSizes[int]:
    """Add the elements that the gradient of strided windows reads, and their block positions."""
    (h, w), (sh, sw) = output, stride
    begin = [_round_up(c, s) for c, s in zip(first, stride, strict=True)]
    distance = [b * s - c for b, s, c in zip(begin, stride, first, strict=True)]
    rows, count = (
        max(0, _round_up(block.tall - distance[0], sh)),
        max(0, _round_up(block.pitch - distance[1], sw)),
    )
    down, across = block.rows // sh, block.columns // sw
    return sizes._replace(
        x_row_stride=w,
        x_block_row_stride=down * w,
        x_block_column_stride=across,
        x_start=begin[0] * w + begin[1],
        part_rows=rows,
        part_vectors=_round_up(count, LANES),
        column_stride=sw,
        row_stride=sh * block.pitch,
        vector_stride=LANES * sw,
        tile_columns=count,
        spread_start=distance[0] * block.pitch + distance[1],
        zero_vectors=_round_up(block.tall * block.pitch, FLAT_LANES) + 1,
        block_row_step=down,
        block_column_step=across,
        row_low=-begin[0],
        row_high=h - begin[0],
        column_low=-begin[1],
        column_high=w - begin[1],
    )
