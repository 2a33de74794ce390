"""Tensors made like others: values, and how they lie."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import flambeau as torch

USED_TENSORS = {
    "rows": lambda: torch.randn(300, 400),
    "columns": lambda: torch.randn(300, 400).t(),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "both at once": lambda: torch.randn(4, 1, 1, 3).permute(0, 2, 3, 1)[:, :1],
    "stretched": lambda: torch.randn(3, 1).expand(3, 4),
    "half": lambda: torch.randn(3, 4).bfloat16(),
    "none": lambda: torch.randn(0, 4),
    "one": lambda: torch.tensor(2),
}


@pytest.mark.parametrize("make", USED_TENSORS.values(), ids=USED_TENSORS)
@pytest.mark.parametrize("options", [
    {}, {"dtype": torch.int32}, {"memory_format": torch.preserve_format},
    {"memory_format": torch.contiguous_format},
], ids=["plain", "dtype", "preserve", "contiguous"])
def test_zeros_like_clears_memory_that_was_used(make, options):
    x = make()
    for _ in range(3):  # what is freed is given out again
        torch.empty_like(x, **options).fill_(7)
        zeros = torch.zeros_like(x, **options)
        assert not np.asarray(zeros._array, np.float64).any()
        assert zeros.dtype == options.get("dtype", x.dtype)
        assert zeros.stride() == torch.empty_like(x, **options).stride()


def test_numbers_of_several_dtypes_are_promoted():
    half = torch.tensor(1.0, dtype=torch.bfloat16)
    double = torch.tensor(2.0, dtype=torch.float64)
    byte = torch.tensor(3, dtype=torch.uint8)
    for items, dtype in (
        ([half, half], torch.bfloat16), ([half, 1], torch.bfloat16), ([half, 1.5], torch.float32),
        ([half, double], torch.float64), ([[double], [1]], torch.float64),
        ([byte, True], torch.uint8), ([byte, 1], torch.int64), ([double, 1j], torch.complex128),
        ([np.float64(1), 1], torch.float64), ([np.bool_(1), True], torch.bool),
        ([np.array([1.0]), [1]], torch.float64), ([np.int8(1), np.int16(2)], torch.int16),
    ):
        assert torch.tensor(items).dtype is dtype, items
        assert torch.as_tensor(items).dtype is dtype, items


def test_a_list_of_arrays_is_said_to_be_slow():
    with pytest.warns(UserWarning, match="list of numpy.ndarrays is extremely slow"):
        assert torch.tensor([np.array([0]), np.array([1])]).tolist() == [[0], [1]]


def test_legacy_constructors_take_every_sequence_for_data():
    for data in (range(3), (0, 1, 2), collections.deque([0, 1, 2]), memoryview(b"\0\1\2")):
        assert torch.LongTensor(data).tolist() == torch.Tensor(data).tolist() == [0, 1, 2]
        assert torch.ones(1).new(data).tolist() == [0, 1, 2]
    assert torch.LongTensor(torch.Size([2, 0])).shape == (2, 0) == torch.Tensor(2, 0).shape
    storage = torch.zeros(2).storage()
    torch.FloatTensor(storage)[0] = 3
    assert storage[0] == 3
    with pytest.raises(TypeError, match=r"new\(\): data must be a sequence \(got set\)"):
        torch.Tensor({1, 2})
    with pytest.raises(TypeError, match=r"new\(\): invalid data type 'str'"):
        torch.LongTensor("12")


def test_new_shares_a_storage(torch):
    x = torch.randn(2, 3)
    for storage in (x.storage(), x.untyped_storage()):
        y = torch.tensor([]).new(storage)
        assert y.shape == (6,) and y.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="Expected a Storage of type Float or an UntypedStorage"):
        torch.tensor([]).new(torch.tensor([1], dtype=torch.int32).storage())
