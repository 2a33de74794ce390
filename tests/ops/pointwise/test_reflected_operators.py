"""Python's operators called as methods, with plain numbers as `self`."""

import pytest

import flambeau as torch


@pytest.mark.parametrize("name", ["__add__", "__radd__", "__rmul__", "__ror__", "__rand__",
                                  "__rxor__", "__sub__", "__eq__"])
def test_a_number_is_no_self(name):
    with pytest.raises(TypeError, match=f"descriptor '{name}' for 'torch._C.TensorBase' objects "
                                        "doesn't apply to a 'int' object"):
        getattr(torch.Tensor, name)(2, torch.tensor([1, 2]))


def test_reflected_methods_that_pytorch_writes_in_python_take_a_number():
    x = torch.tensor([1, 2])
    assert torch.Tensor.__rpow__(2, x).tolist() == [1, 4]
    assert torch.Tensor.__rlshift__(2, x).tolist() == [4, 8]
    assert torch.Tensor.__rmod__(2, x).tolist() == [1, 0]
    assert torch.Tensor.__rsub__(2, x) is NotImplemented
    assert torch.Tensor.__rmod__(2, 3) is NotImplemented
    with pytest.raises(AttributeError, match="'int' object has no attribute 'reciprocal'"):
        torch.Tensor.__rtruediv__(2, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("number", [3, 0.1, -7.5])
def test_a_number_over_a_tensor_is_a_product_with_the_reciprocal(dtype, number):
    torch.manual_seed(0)
    x = torch.randn(500).to(dtype)
    assert torch.equal(number / x, x.reciprocal() * number)
    assert torch.equal(1 / x, x.reciprocal())
    if dtype is torch.float32:
        assert not torch.equal(number / x, torch.div(number, x))


def test_nodes_of_a_number_over_a_tensor():
    x = torch.tensor([2.0, 4.0], requires_grad=True)
    y = 3 / x
    assert y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [-0.75, -0.1875]
    assert x.__rtruediv__("a") is NotImplemented
