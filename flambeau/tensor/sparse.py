"""Sparse arrays, and the tensor class built on them.

A SparseTensor's window is a SparseArray: it has a shape and dtype, and every use of it as a dense
array fails. A dense operator that receives one fails, and the failure dispatches the call to the
sparse operators (`ops/sparse/dispatch.py`), so dense tensors need no check.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from .devices import CPU, META, device
from .layout import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .meta import MetaArray
from .printing import format_sparse, format_tensor, prints_as_tensor
from .size import Size
from .tensor import Tensor, creation, wrap
from .windows.opaque_window import OpaqueWindow


class SparseArray(OpaqueWindow):
    """Base of all layouts: a shape and the stored values."""

    __slots__ = ("shape", "values")
    shape: tuple[int, ...]
    values: np.ndarray
    layout: layout
    strides = None
    kind = "sparse"

    @property
    def backend(self) -> str:
        """PyTorch's name for it in messages."""
        place = "Meta" if self.on_meta else "CPU"
        return f"Sparse{place}" if self.layout is sparse_coo else f"SparseCsr{place}"

    @property
    def on_meta(self) -> bool:
        """Whether it has a shape and a dtype only: its parts are meta arrays."""
        return self.values.__class__ is MetaArray

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def base(self) -> np.ndarray:
        """The array that owns its memory: the values."""
        return self.values

    @property
    def itemsize(self) -> int:
        """Bytes per value."""
        return self.values.itemsize


class CooArray(SparseArray):
    """Coordinates: `indices` (sparse axes, nnz) and `values` (nnz, *dense axes).

    Coalesced: the indices are sorted and unique, as those of fewer than two places are unless said
    otherwise. If not, values at the same place add up.
    """

    __slots__ = ("coalesced", "indices")
    layout = sparse_coo

    def __init__(
        self, indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...],
        coalesced: bool | None = None,
    ) -> None:
        self.indices, self.values, self.shape = indices, values, tuple(shape)
        self.coalesced = indices.shape[1] < 2 if coalesced is None else coalesced

    @property
    def sparse_dim(self) -> int:
        """The number of leading sparse axes."""
        return self.indices.shape[0]

    @property
    def nnz(self) -> int:
        """The number of stored places."""
        return self.indices.shape[1]

    def like(self, values: np.ndarray) -> CooArray:
        """Return an array with other values at the same places."""
        shape = self.shape[: self.sparse_dim] + values.shape[1:]
        return CooArray(self.indices, values, shape, self.coalesced)

    def linear_indices(self) -> np.ndarray:
        """Return each place as a row-major linear index over the sparse axes."""
        linear = np.zeros(self.nnz, np.int64)
        for length, index in zip(self.shape[: self.sparse_dim], self.indices, strict=True):
            linear *= length
            linear += index
        return linear


# For each compressed layout: whether rows are compressed, and whether values are blocks.
COMPRESSED = {
    sparse_csr: (True, False), sparse_csc: (False, False),
    sparse_bsr: (True, True), sparse_bsc: (False, True),
}
# The layout of a transposed matrix.
TRANSPOSED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc,
              sparse_bsc: sparse_bsr}


class CompressedArray(SparseArray):
    """Compressed rows or columns of (batches of) matrices, with single values or blocks.

    `compressed` (*batch, rows + 1) holds the start of each row or column in `plain`
    (*batch, nnz) and `values` (*batch, nnz, [*block,] *dense axes).
    """

    __slots__ = ("compressed", "layout", "plain")

    def __init__(
        self, form: layout, compressed: np.ndarray, plain: np.ndarray, values: np.ndarray,
        shape: tuple[int, ...],
    ) -> None:
        self.layout, self.compressed, self.plain = form, compressed, plain
        self.values, self.shape = values, tuple(shape)

    @property
    def by_row(self) -> bool:
        """Whether rows are compressed."""
        return COMPRESSED[self.layout][0]

    @property
    def blocked(self) -> bool:
        """Whether the values are blocks."""
        return COMPRESSED[self.layout][1]

    @property
    def batch_dim(self) -> int:
        """The number of leading batch axes."""
        return self.compressed.ndim - 1

    @property
    def dense_dim(self) -> int:
        """The number of trailing dense axes."""
        return self.values.ndim - self.batch_dim - (3 if self.blocked else 1)

    @property
    def block(self) -> tuple[int, int]:
        """The shape of a block, (1, 1) for single values."""
        if not self.blocked:
            return 1, 1
        at = self.batch_dim + 1
        rows, columns = self.values.shape[at : at + 2]
        return rows, columns

    @property
    def nnz(self) -> int:
        """The number of values or blocks stored per matrix."""
        return self.plain.shape[-1]

    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """Return `compressed` and `plain` with all batches along one axis."""
        count = math.prod(self.shape[: self.batch_dim])
        return (self.compressed.reshape(count, self.compressed.shape[-1]),
                self.plain.reshape(count, self.nnz))

    def like(self, values: np.ndarray) -> CompressedArray:
        """Return an array with other values at the same places."""
        return CompressedArray(self.layout, self.compressed, self.plain, values, self.shape)


