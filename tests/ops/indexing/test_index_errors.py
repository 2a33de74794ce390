"""Indices and values that do not fit: PyTorch's exceptions and texts."""

from __future__ import annotations

import pytest

CASES = [
    (lambda t, x: t.index_select(x, 1, t.tensor([5])), RuntimeError,
     "INDICES element is out of DATA bounds, id=5 axis_dim=3"),
    (lambda t, x: t.index_select(x, 0, t.tensor([5])), IndexError, "index out of range in self"),
    (lambda t, x: x.index_add_(1, t.tensor([-1]), t.ones(3, 1)), RuntimeError,
     "index -1 is out of bounds for dimension 1 with size 3"),
    (lambda t, x: x[0].index_add_(0, t.tensor([5]), t.ones(1)), IndexError,
     "index out of range in self"),
    (lambda t, x: x.index_copy(1, t.tensor([5]), t.ones(3, 1)), IndexError,
     "index_copy_(): index 5 is out of bounds for dimension 1 with size 3"),
    (lambda t, x: x.index_copy(1, t.tensor([1]), t.ones(2, 1)), RuntimeError,
     "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice "
     "shape: 3 at dimension 1 and source slice shape: 2 at dimension 0."),
    (lambda t, x: x.index_fill(1, t.tensor([-5]), 3), IndexError,
     "index -5 is out of bounds for dimension 1 with size 3"),
    (lambda t, x: x.put_(t.tensor([9]), t.ones(1)), IndexError,
     "out of range: tried to access index 9 on a tensor of 9 elements."),
    (lambda t, x: x.take(t.tensor([0, -12, 9])), IndexError,
     "out of range: tried to access index -12 on a tensor of 9 elements."),
    (lambda t, x: t.take_along_dim(x, t.zeros(3, 3), 0), RuntimeError,
     "torch.take_along_dim(): dtype of indices should be Long but got Float"),
    (lambda t, x: t.unravel_index(t.tensor([1]), (2.0, 3)), TypeError,
     "expected 'shape' sequence to only contain ints, but got <class 'float'>"),
    (lambda t, x: x[t.tensor([0, 1]), t.tensor([0, 1, 2])], IndexError,
     "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]"),
    (lambda t, x: x.__setitem__(x > 0, t.ones(2)), RuntimeError,
     "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result of "
     "shape [9]"),
    (lambda t, x: x.__setitem__(slice(2), t.ones(3, 3)), RuntimeError,
     "The expanded size of the tensor (2) must match the existing size (3) at non-singleton "
     "dimension 0.  Target sizes: [2, 3].  Tensor sizes: [3, 3]"),
    (lambda t, x: x.index_put_((t.tensor([0, 1]),), t.ones(1, 1, 3)), RuntimeError,
     "shape mismatch: value tensor of shape [1, 1, 3] cannot be broadcast to indexing result of "
     "shape [2, 3]"),
    (lambda t, x: x.index_put_((t.tensor([0, 1]),), t.ones(1, 1, 3), accumulate=True),
     RuntimeError, "shape mismatch: value tensor of shape [1, 1, 3] cannot be broadcast to "
     "indexing result of shape [2, 3]"),
    (lambda t, x: (x.requires_grad_() * 1).__setitem__(t.tensor([0, 1]), t.ones(2, 1, 3)),
     RuntimeError, "shape mismatch: value tensor of shape [2, 1, 3] cannot be broadcast to "
     "indexing result of shape [2, 3]"),
    (lambda t, x: x.__setitem__(0, t.ones(2, 3)), RuntimeError,
     "expand(torch.FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be "
     "greater or equal to the number of dimensions in the tensor (2)"),
    (lambda t, x: x.__setitem__(slice(2, 3), t.ones(1, 2, 3)), RuntimeError,
     "The expanded size of the tensor (1) must match the existing size (2) at non-singleton "
     "dimension 0.  Target sizes: [1, 3].  Tensor sizes: [2, 3]"),
    (lambda t, x: x.__setitem__(slice(2, 3), x[:2]), RuntimeError,
     "The expanded size of the tensor (1) must match the existing size (2) at non-singleton "
     "dimension 0.  Target sizes: [1, 3].  Tensor sizes: [2, 3]"),
    (lambda t, x: (x.requires_grad_() * 1).__setitem__(0, x[:2]), RuntimeError,
     "expand(torch.FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be "
     "greater or equal to the number of dimensions in the tensor (2)"),
    (lambda t, x: x.__setitem__((0, 0), t.ones(2)), RuntimeError,
     "expand(torch.FloatTensor{[2]}, size=[]): the number of sizes provided (0) must be "
     "greater or equal to the number of dimensions in the tensor (1)"),
    (lambda t, x: x.__delitem__(0), TypeError, "Tensor does not support deleting items"),
    (lambda t, x: t.masked_select(x, t.ones(3, 3, dtype=t.uint8)), RuntimeError,
     "masked_select: expected BoolTensor for mask"),
    (lambda t, x: t.ones(10, 0)[t.tensor([0]), t.tensor([0])], IndexError,
     "index is out of bounds for dimension with size 0"),
]


