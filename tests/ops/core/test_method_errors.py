"""In-place methods take what PyTorch's take, and their errors count arguments as methods do."""

import pytest

NUMBERS = [2, 2.5, True, 2j]
# Pointwise operators of two tensors, with the bodies NumPy has a function for and others.
OF_TENSORS = ["atan2_", "hypot_", "heaviside_", "nextafter_", "igamma_"]
ERRORS = [
    ("atan2_", (2,), "atan2_(): argument 'other' (position 1) must be Tensor, not int"),
    ("atan2_", ("a",), "atan2_(): argument 'other' (position 1) must be Tensor, not str"),
    ("addcmul_", (1, 2), "addcmul_(): argument 'tensor1' (position 1) must be Tensor, not int"),
    ("add_", (None,), "add_(): argument 'other' (position 1) must be Tensor, not NoneType"),
    ("atan2_", (), 'atan2_() missing 1 required positional arguments: "other"'),
    ("atan2_", (1, 2), "atan2_() takes 1 positional argument but 2 were given"),
    ("logit_", (1, 2), "logit_() takes from 0 to 1 positional arguments but 2 were given"),
    ("abs_", (1,), "Tensor.abs_() takes no arguments (1 given)"),
    ("acos_", (True,), "Tensor.acos_() takes no arguments (1 given)"),
    ("sinh_", (1, 2), "Tensor.sinh_() takes no arguments (2 given)"),
    ("copysign_", ("a",), "copysign_() received an invalid combination of arguments - got (str), "
     "but expected one of:\n * (Tensor other)\n      didn't match because some of the arguments "
     "have invalid types: (!str!)\n * (Number other)\n      didn't match because some of the "
     "arguments have invalid types: (!str!)\n"),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OF_TENSORS)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_refused_where_a_tensor_belongs(torch, name, number, dtype):
    x = torch.ones(3, dtype=getattr(torch, dtype))
    kind = type(number).__name__
    with pytest.raises(TypeError) as caught:
        getattr(x, name)(number)
    assert str(caught.value) == \
        f"{name}(): argument 'other' (position 1) must be Tensor, not {kind}" or \
        str(caught.value).startswith(f"{name}(): argument ")
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("name", "arguments", "text"), ERRORS)
def test_errors_leave_out_self(torch, name, arguments, text):
    with pytest.raises(TypeError) as caught:
        getattr(torch.ones(3), name)(*arguments)
    assert str(caught.value) == text


def test_named_arguments_have_no_position(torch):
    with pytest.raises(TypeError) as caught:
        torch.ones(3).atan2_(other=2)
    assert str(caught.value) == "atan2_(): argument 'other' must be Tensor, not int"


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_", "copysign_", "fmod_", "eq_"])
def test_numbers_are_taken_where_they_may_stand(torch, name):
    x = torch.full((3,), 4.0)
    getattr(x, name)(2)
    assert x.tolist() == getattr(torch.full((3,), 4.0), name[:-1])(2).float().tolist()
