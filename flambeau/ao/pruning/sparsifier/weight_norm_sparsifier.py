"""Masks that drop the blocks, or the elements of each block, whose norms are smallest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import ops
from ....nn import functional as F
from ....tensor import Tensor
from .base_sparsifier import BaseSparsifier

__all__ = ["WeightNormSparsifier"]


def _square(x: Tensor) -> Tensor:
    return x * x


class WeightNormSparsifier(BaseSparsifier):
    """Zero out blocks of weights with the smallest mean norm.

    Args:
        sparsity_level: the share of blocks, from 0 to 1.
        sparse_block_shape: rows and columns of a block.
        zeros_per_block: how many elements of a chosen block become zero; None for all of them.
            `sparsity_level=1, sparse_block_shape=(1, 4), zeros_per_block=2` gives two of four.
        norm: 1, 2, or a function of the weights that gives each element's norm.

    >>> layer = nn.Sequential(nn.Linear(8, 2))
    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(layer, None)
    >>> sparsifier.step()
    >>> (layer[0].weight == 0).float().mean().item()
    0.5
    """

    def __init__(
        self, sparsity_level: float = 0.5, sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None, norm: Callable[[Tensor], Tensor] | int | None = None,
    ) -> None:
        rows, columns = sparse_block_shape
        norm = 2 if norm is None else norm
        if callable(norm):
            self.norm_fn: Callable[[Tensor], Tensor] = norm
        elif norm in (1, 2):
            self.norm_fn = ops.abs if norm == 1 else _square
        else:
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        super().__init__(defaults={
            "sparsity_level": sparsity_level, "sparse_block_shape": sparse_block_shape,
            "zeros_per_block": rows * columns if zeros_per_block is None else zeros_per_block,
        })

    def update_mask(  # type: ignore[override]
        self, module: Any, tensor_name: str, sparsity_level: float,
        sparse_block_shape: tuple[int, int], zeros_per_block: int, **kwargs: Any,
    ) -> None:
        """Write the mask. Raises ValueError for more zeros than a block has elements."""
        size = sparse_block_shape[0] * sparse_block_shape[1]
        if zeros_per_block > size:
            raise ValueError("Number of zeros per block cannot be more than the total number of "
                             "elements in that block.")
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = ops.ones_like(mask)
        elif sparsity_level >= 1 and zeros_per_block == size:
            mask.data = ops.zeros_like(mask)
        else:
            norms = self.norm_fn(getattr(module, tensor_name))
            result = _choose_blocks(norms, sparsity_level, sparse_block_shape)
            if zeros_per_block < size:
                inside = _choose_in_blocks(norms, sparse_block_shape, zeros_per_block)
                result = ops.logical_or(result, inside)
            mask.data = result


def _choose_blocks(norms: Tensor, level: float, block: tuple[int, int]) -> Tensor:
    """Return a mask that is 0 in the given share of blocks, those of the smallest mean norm."""
    if level >= 1:
        return ops.zeros_like(norms)
    means = F.avg_pool2d(norms[None, None], block, block, ceil_mode=True)[0, 0]
    count = max(0, min(means.numel() - 1, round(level * means.numel())))
    chosen = means.flatten().topk(count, largest=False)[1]
    blocks = ops.ones(means.numel()).scatter(0, chosen, 0.0).view(means.shape)
    whole = blocks.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return whole[:norms.shape[0], :norms.shape[1]].contiguous()


def _choose_in_blocks(norms: Tensor, block: tuple[int, int], zeros: int) -> Tensor:
    """Return a mask that is 0 at each block's elements of the smallest norms."""
    rows, columns = norms.shape
    padding = (0, -columns % block[1], 0, -rows % block[0])
    padded = F.pad(norms, padding, value=float("nan"))  # which counts as largest
    blocks = F.unfold(padded[None, None], block, stride=block)  # (1, elements, blocks)
    chosen = blocks.topk(zeros, 1, largest=False)[1]
    mask = ops.ones(blocks.shape).scatter(1, chosen, 0.0)
    return F.fold(mask, padded.shape, block, stride=block)[0, 0, :rows, :columns].contiguous()
