"""Numbers read from tensors, and sizes added to other objects."""

import math
import warnings

import pytest


def test_a_number_of_a_recorded_tensor_warns(torch):
    x = torch.tensor(2.0, requires_grad=True)
    torch.set_warn_always(True)
    try:
        for read in (float, complex, lambda x: math.pow(x, 3), lambda x: float(x * 2)):
            with pytest.warns(UserWarning, match="^Converting a tensor with requires_grad=True"):
                read(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (int(x), x.item(), float(x.detach()), f"{x.item():.0f}") == (2, 2.0, 2.0, "2")
            with torch.no_grad():
                assert float(x * 2) == 4.0
    finally:
        torch.set_warn_always(False)


def test_sizes_leave_addition_to_classes_that_define_it(torch):
    class Wildcard:
        def __radd__(self, other):
            return 42

    assert torch.Size([1, 2]) + Wildcard() == 42
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        torch.Size([1, 2]) + [3]  # noqa: RUF005


def test_scans_of_numbers_name_the_dim(torch):
    for name in ("cummax", "cummin"):
        with pytest.raises(IndexError, match=rf"{name}\(\): Expected reduction dim -1 or 0 for "):
            getattr(torch, name)(torch.tensor(1.0), 100)


def test_masks_that_overlap_what_they_fill_are_refused(torch):
    mask = torch.tensor([True, False, True])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        mask[1:].masked_fill_(mask[:-1], False)
    assert mask.masked_fill_(mask, False).tolist() == [False] * 3


def test_old_types_are_no_base_classes(torch):
    with pytest.raises(TypeError, match="type 'torch.FloatTensor' is not an acceptable base type"):
        type("Own", (torch.FloatTensor,), {})
