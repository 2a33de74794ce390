"""NestedTensor: a tensor in jagged layout, rows of different lengths packed along one axis.

`_values` has all axes except the batch; `_offsets` holds each row's start along the ragged axis,
`_lengths` its length if there are gaps between rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, ClassVar

from .. import ops
from ..tensor.devices import device as Device
from ..tensor.layout import contiguous_format, jagged
from ..tensor.size import Size
from ..tensor.symbolic_length import SymInt
from ..tensor.tensor import Tensor
from .packing import pack
from .ragged_tensor import SHARED, RaggedTensor, Rules

_numbers = itertools.count()
_LENGTH = "_flambeau_ragged_length"  # caches the symbolic length of an offsets tensor


def get_tensor_symint(tensor: Tensor, *, coeff: int = 1) -> SymInt:
    """Return the symbolic length of an offsets tensor, the same for the same tensor."""
    length = tensor.__dict__.get(_LENGTH)
    if length is None:
        length = tensor.__dict__[_LENGTH] = SymInt(next(_numbers))
    return length if coeff == 1 else length * coeff


def share_symint(old: Tensor, new: Tensor) -> None:
    """Make copied offsets represent the same symbolic lengths."""
    new.__dict__[_LENGTH] = get_tensor_symint(old)


class NestedTensor(RaggedTensor):
    """A nested tensor in jagged layout: `(batch, *, ...)` with one ragged axis.

    >>> nt = torch.nested.nested_tensor([[1.], [2., 3.]], layout=torch.jagged)
    >>> nt.values(), nt.offsets()
    (tensor([1., 2., 3.]), tensor([0, 1, 3]))
    """

    RULES: ClassVar[Rules] = SHARED.copy()
    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    _metadata_cache: dict[str, int]

    @staticmethod
    def __new__(
        cls: Any, values: Tensor, offsets: Tensor, *, lengths: Tensor | None = None,
        _ragged_idx: int = 1, _metadata_cache: dict[str, int] | None = None,
        requires_grad: bool = False,
    ) -> Any:
        """Create rows of `values` along axis `_ragged_idx - 1`."""
        _check_parts(values, offsets, lengths)
        ragged = get_tensor_symint(offsets if lengths is None else lengths)
        r = _ragged_idx - 1
        shape = tuple(values.shape)
        inner = (*shape[:r], ragged, *shape[r + 1:])
        result = cls._new(values, (offsets.shape[0] - 1, *inner))
        result._offsets, result._lengths, result._ragged_idx = offsets, lengths, _ragged_idx
        result._metadata_cache = {} if _metadata_cache is None else _metadata_cache
        if requires_grad:
            values.requires_grad_()
        return result

    def _build_like(self, values: Tensor, ragged_idx: int | None = None) -> Any:
        """Return the rows of `self` on other values, possibly with another ragged axis."""
        result = NestedTensor(
            values, self._offsets, lengths=self._lengths, _metadata_cache=self._metadata_cache,
            _ragged_idx=self._ragged_idx if ragged_idx is None else ragged_idx)
        base = values._base
        if base is not None and (base is self._values or base is self._values._base):
            result.__dict__["_viewed"] = self if self._base is None else self._base
        return result

    def _operands(self, name: str, values: Iterable[Any]) -> list[Any]:
        """Convert an elementwise function's arguments for use with the values of `self`."""
        return [self._prepare_operand(name, v) if isinstance(v, Tensor) else _check_operand(name, v)
                for v in values]

    def _prepare_operand(self, name: str, x: Tensor) -> Tensor:
        if isinstance(x, NestedTensor):
            if x is not self and not has_same_ragged_sizes(self, x._size):
                raise _build_mismatch_error(name, self, x)
            return x._values
        if x.dim() > self.dim():
            raise NotImplementedError("NYI: broadcasting NT with T with larger dim")
        trimmed = x
        while trimmed.dim() > 0 and trimmed.shape[0] == 1:
            trimmed = trimmed.squeeze(0)
        if self.dim() >= trimmed.dim() + 2:
            return trimmed
        if x.dim() != self.dim() or x.shape[0] != self.shape[0]:
            raise _build_mismatch_error(name, self, x)
        return pack(self, x)

    # ---------------------------------------------------------------------------- properties

    _size = property(lambda self: self._array.shape)
    layout = property(lambda self: jagged)

    @property
    def _strides(self) -> tuple:
        """The batch stride, followed by the values' strides."""
        strides = self._values.stride()
        return (self._size[self._ragged_idx] * strides[self._ragged_idx - 1], *strides)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length along `dim`."""
        return Size(self._size) if dim is None else self._size[self.axis(dim)]

    def stride(self, dim: int | None = None) -> Any:
        """The strides, or the stride along `dim`."""
        return self._strides if dim is None else self._strides[self.axis(dim)]

    def numel(self) -> int:
        """Return the number of elements, without gaps."""
        if self._lengths is None:
            return self._values.numel()
        inner_sizes = (*self._size[1:self._ragged_idx], *self._size[self._ragged_idx + 1:])
        return int(self._lengths.sum().item()) * math.prod(inner_sizes)

    nelement = numel

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Return whether the values are contiguous and without gaps."""
        return self._lengths is None and self._values.is_contiguous(memory_format)

    def storage_offset(self) -> int:
        """The offset of the values in their storage, in elements."""
        return self._values.storage_offset()

    def data_ptr(self) -> int:
        """The address of the values."""
        return self._values.data_ptr()

    def untyped_storage(self) -> Any:
        """The memory of the values."""
        return self._values.untyped_storage()

    # ------------------------------------------------------------------------------- its parts

    def values(self) -> Tensor:
        """Return a view of the packed values."""
        return self._values.view_as(self._values)

    def offsets(self) -> Tensor:
        """The start of each row, and the end of the last."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """The length of each row; None if rows have no gaps between them."""
        return self._lengths

    def measure_rows(self) -> Tensor:
        """Return the length of each row."""
        return self._offsets.diff() if self._lengths is None else self._lengths

    def _find_extreme(self, name: str) -> int:
        length = self._metadata_cache.get(name)
        if length is None:
            rows = self.measure_rows()
            length = int((rows.max() if name == "max_seqlen" else rows.min()).item())
            self._metadata_cache[name] = length
        return length

    def _get_max_seqlen(self) -> int:
        """The longest row's length."""
        return self._find_extreme("max_seqlen")

    def _get_min_seqlen(self) -> int:
        """The shortest row's length."""
        return self._find_extreme("min_seqlen")

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)
    _maybe_max_seqlen = property(lambda self: self._metadata_cache.get("max_seqlen"))
    _maybe_min_seqlen = property(lambda self: self._metadata_cache.get("min_seqlen"))

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        note = ""
        if self.grad_fn is not None:
            note = f", grad_fn={self.grad_fn}"
        elif self.requires_grad:
            note = f", requires_grad={self.requires_grad}"
        sizes = f"({', '.join(map(str, self._size))})"
        return (f"NestedTensor(size={sizes}, offsets={self._offsets}{note}, "
                f"contiguous={self.is_contiguous()})")

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __tensor_flatten__(self) -> tuple[list[str], dict[str, Any]]:
        """Return the names of the inner tensors, and the remaining state."""
        inner = ["_values", "_offsets", *([] if self._lengths is None else ["_lengths"])]
        return inner, {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Reduce to parts for pickle; known row lengths are stored as lengths of empty tensors."""
        bounds = {name: ops.empty((length, 0)) for name, length in self._metadata_cache.items()}
        return _rebuild_njt, ({
            "values": self._values, "offsets": self._offsets, "lengths": self._lengths,
            "_ragged_idx": self._ragged_idx, "_metadata_cache": bounds,
            "requires_grad": self.requires_grad,
        },)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = self._build_like(self._values.__deepcopy__(memo))
        memo[id(self)] = result
        return result


def _rebuild_njt(state: dict[str, Any]) -> NestedTensor:
    """Rebuild a tensor from the parts of `__reduce_ex__`."""
    state = dict(state)
    needs_grad = state.pop("requires_grad")
    bounds = state.pop("_metadata_cache") or {}
    lengths = {name: x.shape[0] for name, x in bounds.items()}
    result = NestedTensor(**state, _metadata_cache=lengths)
    if needs_grad and not result.requires_grad:
        result._values.requires_grad_()
    return result


# Files refer to it by PyTorch's path.
_rebuild_njt.__module__ = "flambeau.nested._internal.nested_tensor"


def has_same_ragged_sizes(nt: NestedTensor, size: Iterable[Any]) -> bool:
    """Return whether a size matches the tensor up to its ragged axis; -1 matches anything."""
    end = nt._ragged_idx + 1
    sizes, expected = nt._size[:end], tuple(size)[:end]
    return len(sizes) == len(expected) and all(
        a == b or (not isinstance(b, SymInt) and b == -1)
        for a, b in zip(sizes, expected, strict=True))


def _build_mismatch_error(name: str, a: NestedTensor, b: Tensor) -> RuntimeError:
    base_name = name.strip("_")
    shapes = [tuple(x._array.shape) for x in (a, b)]
    error = RuntimeError(f"cannot call binary pointwise function {base_name}.Tensor with inputs of "
                         f"shapes {shapes[0]} and {shapes[1]}")
    if isinstance(b, NestedTensor):
        error.add_note("Rows are the same only where both tensors have one and the same tensor of "
                       "offsets: build the second with nested_tensor_from_jagged(values, "
                       "first.offsets()).")
    return error


def _check_operand(name: str, x: Any) -> Any:
    if isinstance(x, SymInt):
        raise RuntimeError(f"NestedTensor {name}.Tensor: invalid argument {x}")
    return x


def _check_parts(values: Tensor, offsets: Tensor, lengths: Tensor | None) -> None:
    if offsets is None or offsets.dim() != 1:
        raise AssertionError("offsets must not be None" if offsets is None else
                             f"offsets must be 1D, but got {offsets.dim()}D")
    if isinstance(values, NestedTensor):
        raise AssertionError("values must not be a NestedTensor")
    if lengths is not None and offsets.shape[0] - 1 != lengths.shape[0]:
        raise AssertionError(
            "offsets and lengths batch sizes must match: offsets.shape[0] - 1 = "
            f"{offsets.shape[0] - 1}, lengths.shape[0] = {lengths.shape[0]}")


# ------------------------------------------------------------------------------------- building


def view_jagged(
    values: Tensor, offsets: Tensor, lengths: Tensor | None = None, ragged_idx: int = 1,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> NestedTensor:
    """Create rows on a view of `values`."""
    bounds = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    result: NestedTensor = NestedTensor(
        values.view_as(values), offsets, lengths=lengths, _ragged_idx=ragged_idx,
        _metadata_cache={k: int(v) for k, v in bounds.items() if v is not None})
    return result


def jagged_from_list(
    tensors: list[Tensor], offsets: Tensor | None, dtype: Any = None,
    device: Device | str | None = None,
) -> tuple[NestedTensor, Tensor]:
    """Pack the tensors along the axis in which they differ; return the values and the offsets."""
    ragged = _find_ragged_axis(tensors)
    values = ops.cat(tensors, dim=ragged).to(**_collect_settings(device, dtype))
    rows = [t.shape[ragged] for t in tensors]
    if offsets is None:
        offsets = ops.tensor([0, *itertools.accumulate(rows)], device=values.device)
    result = view_jagged(values, offsets, ragged_idx=ragged + 1, min_seqlen=min(rows),
                         max_seqlen=max(rows))
    return result, offsets


def _collect_settings(device: Any, dtype: Any) -> dict[str, Any]:
    return {k: v for k, v in (("device", device), ("dtype", dtype)) if v is not None}


def _find_ragged_axis(tensors: list[Tensor]) -> int:
    """Return the axis in which the tensors differ. Raises RuntimeError if they cannot be packed."""
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    requirement = "When constructing a nested tensor, all tensors in list must "
    if len({t.dtype for t in tensors}) != 1:
        raise RuntimeError(requirement + "have the same dtype")
    if len({str(t.device) for t in tensors}) != 1:
        raise RuntimeError(requirement + "be on the same device")
    if len({t.dim() for t in tensors}) != 1:
        raise RuntimeError(requirement + "have the same dim")
    if tensors[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [d for d in range(tensors[0].dim()) if len({t.shape[d] for t in tensors}) > 1]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. "
            "Note that the jagged layout only allows for a single ragged dimension. "
            "For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim.")
    return ragged[0] if ragged else 0


def jagged_from_tensor_and_lengths(
    tensor: Tensor, starts: Tensor, lengths: Tensor
) -> tuple[NestedTensor, Tensor, Tensor | None]:
    """Nest one range per row along axis 1, as a view; also return offsets, lengths or None."""
    batch = tensor.shape[0]
    if any(tuple(x.shape) not in ((), (1,), (batch,)) for x in (starts, lengths)):
        raise RuntimeError(
            "When constructing a jagged nested tensor using narrow(), "
            "your start and length must be Tensors that broadcast to input.shape[0]")
    start_of, length_of = starts.expand(batch), lengths.expand(batch)
    if tensor.dim() < 2:
        raise AssertionError("tensor must at least be 2D for the nested narrow op to work")
    width = tensor.shape[1]
    begins = start_of + width * ops.arange(batch)
    offsets = ops.cat([begins, (begins[-1] + length_of[-1]).unsqueeze(0)])
    values = tensor.view(-1, *tensor.shape[2:])
    bounds: dict[str, Any] = {"min_seqlen": int(lengths.min().item()),
                              "max_seqlen": int(lengths.max().item())}
    gapless = not (
        bool(length_of[1:-1].ne(width).any()) or bool(offsets[1:-2].diff().ne(width).any())
        or int((offsets[0] + length_of[0]).item()) != width
    )
    if gapless:
        first, last = int(offsets[0].item()), int(offsets[-1].item())
        rows = offsets - offsets[0]
        return view_jagged(values[first:last], rows, **bounds), offsets, None
    return view_jagged(values, offsets, length_of, **bounds), offsets, length_of
