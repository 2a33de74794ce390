"""BlockMask: the blocks of queries and keys that a mask leaves visible, and the mask's function."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...tensor import Tensor
from ...tensor import dtypes as types

# Number of blocks in each row, and their columns; None if the mask does not list them.
Blocks = tuple[Tensor | None, Tensor | None]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_PARTS = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
    "q_indices", "full_q_num_blocks", "full_q_indices",
)


def list_positions(shape: Sequence[int]) -> list[Tensor]:
    """Return the indices of each axis, as tensors that broadcast to the shape."""
    trailing = [(1,) * (len(shape) - 1 - axis) for axis in range(len(shape))]
    return [ops.arange(n).view(n, *ones) for n, ones in zip(shape, trailing, strict=True)]


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """A mask that hides nothing."""
    return ops.ones((), dtype=types.bool_)


def and_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Combine masks: a key is visible if all masks show it."""
    return _join_masks(mask_mods, ops.logical_and, "and_masks")


def or_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Combine masks: a key is visible if any mask shows it."""
    return _join_masks(mask_mods, ops.logical_or, "or_masks")


def _join_masks(
    mods: Sequence[Callable[..., Tensor]], join: Any, name: str
) -> Callable[..., Tensor]:
    if not all(callable(mod) for mod in mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mods}")

    def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Tensor:
        return functools.reduce(join, [mod(b, h, q_idx, kv_idx) for mod in mods])

    return mask


def _order_blocks(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of nonzero blocks in each row, and the columns, nonzero blocks first."""
    dense = blocks.to(types.int32)
    count = dense.sum(-1).to(types.int32)
    order = ops.argsort(dense, dim=-1, descending=True, stable=True)
    return count, order.to(types.int32).contiguous()


def _create_dense(count: Tensor, indices: Tensor) -> Tensor:
    """Invert `_order_blocks`: return 1 for each block that is present."""
    present = (ops.arange(indices.size(-1)) < count.unsqueeze(-1)).to(types.int32)
    result = ops.zeros(indices.shape, dtype=types.int32)
    return result.scatter_(-1, indices.long(), present)


def _transpose_blocks(blocks: Blocks) -> Blocks:
    """Return the blocks of queries that see each block of keys."""
    count, indices = blocks
    if count is None or indices is None:
        return None, None
    return _order_blocks(_create_dense(count, indices).mT)


def _crop_blocks(blocks: Blocks, rows: int, columns: int) -> Blocks:
    """Return the blocks in the upper left corner."""
    count, indices = blocks
    if count is None or indices is None:
        return None, None
    return _order_blocks(_create_dense(count, indices)[..., :rows, :columns])


def _drop_blocks(blocks: Blocks) -> Blocks:
    return None, None


class BlockMask:
    """A mask's function, and the blocks that are partly visible; `full` blocks are fully visible.

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256)
    >>> mask.shape, mask.sparsity(), mask.to_dense()[0, 0]
    ((1, 1, 256, 256), 25.0, tensor([[1, 0],
            [1, 1]], dtype=torch.int32))
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None, full_kv_indices: Tensor | None = None,
        q_num_blocks: Tensor | None = None, q_indices: Tensor | None = None,
        full_q_num_blocks: Tensor | None = None, full_q_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (128, 128), mask_mod: Callable[..., Tensor] = noop_mask,
        **options: Any,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: Callable[..., Tensor] | None = None,
        seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True, **options: Any,
    ) -> BlockMask:
        """Build a mask from the blocks of keys that each block of queries attends to."""
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or "
                                 "omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        lengths = seq_lengths or (kv_indices.size(-2) * size[0], kv_indices.size(-1) * size[1])
        partial, full = (kv_num_blocks, kv_indices), (full_kv_num_blocks, full_kv_indices)
        transposed = map(_transpose_blocks if compute_q_blocks else _drop_blocks, (partial, full))
        parts = (*partial, *full, *itertools.chain.from_iterable(transposed))
        blocks: dict[str, Any] = dict(zip(_PARTS, parts, strict=True))
        return cls(lengths, **blocks, BLOCK_SIZE=size, mask_mod=mask_mod or noop_mask)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Lengths, tensors, block size and function, in the order of the constructor."""
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        return (*lengths, *(getattr(self, name) for name in _PARTS), *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of (batch, head, query, key) positions."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the percentage of positions in fully hidden blocks."""
        count = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            count += int(self.full_kv_num_blocks.sum())
        return 100 - 100 * count * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel()

    def to_dense(self) -> Tensor:
        """Return 1 for each block that is at least partly visible."""
        result = _create_dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            result = result | _create_dense(self.full_kv_num_blocks, self.full_kv_indices)
        return result

    def to_string(self, grid_size: Any = (20, 20), limit: int = 4) -> str:
        """Draw the blocks of the first `limit` masks."""
        dense = self.to_dense().reshape(-1, *self.kv_indices.shape[-2:])
        lines = []
        for picture in dense[:limit].tolist():
            lines += ["".join("██" if is_visible else "  " for is_visible in row)
                      for row in picture]
        return "\n".join(lines)

    def to(self, device: Any) -> BlockMask:
        """Move the mask to a device."""
        return self._map_parts(lambda x: x.to(device))

    def _map_parts(self, change: Callable[[Tensor], Tensor]) -> BlockMask:
        """Return the mask with each of its tensors changed by a function."""
        parts: dict[str, Any] = {name: getattr(self, name) for name in _PARTS}
        blocks: dict[str, Any] = {
            name: None if x is None else change(x) for name, x in parts.items()
        }
        return BlockMask(self.seq_lengths, **blocks, BLOCK_SIZE=self.BLOCK_SIZE,
                         mask_mod=self.mask_mod)

    def __getitem__(self, index: Any) -> BlockMask:
        return self._map_parts(lambda x: x[index])

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """Return the upper left corner, for shorter queries and keys."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        partial = _crop_blocks((self.kv_num_blocks, self.kv_indices), rows, columns)
        full = _crop_blocks((self.full_kv_num_blocks, self.full_kv_indices), rows, columns)
        blocks: dict[str, Any] = dict(zip(_PARTS[:4], (*partial, *full), strict=True))
        return BlockMask.from_kv_blocks(
            **blocks, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
        )

    def __str__(self) -> str:
        return (f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
                f"{self.to_string()}\n)")


def create_block_mask(
    mask_mod: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None, BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False, separate_full_blocks: bool = True, **options: Any,
) -> BlockMask:
    """Build the block mask of `mask_mod(b, h, q_idx, kv_idx)`, which is True if a key is visible.

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q - kv < 8, None, None, 256, 256).shape
    (1, 1, 256, 256)
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    result = mask_mod(*list_positions(shape))
    is_visible = (result if isinstance(result, Tensor) else ops.full((), result)).expand(shape)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padded = ops.zeros((*shape[:2], rows * size[0], columns * size[1]), dtype=types.bool_)
    padded[..., :Q_LEN, :KV_LEN] = is_visible
    blocks = padded.view(*shape[:2], rows, size[0], columns, size[1]).sum((-3, -1))
    is_full = (blocks == size[0] * size[1]) if separate_full_blocks else None
    is_partial = (blocks > 0) if is_full is None else (blocks > 0) & ~is_full
    full = (None, None) if is_full is None else _order_blocks(is_full)
    parts: dict[str, Any] = dict(zip(_PARTS[:4], (*_order_blocks(is_partial), *full), strict=True))
    return BlockMask.from_kv_blocks(**parts, BLOCK_SIZE=size, mask_mod=mask_mod,
                                    seq_lengths=(Q_LEN, KV_LEN))
