"""Padding and packing of sequences of different lengths."""

from __future__ import annotations

import pytest


@pytest.fixture
def rnn(nn):
    return nn.utils.rnn


@pytest.fixture
def sequences(torch):
    """Three sequences, the longest first: 1 2 3, 4 5, 6."""
    return [torch.tensor(v) for v in ([1.0, 2.0, 3.0], [4.0, 5.0], [6.0])]


def test_pad_sequence(torch, rnn, sequences):
    rows = rnn.pad_sequence(sequences, batch_first=True)
    assert rows.tolist() == [[1, 2, 3], [4, 5, 0], [6, 0, 0]]
    assert rnn.pad_sequence(sequences).tolist() == [[1, 4, 6], [2, 5, 0], [3, 0, 0]]
    for s in sequences:
        s.requires_grad_()
    assert rnn.pad_sequence(sequences, True).tolist() == rows.tolist()
    assert rnn.pad_sequence(sequences, padding_side="left")[0].tolist() == [1, 0, 0]
    left = rnn.pad_sequence(sequences, True, padding_value=-1, padding_side="left")
    assert left.tolist() == [[1, 2, 3], [-1, 4, 5], [-1, -1, 6]]
    wide = rnn.pad_sequence([torch.ones(2, 4), torch.ones(1, 4)])
    assert wide.shape == (2, 2, 4)
    assert wide[1, 1].tolist() == [0.0] * 4


def test_pad_sequence_is_differentiable(torch, rnn):
    a, b = (torch.ones(n, requires_grad=True) for n in (3, 1))
    (rnn.pad_sequence([a, b]) * torch.arange(6.0).reshape(3, 2)).sum().backward()
    assert a.grad.tolist() == [0.0, 2.0, 4.0]
    assert b.grad.tolist() == [1.0]


def test_pad_sequence_refusals(torch, rnn, sequences):
    with pytest.raises(RuntimeError, match="Expected iterable for input sequences"):
        rnn.pad_sequence(3)
    with pytest.raises(RuntimeError, match="received an empty list of sequences"):
        rnn.pad_sequence([])
    with pytest.raises(RuntimeError, match="Expected padding_side to be one of left or right"):
        rnn.pad_sequence(sequences, padding_side="up")
    with pytest.raises(RuntimeError, match="must match"):
        rnn.pad_sequence([torch.ones(2, 3), torch.ones(1, 4)])


def test_unpad(torch, rnn, sequences):
    for batch_first in (True, False):
        padded = rnn.pad_sequence(sequences, batch_first)
        actual = rnn.unpad_sequence(padded, torch.tensor([3, 2, 1]), batch_first)
        assert [s.tolist() for s in actual] == [s.tolist() for s in sequences]


def test_pack_and_unpack(rnn, sequences):
    packed = rnn.pack_sequence(sequences)
    assert isinstance(packed, rnn.PackedSequence)
    assert packed.data.tolist() == [1, 4, 6, 2, 5, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices is packed.unsorted_indices is None
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [[1, 2, 3], [4, 5], [6]]


def test_unsorted(rnn, sequences):
    packed = rnn.pack_sequence([sequences[i] for i in (1, 2, 0)], enforce_sorted=False)
    assert packed.data.tolist() == [1, 4, 6, 2, 5, 3]
    assert packed.sorted_indices.tolist() == [2, 0, 1]
    assert packed.unsorted_indices.tolist() == [1, 2, 0]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [[4, 5], [6], [1, 2, 3]]
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1)
    assert padded.tolist() == [[4, 5, -1], [6, -1, -1], [1, 2, 3]]
    assert lengths.tolist() == [2, 1, 3]


def test_pack_padded(torch, rnn):
    x = torch.arange(24.0).reshape(2, 4, 3)
    first = rnn.pack_padded_sequence(x, [3, 1], batch_first=True)
    second = rnn.pack_padded_sequence(x.transpose(0, 1), torch.tensor([3, 1]))
    assert first.data.tolist() == second.data.tolist() == x[[0, 1, 0, 0], [0, 0, 1, 2]].tolist()
    assert first.batch_sizes.tolist() == [2, 1, 1]
    assert first.batch_sizes.dtype == torch.int64
    padded, lengths = rnn.pad_packed_sequence(first, total_length=5)
    assert padded.shape == (5, 2, 3)
    assert lengths.tolist() == [3, 1]
    assert padded[3:].abs().sum() == 0


def test_packing_is_differentiable(torch, rnn):
    x = torch.ones(3, 2, requires_grad=True)
    packed = rnn.pack_padded_sequence(x, [3, 2])
    padded, _ = rnn.pad_packed_sequence(packed)
    (padded * torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]]


def test_refusals(torch, rnn, sequences):
    x = torch.ones(3, 2)
    pack = rnn.pack_padded_sequence
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order when"):
        pack(x, [1, 3])
    with pytest.raises(RuntimeError, match="Length of all samples has to be greater than 0"):
        pack(x, [3, 0])
    with pytest.raises(RuntimeError, match=r"Expected `len\(lengths\)` to be equal to batch_size"):
        pack(x, [3, 2, 1])
    with pytest.raises(ValueError, match="Expected total_length to be at least the length"):
        rnn.pad_packed_sequence(rnn.pack_sequence(sequences), total_length=2)


def test_conversions(torch, rnn, sequences):
    packed = rnn.pack_sequence(sequences[::-1], enforce_sorted=False)
    assert packed.to("cpu") is packed
    double = packed.double()
    assert double.data.dtype == torch.float64
    assert double.sorted_indices.tolist() == [2, 1, 0]
    assert packed.long().data.dtype == torch.int64
    assert not packed.is_cuda
    assert packed.cpu() is packed


def test_packed_is_a_tuple(rnn, sequences):
    data, sizes, order, unorder = rnn.pack_sequence(sequences)
    again = rnn.PackedSequence(data, sizes, order, unorder)
    assert again.batch_sizes is sizes
    assert rnn.PackedSequence((data, sizes)).data is data


def test_invert_permutation(torch, rnn):
    assert rnn.invert_permutation(torch.tensor([2, 0, 1])).tolist() == [1, 2, 0]
    assert rnn.invert_permutation(None) is None


def test_lengths_beyond_the_padding_are_refused(own):
    with pytest.raises(RuntimeError, match="got 3 time steps and length 4"):
        own.nn.utils.rnn.pack_padded_sequence(own.ones(3, 2), [4, 1])


def test_empty_tensors_are_refused_before_their_lengths(own):
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        own.nn.utils.rnn.pack_padded_sequence(own.ones(0, 1, 10), own.ones(2, 2))
