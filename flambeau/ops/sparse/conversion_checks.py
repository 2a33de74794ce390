"""What a conversion between layouts refuses, in PyTorch's words."""

from __future__ import annotations

from typing import Any

from ...tensor import layout as layouts
from ...tensor.layout import layout, sparse_coo, strided
from ...tensor.meta import refuse_unknown_values
from ...tensor.sparse import COMPRESSED, CompressedArray, layout_name
from ...tensor.tensor import Tensor

_BLOCKED = (layouts.sparse_bsr, layouts.sparse_bsc)


def check_sparse_dim(x: Tensor, sparse_dim: int) -> None:
    """Raise RuntimeError for a number of sparse axes that a COO tensor cannot have."""
    refuse_unknown_values(x, "_to_sparse.sparse_dim")
    if x.layout is strided:
        rank = x.dim()
        if rank and sparse_dim == 0:
            raise RuntimeError(
                "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
        if not 0 <= sparse_dim <= rank:
            raise RuntimeError(
                f"dense_to_sparse: sparse_dim argument must be in [0,{rank}] range, but "
                f"{sparse_dim} is given"
            )
    elif sparse_dim != x.sparse_dim():
        prefix = "to_sparse" if x.is_sparse else "sparse_compressed_to_sparse"
        raise RuntimeError(
            f"{prefix}: conversion from {layout_name(x.layout)} to Sparse with sparse_dim argument "
            "!=self.sparse_dim() is not supported"
        )


def check_conversion(x: Tensor, form: layout, blocksize: Any, dense_dim: int | None) -> None:
    """Raise RuntimeError for a conversion, or options of it, unsupported by PyTorch."""
    refuse_unknown_values(x, "_to_sparse")
    source = x.layout
    prefix = "to_sparse" if source is form else "dense_to_sparse" if source is strided else \
        "sparse_coo_to_sparse" if source is sparse_coo else "sparse_compressed_to_sparse"
    text = f"{prefix}: conversion from {layout_name(source)} to {layout_name(form)}"
    if source is sparse_coo and form in COMPRESSED and x.sparse_dim() != 2:
        raise RuntimeError(f"{text} for input tensors with sparse_dim()!=2 is not supported")
    array: Any = x._array
    if isinstance(array, CompressedArray) and form in _BLOCKED and not array.blocked \
            and array.batch_dim:
        raise RuntimeError(f"{text} for batched inputs is not supported")
    if form not in _BLOCKED and blocksize is not None:
        raise RuntimeError(f"{text} with blocksize argument given is not supported")
    if form in _BLOCKED:
        _check_blocks(x, form, blocksize, dense_dim or 0, prefix, text)
    if dense_dim is not None and source is not strided:
        raise RuntimeError(f"{text} with dense_dim argument given is not supported")
    if source is strided:
        _check_dense(x, form, 0 if dense_dim is None else dense_dim)
    elif isinstance(array, CompressedArray) and array.blocked and form in COMPRESSED \
            and form not in _BLOCKED:
        name = form.name.removeprefix("sparse_")
        raise RuntimeError(f"sparse_compressed_to_sparse_{name}: expected SparseCsr or SparseCsc "
                           f"layout but got {layout_name(source)}")


def _check_blocks(
    x: Tensor, form: layout, blocksize: Any, dense_dim: int, prefix: str, text: str
) -> None:
    if blocksize is None:
        raise RuntimeError(f"{text} without blocksize argument given is not supported")
    name = form.name.removeprefix("sparse_")
    if len(blocksize) != 2:
        raise RuntimeError(f"to_sparse_{name}: blocksize needs to be a tuple of size 2, but got "
                           f"{len(blocksize)}")
    height, width = blocksize
    array: Any = x._array
    if isinstance(array, CompressedArray) and array.blocked:
        if array.block != (height, width):
            raise RuntimeError(f"{text} with blocksize changed from {list(array.block)} to "
                               f"{[height, width]} is not supported")
        return
    for n in (height, width):
        if n <= 0:
            raise RuntimeError(f"to_sparse_{name}: blocksize needs to be positive, but got {n}")
    axis = x.dim() - 2 - (dense_dim if x.layout is strided else x.dense_dim())
    if axis >= 0 and (x.shape[axis] % height or x.shape[axis + 1] % width):
        raise RuntimeError(
            f"{prefix}: tensor sparse size ({x.shape[axis]},{x.shape[axis + 1]}) must be divisible "
            f"by given blocksize ({height},{width})"
        )


def _check_dense(x: Tensor, form: layout, dense_dim: int) -> None:
    rank = x.dim()
    if form is sparse_coo:
        if rank and dense_dim == rank:
            raise RuntimeError(
                "dense_to_sparse: dense_dim argument must be !=self.dim() when self.dim()>0")
        return
    if rank < 2:
        raise IndexError(
            f"select(): index 1 out of range for tensor of size {[*x.shape, 1]} at dimension 1")
    if not 0 <= dense_dim <= rank - 2:
        raise RuntimeError(
            f"dense_to_sparse: dense_dim argument must be in [0,{rank - 2}] range, but {dense_dim} "
            "is given"
        )
