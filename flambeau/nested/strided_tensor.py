"""A nested tensor in strided layout: one buffer, and per row a size, strides and a start.

The rows need not agree in any axis. Rows are views of the buffer, so writes to them write to the
tensor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from .. import ops
from ..tensor.layout import compute_contiguous_strides, contiguous_format, strided
from ..tensor.tensor import Tensor
from .ragged_tensor import SHARED, RaggedTensor, Rules

Shape = tuple[int, ...]

# Operators on two nested tensors which copy them to one order first; others want equal strides.
_COPYING = frozenset(("add", "sub"))


class StridedNestedTensor(RaggedTensor):
    """A nested tensor in strided layout.

    >>> torch.nested.nested_tensor([[1.], [2., 3.]])
    nested_tensor([
      tensor([1.]),
      tensor([2., 3.])
    ])
    """

    RULES: ClassVar[Rules] = SHARED.copy()
    _flambeau_is_tensor = True  # for torch.overrides.has_torch_function
    _sizes: list[Shape]
    _row_strides: list[Shape]
    _starts: list[int]

    @staticmethod
    def __new__(
        cls: Any, values: Tensor, sizes: list[Shape], strides: list[Shape] | None = None,
        starts: list[int] | None = None,
    ) -> Any:
        """Rows of these sizes in a one-dimensional buffer, consecutive by default."""
        rank = len(sizes[0]) if sizes else 0
        columns = [set(column) for column in zip(*sizes, strict=True)]
        shape = (len(sizes), *[c.pop() if len(c) == 1 else -1 for c in columns])
        result = cls._new(values, shape if rank else (len(sizes),))
        result._sizes = sizes
        result._row_strides = [compute_contiguous_strides(n) for n in sizes] if strides is None \
            else strides
        result._starts = _compute_dense_starts(sizes) if starts is None else starts
        return result

    def _build_like(self, values: Tensor) -> Any:
        """Return the rows of `self` on another buffer."""
        return StridedNestedTensor(values, self._sizes, self._row_strides, self._starts)

    def view_rows(
        self, sizes: list[Shape], strides: list[Shape], starts: list[int] | None = None
    ) -> Any:
        """Return other rows on the same buffer: a view of `self`."""
        result = StridedNestedTensor(self._values, sizes, strides,
                                     self._starts if starts is None else starts)
        result.__dict__["_viewed"] = self if self._base is None else self._base
        return result

    def _operands(self, name: str, values: Iterable[Any]) -> list[Any]:
        """Convert arguments of an elementwise function: nested ones to their buffers."""
        operands = list(values)
        alone = not any(v is not self and isinstance(v, (Tensor, int, float, complex))
                        for v in operands if v.__class__ is not bool)
        if alone and not self.is_contiguous() and name not in ("clone", "to", "dropout", "type"):
            raise RuntimeError("NestedTensor must be contiguous to get buffer.")
        return [self._prepare_operand(name.strip("_"), v, v is operands[0]) if isinstance(v, Tensor)
                else v for v in operands]

    def _prepare_operand(self, name: str, x: Tensor, is_first: bool) -> Tensor:
        if not isinstance(x, StridedNestedTensor):
            if x.dim() == 0:
                return x
            forms = ("non-nested", "nested") if is_first else ("nested", "non-nested")
            raise RuntimeError(f"Expected both self and other to be nested, but got a {forms[0]} "
                               f"self and {forms[1]} other")
        if x is self:
            return x._values
        if self._sizes != x._sizes:
            raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
        if self._row_strides != x._row_strides:
            raise RuntimeError(f"{name} requires strides to match when given NestedTensors")
        if self._starts != x._starts:
            raise RuntimeError(f"{name} requires offsets to match when given NestedTensors")
        return x._values

    # ---------------------------------------------------------------------------- properties

    layout = property(lambda self: strided)

    @property
    def shape(self) -> Any:
        """Raise RuntimeError: rows have no common size."""
        return self.size()

    def size(self, dim: int | None = None) -> Any:
        """Return the length along `dim`. Raise RuntimeError if rows differ there, or without `dim`.
        """
        if dim is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please "
                               "file an issue.")
        axis = self.axis(dim)
        length = self._array.shape[axis]
        if length == -1:
            raise RuntimeError(f"Given dimension {axis} is irregular and does not have a size.")
        return length

    def stride(self, dim: int | None = None) -> Any:
        """Raise RuntimeError: rows have strides of their own."""
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file "
                           "an issue.")

    def numel(self) -> int:
        """Return how many elements there are."""
        return sum(map(math.prod, self._sizes))

    nelement = numel

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Return whether the rows are row-major and consecutive."""
        return self._starts == _compute_dense_starts(self._sizes) and \
            self._row_strides == [compute_contiguous_strides(n) for n in self._sizes]

    def data_ptr(self) -> int:
        """Return the address of the buffer."""
        return self._values.data_ptr()

    def untyped_storage(self) -> Any:
        """Return the memory of the buffer."""
        return self._values.untyped_storage()

    def storage_offset(self) -> int:
        """Return how many elements into its storage the buffer starts."""
        return self._values.storage_offset()

    def values(self) -> Tensor:
        """Return a view of the buffer."""
        return self._values.view_as(self._values)

    def _nested_tensor_size(self) -> Tensor:
        """Return the sizes of the rows, as an integer tensor."""
        return ops.tensor(self._sizes)

    def _nested_tensor_strides(self) -> Tensor:
        """Return the strides of the rows."""
        return ops.tensor(self._row_strides)

    def _nested_tensor_storage_offsets(self) -> Tensor:
        """Return the starts of the rows in the buffer."""
        return ops.tensor(self._starts)

    def rows(self) -> tuple[Tensor, ...]:
        """Return the rows, views of the buffer."""
        spans = [math.prod(n) for n in self._sizes]
        is_dense = self._starts == _compute_dense_starts(self._sizes)
        if is_dense and sum(spans) == self._values.numel():
            pieces = ops.split(self._values, spans) if spans else ()
            return tuple(
                piece.view(size) if strides == compute_contiguous_strides(size)
                else piece.as_strided(size, strides, piece.storage_offset())
                for piece, size, strides
                in zip(pieces, self._sizes, self._row_strides, strict=True))
        first = self._values.storage_offset()
        return tuple(
            self._values.as_strided(size, strides, first + start) for size, strides, start
            in zip(self._sizes, self._row_strides, self._starts, strict=True))

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        rows = ",\n".join(_indent(repr(row.detach())) for row in self.rows())
        note = ""
        if self.grad_fn is not None:
            note = f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            note = ", requires_grad=True"
        return f"nested_tensor([\n{rows}\n]{note})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Return what pickle keeps: the buffer and the rows' places in it."""
        return rebuild_strided, (self._values.detach(), self._sizes, self._row_strides,
                                 self._starts, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = self._build_like(self._values.__deepcopy__(memo))
        memo[id(self)] = result
        return result


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


def _compute_dense_starts(sizes: Sequence[Shape]) -> list[int]:
    return list(itertools.accumulate(map(math.prod, sizes), initial=0))[:-1]


def rebuild_strided(
    values: Tensor, sizes: list[Shape], strides: list[Shape], starts: list[int], needs_grad: bool
) -> StridedNestedTensor:
    """Rebuild a tensor from what `__reduce_ex__` returned."""
    result: StridedNestedTensor = StridedNestedTensor(values, sizes, strides, starts)
    if needs_grad:
        values.requires_grad_()
    return result


def strided_from_rows(rows: Sequence[Tensor], dtype: Any = None) -> StridedNestedTensor:
    """Copy the rows into a buffer, differentiably."""
    for i, (a, b) in enumerate(itertools.pairwise(rows)):
        if a.dim() != b.dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{b.dim()} for Tensor at index {i + 1} and dimension {a.dim()} for Tensor at "
                f"index {i}.")
    if rows:
        buffer = ops.cat([row.reshape(-1) for row in rows])
    else:
        buffer = ops.empty((0,), dtype=dtype)
    if dtype is not None:
        buffer = buffer.to(dtype)
    result: StridedNestedTensor = StridedNestedTensor(buffer, [tuple(r.shape) for r in rows])
    return result


def map_rows(
    function: Callable[..., Tensor], *tensors: Any, count: int | None = None
) -> StridedNestedTensor:
    """Apply a function to each row, or to the rows of several tensors side by side."""
    return strided_from_rows([function(*rows) for rows in
                              zip(*[x.unbind() for x in tensors], strict=True)])
