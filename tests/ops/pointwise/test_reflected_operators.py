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