@pytest.mark.parametrize(("call", "kind", "text"), CASES)
def test_texts(torch, call, kind, text):
    with pytest.raises(kind) as caught:
        call(torch, torch.ones(3, 3))
    assert str(caught.value) == text


def test_leading_axes_of_an_assigned_value_have_a_gradient(torch):
    x, y = torch.zeros(3, 3).requires_grad_() * 1, torch.ones(1, 1, 3).requires_grad_()
    x[torch.tensor([0, 1])] = y
    x.sum().backward()
    assert y.grad.tolist() == [[[2, 2, 2]]]


def test_uint8_masks_warn(torch):
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert torch.ones(3)[torch.tensor([1, 0, 1], dtype=torch.uint8)].tolist() == [1, 1]


def test_0d_indices(torch):
    assert torch.gather(torch.ones(3), 0, torch.tensor(2)).shape == ()
    assert torch.zeros(0, 1, 2, 0).index_fill(3, torch.tensor([0, 1]), -1).shape == (0, 1, 2, 0)


def test_scales_that_wrap(torch):
    x = torch.ones(3, dtype=torch.uint8)
    assert x.index_add(0, torch.tensor([0]), x[:1], alpha=-1).tolist() == [0, 1, 1]


@pytest.mark.parametrize(("shape", "dim", "index", "error", "text"), [
    ((0, 2), 0, 0, RuntimeError, "index_select(): self indexing axis dim should be positive"),
    ((2, 0), 0, 3, RuntimeError, "INDICES element is out of DATA bounds, id=3 axis_dim=2"),
    ((2, 2), 0, 3, IndexError, "index out of range in self"),
    ((0,), 0, 0, IndexError, "index out of range in self"),
])
def test_index_select_names_what_is_out_of_range(torch, shape, dim, index, error, text):
    with pytest.raises(error) as raised:
        torch.index_select(torch.zeros(shape), dim, torch.tensor([index]))
    assert str(raised.value) == text


@pytest.mark.parametrize(("index", "error"), [([0, 0], RuntimeError), ([], RuntimeError),
                                              ([1], IndexError)])
def test_index_select_of_a_number(torch, index, error):
    text = "index out of range" if error is IndexError else "Index to scalar can have only 1 value"
    with pytest.raises(error, match=text):
        torch.tensor(1.).index_select(0, torch.tensor(index, dtype=torch.int64))
    assert torch.tensor(3.).index_select(0, torch.tensor([0])).item() == 3


@pytest.mark.parametrize("shape", [(6,), (1, 6), (1, 1, 6)])
def test_leading_ones_of_a_value_written_through_a_mask(torch, shape):
    x, mask = torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)
    x[mask] = torch.arange(6.).reshape(shape)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("value", [(2, 3), (1, 2, 3), (1, 5)])
def test_a_value_of_another_shape_written_through_a_mask(torch, value):
    x, mask = torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)
    text = r"shape mismatch: value tensor of shape \[.*\] cannot be broadcast to indexing result"
    with pytest.raises(RuntimeError, match=text):
        x[mask] = torch.ones(value)
    with pytest.raises(RuntimeError, match=text):  # before the dtype
        x[mask] = torch.ones(value, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[mask] = torch.ones(6, dtype=torch.float64)


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
@pytest.mark.parametrize("shape", [(2, 3), (1, 1, 2, 3)])
@pytest.mark.filterwarnings("ignore")
def test_values_written_through_a_0d_mask(torch, shape, dtype):
    x, mask = torch.zeros(2, 3), torch.tensor(1, dtype=getattr(torch, dtype))
    x[mask] = torch.ones(shape)
    x[torch.zeros_like(mask)] = 7
    assert x.eq(1).all()


def test_assignment_to_a_slice_of_floats(torch):
    x = torch.zeros(3, 3)
    with pytest.raises(TypeError, match="slice indices must be integers"):
        x[0.0:2.0] = 1
    with pytest.raises(IndexError):
        x[0.0] = 1
    assert not x.any()


def test_a_place_behind_an_ellipsis_or_none_is_named(torch):
    x = torch.zeros(2, 3)
    for index, text in [((..., 5), "5 is out of bounds for dimension 1 with size 3"),
                        ((..., 2, slice(None)), "2 is out of bounds for dimension 1 with size 2"),
                        ((None, 5), "5 is out of bounds for dimension 1 with size 2")]:
        with pytest.raises(IndexError, match=text):
            x[index]


def test_index_add_names_both_types(torch):
    with pytest.raises(RuntimeError, match=r"self \(Float\) and source \(Double\) must have the"):
        torch.zeros(3).index_add_(0, torch.tensor([1]), torch.ones(1, dtype=torch.float64))
