"""Wrapper subclasses: every operator of theirs reaches `__torch_dispatch__`, in PyTorch's form."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.utils._pytree import tree_map

SEEN: list[tuple] = []


class Wrapper(torch.Tensor):
    """Holds a tensor, and notes what its class is asked to do."""

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        self = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), dtype=elem.dtype, device=elem.device, requires_grad=requires_grad
        )
        self.elem = elem
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        SEEN.append((str(func), args[1:]))
        args, kwargs = tree_map(lambda x: x.elem if isinstance(x, cls) else x, (args, kwargs or {}))
        return tree_map(lambda y: cls(y) if isinstance(y, torch.Tensor) else y,
                        func(*args, **kwargs))


def calls(function):
    """What the class is asked to do by a function."""
    SEEN.clear()
    function()
    return list(SEEN)


@pytest.fixture
def x():
    return Wrapper(torch.arange(12.0).reshape(3, 4))


def test_a_basic_index_is_a_call_for_each_entry(x):
    assert calls(lambda: x[:2]) == [("aten.slice.Tensor", (0, 0, 2))]
    assert calls(lambda: x[-1::2]) == [("aten.slice.Tensor", (0, -1, 2**63 - 1, 2))]
    assert calls(lambda: x[:]) == [("aten.slice.Tensor", (0, 0, 2**63 - 1))]
    assert calls(lambda: x[...]) == [("aten.alias.default", ())]
    assert calls(lambda: x[1]) == [("aten.select.int", (0, 1))]
    assert calls(lambda: x[..., None, 1]) == [
        ("aten.unsqueeze.default", (1,)), ("aten.select.int", (2, 1))]
    assert torch.equal(x[1:, 2].elem, x.elem[1:, 2])
    assert torch.equal(x.narrow(1, 1, 2).elem, x.elem.narrow(1, 1, 2))


def described(index):
    """A list of indices with shapes and dtypes for tensors."""
    return [i if i is None else (type(i).__name__, tuple(i.shape), str(i.dtype)) for i in index]


LONG, MASK = torch.tensor([1, 0]), torch.tensor([True, False, True, True])


@pytest.mark.parametrize(("index", "basic", "indices"), [
    (LONG, [], [("Tensor", (2,), "torch.int64")]),
    ((slice(None), MASK), [], [None, ("Tensor", (4,), "torch.bool")]),
    ((slice(None), MASK.byte()), [], [None, ("Tensor", (4,), "torch.uint8")]),
    ((LONG.int(), slice(None)), [], [("Tensor", (2,), "torch.int32")]),
    ((..., [0, 2]), [], [None, ("Tensor", (2,), "torch.int64")]),
    ((0, MASK), ["aten.select.int"], [("Tensor", (4,), "torch.bool")]),
    ((slice(1, None), MASK), ["aten.slice.Tensor"], [None, ("Tensor", (4,), "torch.bool")]),
    ((LONG, None), ["aten.unsqueeze.default"], [("Tensor", (2,), "torch.int64")]),
    (Wrapper(LONG), [], [("Wrapper", (2,), "torch.int64")]),
])
@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_tensors_in_an_index_are_one_list(x, index, basic, indices):
    y = x[index]
    plain = index.elem if isinstance(index, Wrapper) else index
    assert isinstance(y, Wrapper) and torch.equal(y.elem, x.elem[plain])
    *before, (name, (received,)) = calls(lambda: x[index])
    assert [n for n, _ in before] == basic
    assert (name, described(received)) == ("aten.index.Tensor", indices)


def test_an_index_of_the_class_reads_a_plain_tensor():
    plain = torch.arange(12.0).reshape(3, 4)
    y = plain[:, Wrapper(MASK)]
    assert isinstance(y, Wrapper) and torch.equal(y.elem, plain[:, MASK])
    assert torch.equal(plain[Wrapper(LONG)].elem, plain[LONG])


@pytest.mark.parametrize(("index", "value", "expected"), [
    (0, 1.0, ["aten.select.int", "aten.fill_.Tensor"]),
    (..., 1.0, ["aten.fill_.Tensor"]),
    (slice(1, None), torch.ones(2, 4), ["aten.slice.Tensor", "aten.copy_.default"]),
    (LONG, 1.0, ["aten.index_put_.default"]),
    ((0, MASK), torch.ones(3), ["aten.select.int", "aten.index_put_.default"]),
])
def test_writes_reach_the_class(x, index, value, expected):
    reference = x.elem.clone()
    assert [name for name, _ in calls(lambda: x.__setitem__(index, value))] == expected
    reference[index] = value
    assert torch.equal(x.elem, reference)


def test_out_has_an_overload_of_its_own(x):
    assert [name for name, _ in calls(lambda: torch.add(x, x, out=Wrapper(torch.empty(3, 4))))] \
        == ["aten.add.out"]


def test_writes_to_chosen_elements_that_a_gradient_would_pass_are_refused():
    x = Wrapper(torch.ones(3, 3), requires_grad=True)
    y = x * 1
    with pytest.raises(NotImplementedError, match="__setitem__"):
        y[1:, LONG] = 0.0


def test_index_put_reaches_the_class(x):
    values = torch.ones(2, 4)
    y = x.index_put((LONG,), values)
    assert torch.equal(y.elem, x.elem.index_put((LONG,), values))
    x.index_put_((LONG,), values)
    assert torch.equal(x.elem, y.elem)


def test_derivative_of_chosen_elements():
    x = Wrapper(torch.arange(12.0).reshape(3, 4), requires_grad=True)
    seen = calls(lambda: (x[:, MASK] ** 2).sum().backward())
    expected = torch.zeros(3, 4)
    expected[:, MASK] = 2 * x.elem[:, MASK]
    assert torch.equal(x.grad.elem, expected)
    assert "aten.index_put.default" in [name for name, _ in seen]
    x.grad = None
    x[Wrapper(LONG)].sum().backward()
    assert torch.equal(x.grad.elem[:, 0], torch.tensor([1.0, 1.0, 0.0]))


def test_sizes_arrive_as_one_list(x):
    assert calls(lambda: x.repeat(2, 1)) == [("aten.repeat.default", ([2, 1],))]
    assert calls(lambda: x.sum().expand(3, 4)) == [
        ("aten.sum.default", ()), ("aten.expand.default", ([3, 4],))]


def test_numbers_are_read_through_the_class(x):
    total = x.sum()
    assert calls(total.item) == [("aten._local_scalar_dense.default", ())]
    assert (total.item(), float(total), bool(total)) == (66.0, 66.0, True)


def test_comparisons_look_at_the_values(x):
    assert torch.allclose(x, x) and torch.equal(x, x)
    assert not torch.allclose(x, x + 1) and not torch.equal(x, x + 1)


def test_derivatives_are_of_the_class():
    x = Wrapper(torch.tensor([1.0, 2.0, 3.0]))
    cube = lambda a: (a * a * a).sum()  # noqa: E731
    jacobian = torch.autograd.functional.jacobian(lambda a: a * a, x)
    hessian = torch.autograd.functional.hessian(cube, x)
    _, product = torch.autograd.functional.hvp(cube, x, Wrapper(torch.ones(3)))
    assert torch.equal(jacobian.elem, torch.diag(2 * x.elem))
    assert torch.equal(hessian.elem, torch.diag(6 * x.elem))
    assert torch.equal(product.elem, 6 * x.elem)


def test_derivative_of_a_part_and_of_a_repeated_sum():
    x = Wrapper(torch.arange(4.0), requires_grad=True)
    x[1:3].exp().sum().backward()
    expected = torch.zeros(4)
    expected[1:3] = torch.arange(4.0)[1:3].exp()
    assert torch.equal(x.grad.elem, expected)
    result = torch.autograd.functional.jacobian(lambda a: a.sum().repeat(2, 2), x)
    assert torch.equal(result.elem, torch.ones(2, 2, 4))


def test_wrappers_have_the_strides_they_were_built_with():
    class Strided(Wrapper):
        @staticmethod
        def __new__(cls, elem):
            self = torch.Tensor._make_wrapper_subclass(
                cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset())
            self.elem = elem
            return self

    x = Strided(torch.zeros(4, 2, 3)[1:].transpose(0, 1))
    assert x.shape == (2, 3, 3)
    assert x.stride() == (3, 6, 1)
    assert x.storage_offset() == 6
    assert not x.is_contiguous()
    assert x.detach().stride() == (3, 6, 1)
    image = Strided(torch.zeros(1, 3, 4, 4).to(memory_format=torch.channels_last))
    assert image.is_contiguous(memory_format=torch.channels_last)


def test_extremes_along_axes_have_their_names():
    SEEN.clear()
    x = Wrapper(torch.zeros(2, 2))
    x.max(0), x.min(1)
    assert [name for name, _ in SEEN] == ["aten.max.dim", "aten.min.dim"]