def _create_refusal(error: type[Exception], text: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(text)

    return method


_NO_POINTER = "Cannot access data pointer of Tensor that doesn't have storage"


@prints_as_tensor
class SparseTensor(Tensor):
    """A tensor whose window is a SparseArray. Its methods come from `ops/sparse`."""

    __slots__ = ()

    @property
    def layout(self) -> layout:
        """The layout, such as `torch.sparse_coo`."""
        array: Any = self._array
        form: layout = array.layout
        return form

    @property
    def device(self) -> device:
        """The device of its parts."""
        array: Any = self._array
        return META if array.on_meta else CPU

    def _alias(self, cls: type | None = None) -> Tensor:
        return Tensor._alias(self, SparseTensor if cls is None else cls)

    @property
    def data(self) -> Tensor:
        """The same values, outside the graph."""
        return wrap_sparse(self._array)

    @data.setter
    def data(self, value: Tensor) -> None:
        self._array = value._array

    def _is_view(self) -> bool:
        return False

    def _owned(self, shared: bool) -> Tensor:
        """Return a cotangent for use as a leaf's grad: a copy if it is `shared`."""
        array: Any = self._array
        if shared or not isinstance(array, CooArray) or not (
            array.indices.flags.c_contiguous and array.values.flags.c_contiguous
        ):
            return self.clone()
        return wrap_sparse(CooArray(array.indices, array.values, array.shape))

    # mypy rejects keyword arguments added to special methods.
    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        if tensor_contents is not None:
            return format_tensor(self, tensor_contents=tensor_contents)
        array: Any = self._array
        if isinstance(array, CooArray):
            parts = {"indices": array.indices}
        else:
            first, second = ("crow", "col") if array.by_row else ("ccol", "row")
            parts = {f"{first}_indices": array.compressed, f"{second}_indices": array.plain}
        text = format_sparse(self, {**parts, "values": array.values}, array.nnz)
        return f"Parameter containing:\n{text}" if self.__dict__.get("_is_param") else text

    is_sparse = property(lambda self: self.layout is sparse_coo)
    is_sparse_csr = property(lambda self: self.layout is sparse_csr)
    is_cpu = property(lambda self: self.device == CPU)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return False for a COO tensor; raise RuntimeError for the compressed layouts."""
        if self.layout is not sparse_coo:
            raise RuntimeError(f"Sparse {self._short_layout()} tensors do not have is_contiguous")
        return False

    def _short_layout(self) -> str:
        return self.layout.name.removeprefix("sparse_").upper()

    def storage_offset(self) -> int:
        """Return 0: it has no storage."""
        return 0

    def stride(self, dim: int | None = None) -> Any:
        """Return zeros for a COO tensor; raise RuntimeError for the compressed layouts."""
        if self.layout is not sparse_coo:
            raise RuntimeError(f"Sparse {self._short_layout()} tensors do not have strides")
        return 0 if dim is not None else (0,) * self._array.ndim

    @property
    def nbytes(self) -> int:
        """Raise RuntimeError: only its parts have bytes."""
        raise RuntimeError(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent "
            "tensors, add the nbytes of the indices and values.  If you want the size of the  "
            "equivalent dense tensor, multiply numel() by element_size()"
        )

    def _numpy(self, *, force: bool = False) -> Any:
        """Raise TypeError: call `to_dense()` first."""
        name = "Sparse" if self.layout is sparse_coo else str(self.layout).removeprefix("torch.")
        raise TypeError(f"can't convert {_LAYOUT_NAMES.get(name, name)} layout tensor to numpy. "
                        "Use Tensor.to_dense() first.")

    def untyped_storage(self) -> NoReturn:
        """Raise NotImplementedError: only its parts have storages."""
        kind = "SparseTensorImpl" if self.layout is sparse_coo else "SparseCsrTensorImpl"
        raise NotImplementedError(f"Cannot access storage of {kind}")

    storage = untyped_storage
    data_ptr = tolist = _create_refusal(RuntimeError, _NO_POINTER)

    def item(self) -> Any:
        """Return the only element as a Python number; RuntimeError if there are more or none."""
        array: Any = self._array
        if array.size != 1:
            raise RuntimeError(
                f"a Tensor with {array.size} elements cannot be converted to Scalar")
        if array.on_meta and not array.nnz:
            return array.dtype.type(0).item()
        return wrap(array.values.sum()).item()

    def __len__(self) -> int:
        if not self._array.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def is_shared(self) -> bool:
        """Return False; its parts may be shared."""
        return False

    def is_same_size(self, other: Tensor) -> bool:
        """Return whether both have the same shape."""
        return self._array.shape == other._array.shape

    @property
    def shape(self) -> Size:
        """The length of each axis, sparse axes first."""
        return Size(self._array.shape)


_methods: Any = SparseTensor
_methods.numpy = _methods.__array__ = SparseTensor._numpy
SparseTensor.__name__ = SparseTensor.__qualname__ = "Tensor"
SparseTensor.__module__ = Tensor.__module__
_LAYOUT_NAMES = {"sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc", "sparse_bsr": "SparseBsr",
                 "sparse_bsc": "SparseBsc"}


def layout_name(form: layout) -> str:
    """Return the name of a layout in PyTorch's messages."""
    if form is sparse_coo:
        return "Sparse"
    return _LAYOUT_NAMES.get(form.name, "Strided")


class Created:
    """Callbacks: `first` when the first sparse tensor is created, `used` before an operator runs.

    `ops/sparse/dispatch.py` sets `first`, a compiler's capture sets `used`.
    """

    first: Any = None
    used: Any = None


def wrap_sparse(array: Any) -> SparseTensor:
    """Wrap `array` in a sparse tensor: a leaf that does not require grad."""
    if Created.first is not None:
        first, Created.first = Created.first, None
        first()
    result: SparseTensor = object.__new__(SparseTensor)
    result._array = array
    result._requires_grad = result._tracked = False
    result._node = result._grad = result._counter = result._base = None
    result._stamp = creation.stamp
    return result


def wrap_any(array: Any) -> Tensor:
    """Wrap a dense or sparse array in a tensor."""
    return wrap_sparse(array) if isinstance(array, SparseArray) else wrap(array)
