"""Promotion: what 0-dim tensors and numbers decide, and half precision beside them."""

import pytest

CASES = [
    ("float32", "complex128", "complex64"), ("float64", "complex64", "complex128"),
    ("float16", "complex128", "complex32"), ("bfloat16", "complex64", "complex64"),
    ("int64", "complex128", "complex128"), ("float32", "float64", "float32"),
    ("bool", "int16", "int16"), ("complex64", "float64", "complex64"),
]


@pytest.mark.parametrize(("dims", "zero_dim", "expected"), CASES)
def test_a_tensor_with_axes_keeps_its_width(torch, dims, zero_dim, expected):
    x = torch.ones(3, dtype=getattr(torch, dims))
    y = torch.ones((), dtype=getattr(torch, zero_dim))
    assert torch.result_type(x, y) is torch.result_type(y, x) is getattr(torch, expected)
    if "32" not in expected.replace("float32", ""):
        assert (x + y).dtype is getattr(torch, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_are_rounded_to_half_precision(torch, dtype):
    x = torch.tensor([0.1, 3.0, 7.0]).to(getattr(torch, dtype))
    number = torch.tensor(2.3).to(x.dtype).item()
    assert (x == 0.1).tolist() == [True, False, False] and not (x > 0.1)[0]
    for operation in (torch.add, torch.sub, torch.fmod, torch.remainder, torch.pow, torch.rsub):
        assert operation(x, 2.3).equal(operation(x, number))
        assert operation(x, torch.tensor(2.3)).equal(operation(x, number)) or operation is torch.pow
    exact = (x.float() * 2.3).to(x.dtype)  # products keep the number
    assert torch.mul(x, 2.3).equal(exact)


def test_alpha_of_bools_is_a_bool(torch):
    x = torch.tensor([False, True])
    y = torch.tensor([True, True])
    assert torch.add(x, y, alpha=0).equal(x) and torch.add(x, y, alpha=2).equal(y)
