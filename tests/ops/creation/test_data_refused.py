"""Data, devices and settings that constructors refuse, in PyTorch's words; what DLPack carries."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import flambeau as torch


class Sequence:
    """Something with a length and items."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Broken(Sequence):
    def __getitem__(self, i):
        raise TypeError("no items")


def test_sequences_of_any_kind():
    assert torch.tensor(Sequence(1.0, 2.0)).tolist() == [1, 2]
    with pytest.raises(ValueError, match="could not determine the shape of object type 'Broken'"):
        torch.tensor(Broken(1.0))


@pytest.mark.parametrize("data, inferred, real, integer", [
    ((np.ones(2, "float32"), {}), "RuntimeError: Could not infer dtype of dict",
     "ValueError: expected sequence of length 2 at dim 1 (got 0)",
     "TypeError: 'numpy.float32' object cannot be interpreted as an integer"),
    ([[1, 2], 3], "TypeError: not a sequence", "TypeError: not a sequence",
     "TypeError: not a sequence"),
    ([[1, 2], None], "RuntimeError: Could not infer dtype of NoneType",
     "TypeError: not a sequence", "TypeError: not a sequence"),
    ([[1, 2], "ab"], "TypeError: new(): invalid data type 'str'",
     "TypeError: must be real number, not str",
     "TypeError: 'str' object cannot be interpreted as an integer"),
    ([1, [2]], "TypeError: 'list' object cannot be interpreted as an integer",
     "TypeError: must be real number, not list",
     "TypeError: 'list' object cannot be interpreted as an integer"),
    ([{}], "RuntimeError: Could not infer dtype of dict",
     "TypeError: must be real number, not dict",
     "TypeError: 'dict' object cannot be interpreted as an integer"),
    ([[[1], [2]], [3, 4]], *["TypeError: not a sequence"] * 3),
    ([[1, 2], torch.tensor([3, 4, 5])],
     *["ValueError: expected sequence of length 2 at dim 1 (got 3)"] * 3),
    ([[1, 2], {3: 0, 4: 0}], "RuntimeError: Could not infer dtype of dict",
     [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    ([Decimal("1.5")], "RuntimeError: Could not infer dtype of decimal.Decimal", [1.5],
     "TypeError: 'decimal.Decimal' object cannot be interpreted as an integer"),
    ([Fraction(1, 2), 1], "RuntimeError: Could not infer dtype of Fraction", [0.5, 1],
     "TypeError: 'Fraction' object cannot be interpreted as an integer"),
    ([[1, 2], torch.tensor([3, 4])], *[[[1, 2], [3, 4]]] * 3),
    ([[], 1], *[[[], []]] * 3),
])
def test_data_of_several_shapes_and_classes(data, inferred, real, integer):
    """Without a dtype the classes of all items count, with one each item is converted alone."""
    calls = [("tensor", inferred, {}), ("tensor", real, {"dtype": torch.float32}),
             ("tensor", integer, {"dtype": torch.int64}), ("FloatTensor", real, {}),
             ("LongTensor", integer, {}), ("Tensor", real, {})]
    for name, expected, settings in calls:
        try:
            result = getattr(torch, name)(data, **settings).tolist()
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        assert result == expected, name


def test_irregular_lists_in_themselves():
    data: list = [0, [1]]
    data.append(data)
    with pytest.raises(TypeError, match="self-referential lists are incompatible"):
        torch.tensor(data)


def test_lists_in_themselves():
    data: list = [0]
    data.append(data)
    for value in (data, [[1, 2], data]):
        with pytest.raises(TypeError, match="self-referential lists are incompatible"):
            torch.tensor(value)


def test_lists_in_themselves_after_vmap():
    """The stubs that a vmap leaves behind for a while do not search the data of `tensor`."""
    torch.vmap(lambda x: x + 1)(torch.ones(3))
    test_lists_in_themselves()


@pytest.mark.parametrize("make", [
    lambda: torch.ones(2, dtype=torch.int64, requires_grad=True),
    lambda: torch.ones(2).int().new_empty(2, requires_grad=True),
    lambda: torch.full((2,), 1, requires_grad=True),
    lambda: torch.tensor([1], requires_grad=True),
])
def test_integers_require_no_grad(make):
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can"):
        make()


def test_devices_of_legacy_constructors():
    for make in (lambda: torch.FloatTensor(device="cuda"), lambda: torch.Tensor((2.0,), device=0),
                 lambda: torch.ones(1).new((2.0,), device="cuda")):
        with pytest.raises(RuntimeError, match="expects device type: cpu but device type: cuda"):
            make()
    x = torch.ones(1)
    for make in (lambda: torch.Tensor(x, device="cpu"), lambda: x.new(x, device="cpu")):
        with pytest.raises(RuntimeError, match="is not supported"):
            make()


def test_the_storage_type_is_that_of_the_default_dtype():
    assert torch.Storage is torch.FloatStorage
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Storage is torch.DoubleStorage
    finally:
        torch.set_default_dtype(torch.float32)


def test_negative_repeats():
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([-1, 2]))


def test_strides_without_elements():
    for strides in ((12, 4, 1), (2, 4, 6)):
        assert torch.empty(0).as_strided((0, 2, 0), strides).stride() == strides


def test_bfloat16_over_dlpack_shares_memory():
    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    capsule = torch.utils.dlpack.to_dlpack(x.t())
    y = torch.utils.dlpack.from_dlpack(capsule)
    assert y.dtype is torch.bfloat16 and torch.equal(y, x.t()) and y.stride() == (1, 3)
    y[0, 0] = 9
    assert x[0, 0] == 9

    class Other:
        def __dlpack__(self):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return 1, 0

    assert torch.from_dlpack(Other()).data_ptr() == x.data_ptr()
    assert torch.from_dlpack(np.arange(3)).tolist() == [0, 1, 2]
    assert x._array.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "meta"])
def test_cuda_takes_no_other_device(device):
    with pytest.raises(RuntimeError, match="^Invalid device, must be cuda device$"):
        torch.ones(2).cuda(device)
    with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
        torch.nn.Linear(1, 1).cuda(device)
