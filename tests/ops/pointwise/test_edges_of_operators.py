"""Pointwise operators where random arguments beside PyTorch differed: comparisons in place, dtypes
of powers of two, gradients at NaN and outside of a domain, refused dtypes."""

from __future__ import annotations

import math

import pytest


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
def test_comparison_in_place_has_zero_gradient(torch, name):
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = torch.tensor([1.0, 3.0], requires_grad=True)
    z = getattr(x.clone(), name)(y)
    assert z.dtype == torch.float32
    assert z.grad_fn.name() == name[0].upper() + name[1] + "Backward1"
    for g in torch.autograd.grad(z.sum(), (x, y)):
        assert g.tolist() == [0.0, 0.0]
    (g,) = torch.autograd.grad(getattr(x.clone(), name)(1.5).sum(), x)
    assert g.tolist() == [0.0, 0.0]


def test_comparison_in_place_requires_grad_if_the_other_does(torch):
    y = torch.ones(2, 1, requires_grad=True)
    z = torch.ones(2, 3).eq_(y)
    (g,) = torch.autograd.grad(z.sum(), y)
    assert g.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize(("kind", "shape", "exponents"), [
    ("float16", (2,), (2,)), ("bfloat16", (), ()), ("float64", (), (2,)), ("bfloat16", (2,), ()),
])
def test_ldexp_of_integers_has_the_dtype_of_the_input(torch, kind, shape, exponents):
    dtype = getattr(torch, kind)
    y = torch.ldexp(torch.ones(shape, dtype=dtype), torch.ones(exponents, dtype=torch.int32))
    assert y.dtype == dtype


def test_ldexp_in_place_is_differentiated(torch):
    e = torch.tensor([1.0, 2.0], requires_grad=True)
    z = torch.tensor([3.0, 4.0]).ldexp_(e)
    (g,) = torch.autograd.grad(z.sum(), e)
    torch.testing.assert_close(g, torch.tensor([6.0, 16.0]) * math.log(2))


def test_gradient_of_acosh_outside_of_its_domain(torch):
    x = torch.tensor([-5.0, 5.0], requires_grad=True)
    (g,) = torch.autograd.grad(x.acosh().sum(), x)
    torch.testing.assert_close(g, torch.full((2,), 1 / math.sqrt(24)))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_passes_the_gradient_to_both_operands(torch, name):
    x = torch.tensor([math.nan, 1.0, 2.0], requires_grad=True)
    y = torch.tensor([1.0, math.nan, 2.0], requires_grad=True)
    a, b = torch.autograd.grad(getattr(torch, name)(x, y).sum(), (x, y))
    assert a.tolist() == b.tolist() == [1.0, 1.0, 0.5]


def test_nextafter_of_halves(torch):
    x = torch.tensor([1.5], dtype=torch.float16)
    assert torch.nextafter(x, 2 * x).item() == 1.5 + 2**-10


def test_gradient_of_mixed_dtypes_has_the_dtype_of_its_operand(torch):
    e = torch.tensor(2.0, dtype=torch.bfloat16, requires_grad=True)
    y = torch.pow(torch.tensor(3, dtype=torch.uint8), e)
    (g,) = torch.autograd.grad(y, e)
    assert y.dtype == g.dtype == torch.bfloat16


@pytest.mark.parametrize(("name", "kind", "shown"), [
    ("bitwise_not", "float64", "bitwise_not_cpu\" not implemented for 'Double'"),
    ("frac", "complex128", "frac_cpu\" not implemented for 'ComplexDouble'"),
])
def test_refused_dtypes(torch, name, kind, shown):
    with pytest.raises(NotImplementedError, match=shown):
        getattr(torch, name)(torch.ones(2, dtype=getattr(torch, kind)))


@pytest.mark.parametrize("kind", ["int64", "complex64", "bool"])
def test_logaddexp2_takes_only_floats(torch, kind):
    x = torch.ones(2, dtype=getattr(torch, kind))
    with pytest.raises(NotImplementedError, match="logaddexp2_cpu"):
        torch.logaddexp2(x, x)


@pytest.mark.parametrize(("first", "other", "dtype"), [
    (True, 3, None), (3, True, "int64"), (1.5, [True, False], "float32"), (7, [True], "uint8"),
])
def test_factor_of_a_sum_is_in_the_dtype_of_the_sum(torch, first, other, dtype):
    x = torch.tensor(first, dtype=dtype and getattr(torch, dtype))
    y = torch.tensor(other)
    total = torch.add(x, y, alpha=2)
    assert total.dtype == torch.result_type(x, y)
    assert total.tolist() == (x + y + y.to(total.dtype)).tolist()
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        torch.add(x, y, alpha=True)


def test_factor_of_a_sum_of_bools(torch):
    yes, no = torch.tensor(True), torch.tensor(False)
    for y in (torch.add(no, True, alpha=True), no.clone().add_(True, alpha=2),
              no.add(yes, alpha=2)):
        assert y.dtype == torch.bool and y.item() is True
    with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
        torch.sub(torch.tensor([3]), yes, alpha=2)


def test_bounds_may_have_more_axes_than_what_they_clip(torch):
    x, low, high = torch.randn(4), torch.zeros(()), torch.ones(2, 3, 4)
    assert torch.equal(x.clamp(low, high), x.clamp(0, 1).expand(2, 3, 4))
    assert torch.equal(torch.vmap(lambda h: x.clamp(low, h))(high[0]), x.clamp(0, 1).expand(3, 4))


@pytest.mark.parametrize("dim, alpha, error", [
    (0, 1, RuntimeError), (2, 1, RuntimeError), (1, 1, IndexError), (0, 2, IndexError),
])
def test_index_add_words_refused_indices_as_scatter_add_does(torch, dim, alpha, error):
    x, index = torch.zeros(2, 3, 4), torch.full(((2, 3, 4)[dim],), 9)
    text = "index 9 is out of bounds for dimension" if error is RuntimeError else "out of range in"
    with pytest.raises(error, match=text):
        x.index_add_(dim, index, torch.ones(2, 3, 4), alpha=alpha)


def test_a_margin_loss_of_one_example_has_the_shape_of_its_target(torch):
    x = torch.randn(4)
    for target in (torch.tensor(1), torch.tensor([1])):
        loss = torch.nn.functional.multi_margin_loss(x, target, reduction="none")
        assert loss.shape == target.shape
