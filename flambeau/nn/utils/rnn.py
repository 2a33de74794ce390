"""Batches of sequences of different lengths: padded, and packed.

Padded is (time, batch, *), or (batch, time, *) with batch_first, with padding after each sequence's
end. Packed leaves out the padding and is ordered by time step: (sum of lengths, *).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ... import ops
from ...autograd import is_grad_enabled
from ...native.foundation.public_names import class_of
from ...tensor import Tensor, dtypes, wrap
from ...tensor.capture_marks import may_write_arrays
from ...tensor.layout import contiguous_format

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]


class PackedSequence_(NamedTuple):
    """The fields of a PackedSequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences without padding: `data` (sum of lengths, *), and the batch size at each time step.

    Created by `pack_sequence` and `pack_padded_sequence`. `sorted_indices` lists which sequence of
    the batch comes first, second, ...; `unsorted_indices` undoes that.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def pin_memory(self) -> PackedSequence:
        """Copy to page-locked memory."""
        data, sizes, *indices = self
        pinned = [None if t is None else t.pin_memory() for t in indices]
        return type(self)(data.pin_memory(), sizes, *pinned)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Convert the data to another dtype or device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if t is None else t.to(data.device) for t in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs} if not args else kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs} if not args else kwargs)

    def double(self) -> PackedSequence:
        """Cast the data to float64."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        """Cast the data to float32."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        """Cast the data to float16."""
        return self.to(dtype=dtypes.float16)

    def long(self) -> PackedSequence:
        """Cast the data to int64."""
        return self.to(dtype=dtypes.int64)

    def int(self) -> PackedSequence:
        """Cast the data to int32."""
        return self.to(dtype=dtypes.int32)

    def short(self) -> PackedSequence:
        """Cast the data to int16."""
        return self.to(dtype=dtypes.int16)

    def char(self) -> PackedSequence:
        """Cast the data to int8."""
        return self.to(dtype=dtypes.int8)

    def byte(self) -> PackedSequence:
        """Cast the data to uint8."""
        return self.to(dtype=dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation: 1-dim, int64.

    >>> nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = ops.empty_like(permutation)
    inverse.scatter_(0, permutation, ops.arange(0, permutation.numel(), device=permutation.device))
    return inverse


def _check_lengths(lengths: list[int], batch: int, time: int) -> None:
    """Raise RuntimeError unless there are `batch` decreasing lengths from 1 to `time`."""
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        )
    if not batch or not time:
        raise RuntimeError("Cannot pack empty tensors.")
    if not lengths or min(lengths) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any(a < b for a, b in pairwise(lengths)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if lengths[0] > time:
        raise RuntimeError(
            "Expected sequence length to be larger than or equal to the longest of `lengths`, got "
            f"{time} time steps and length {lengths[0]}"
        )


def _count_above(values: Any, stop: int) -> np.ndarray:
    """For each i in range(stop), count the values greater than i: converts lengths to batch sizes,
    and batch sizes to lengths.
    """
    return (np.asarray(values) > np.arange(stop)[:, None]).sum(1, dtype=np.int64)


def _locate_packed(sizes: np.ndarray, batch: int) -> Tensor:
    """The indices of the packed rows in a (time * batch, *) tensor."""
    return wrap(np.flatnonzero(np.arange(batch) < sizes[:, None]))


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack a padded batch (time, batch, *), or (batch, time, *) with batch_first.

    With `enforce_sorted` the lengths must be decreasing; without it they are sorted here.

    Raises RuntimeError for unsorted lengths with `enforce_sorted`, and for a length of 0.

    >>> batch = torch.tensor([[4, 5, 0], [1, 2, 3]])
    >>> packed = nn.utils.rnn.pack_padded_sequence(batch, [2, 3], True, enforce_sorted=False)
    >>> packed.data, packed.sorted_indices
    (tensor([1, 4, 2, 5, 3]), tensor([1, 0]))
    """
    if isinstance(lengths, Tensor):
        lengths = lengths.to(dtype=dtypes.int64)
        if not input.numel():
            raise RuntimeError("Cannot pack empty tensors.")
        if lengths.device.type != "cpu" or lengths.dim() != 1:
            raise RuntimeError(
                "'lengths' argument should be a 1D CPU int64 tensor, but got "
                f"{lengths.dim()}D {lengths.device} Long tensor"
            )
    counted = ops.as_tensor(lengths, dtype=dtypes.int64, device="cpu")
    order = None
    if not enforce_sorted:
        counted, order = ops.sort(counted, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    counts = counted.tolist()
    if batch_first:
        input = input.transpose(0, 1)
    _check_lengths(counts, input.shape[1], input.shape[0])
    sizes = _count_above(counts, counts[0])
    flat = input[: counts[0]].reshape(-1, *input.shape[2:])  # (time * batch, *)
    data = flat.index_select(0, _locate_packed(sizes, len(counts)))
    return PackedSequence(data, wrap(sizes), order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the padded batch and the lengths (batch,), in the order before packing.

    `total_length` pads to more time steps than the longest sequence has.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1)
    (tensor([[ 1,  2],
            [ 3, -1]]), tensor([2, 1]))
    """
    sizes = sequence.batch_sizes.numpy()
    time = len(sizes)
    if total_length is not None:
        if total_length < time:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {time}"
            )
        time = total_length
    batch, data = int(sizes[0]), sequence.data
    padding = data.new_full((time * batch, *data.shape[1:]), padding_value)
    flat = padding.index_copy(0, _locate_packed(sizes, batch), data)
    padded = flat.reshape(time, batch, *data.shape[1:])
    if batch_first:
        padded = padded.transpose(0, 1)
    lengths = wrap(_count_above(sizes, batch))
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack tensors (length, *) of different lengths into (time, batch, *).

    >>> nn.utils.rnn.pad_sequence([torch.ones(3), torch.ones(1)], batch_first=True)
    tensor([[1., 1., 1.],
            [1., 0., 0.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{class_of(sequences)}"
        )
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    lengths = np.array([s.shape[0] for s in sequences])
    needs_history = is_grad_enabled() and any(s.requires_grad for s in sequences)
    pad = _pad_by_operators if needs_history or not may_write_arrays() else _pad_array
    try:
        return pad(sequences, lengths, batch_first, padding_value, padding_side == "left")
    except (RuntimeError, ValueError):
        raise RuntimeError(
            "pad_sequence: the sizes of the sequences must match in all dimensions but the first, "
            f"got shapes {[tuple(s.shape) for s in sequences]}"
        ) from None


def _pad_array(
    sequences: tuple[Tensor, ...], lengths: np.ndarray, batch_first: bool, padding_value: float,
    at_left: bool,
) -> Tensor:
    """Write each sequence into a new array."""
    first = sequences[0]
    n, time = len(sequences), int(lengths.max())
    axes = (n, time) if batch_first else (time, n)
    padded = first.new_full((*axes, *first.shape[1:]), padding_value)
    rows = padded._array if batch_first else padded._array.swapaxes(0, 1)
    for row, sequence, length in zip(rows, sequences, lengths, strict=True):
        row[slice(time - length, None) if at_left else slice(length)] = sequence._array
    return padded


def _pad_by_operators(
    sequences: tuple[Tensor, ...], lengths: np.ndarray, batch_first: bool, padding_value: float,
    at_left: bool,
) -> Tensor:
    """Concatenate all elements and put them in place: two operators for any number of sequences."""
    n, time = len(sequences), int(lengths.max())
    row, step = np.nonzero(np.arange(time) < lengths[:, None])  # in the order of the elements
    if at_left:
        step += (time - lengths)[row]
    axes = (n, time) if batch_first else (time, n)
    positions = row * time + step if batch_first else step * n + row
    first = sequences[0]
    filler = first.new_full((n * time, *first.shape[1:]), padding_value)
    elements = ops.cat(sequences).to(first.dtype)
    return filler.index_copy(0, wrap(positions), elements).reshape(*axes, *first.shape[1:])


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Split a padded batch into sequences without padding.

    >>> batch = torch.tensor([[1, 2], [3, 0]])
    >>> nn.utils.rnn.unpad_sequence(batch, torch.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    rows = zip(padded_sequences, lengths.tolist(), strict=True)
    return [row[:n].clone(memory_format=contiguous_format) for row, n in rows]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors (length, *); with `enforce_sorted` the longest must come first.

    >>> nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).batch_sizes
    tensor([2, 1])
    """
    lengths = np.array([s.shape[0] for s in sequences])
    order = None if enforce_sorted else np.argsort(-lengths, kind="stable")
    falling = lengths if order is None else lengths[order]
    _check_lengths(falling.tolist(), len(sequences), int(lengths.max(initial=0)))
    starts = np.cumsum(lengths) - lengths  # the start of each sequence in the concatenation
    if order is not None:
        starts = starts[order]
    step, rank = np.nonzero(falling > np.arange(falling[0])[:, None])
    data = ops.cat(tuple(sequences)).index_select(0, wrap(starts[rank] + step))
    sizes = wrap(_count_above(falling, int(falling[0])))
    return PackedSequence(data, sizes, None if order is None else wrap(order), None)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the packed sequences in their original order.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2]), tensor([3])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), True)
