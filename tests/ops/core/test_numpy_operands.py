"""NumPy arrays beside tensors: functions refuse them, and operators leave them to NumPy."""

from __future__ import annotations

import numpy as np
import pytest

ARRAY = np.array([1.0, 2.0, 4.0], np.float32)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "atan2", "logical_and", "matmul"])
def test_functions_refuse_arrays(torch, name):
    with pytest.raises(TypeError, match=rf"^{name}\(\): argument 'other' \(position 2\) must be "
                                        "Tensor, not numpy.ndarray"):
        getattr(torch, name)(torch.ones(3), ARRAY)


@pytest.mark.parametrize("name", ["eq", "lt", "pow", "remainder", "fmod", "xlogy"])
def test_functions_of_tensors_or_numbers_list_what_they_take(torch, name):
    with pytest.raises(TypeError, match=rf"^{name}\(\) received an invalid combination of "
                                        r"arguments - got \(Tensor, numpy.ndarray\), but expected"):
        getattr(torch, name)(torch.ones(3), ARRAY)


@pytest.mark.parametrize("write", [
    lambda x: x.add_(ARRAY), lambda x: x.mul_(ARRAY), lambda x: x.fill_(np.array(1.0)),
    lambda x: x.copy_(ARRAY), lambda x: x.masked_fill_(x > 0, np.array(1.0)),
    lambda x: x.__setitem__(0, ARRAY), lambda x: x.clamp_(ARRAY),
])
def test_what_is_refused_is_not_written(torch, write):
    x = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(TypeError):
        write(x)
    assert x.tolist() == [1, 2, 3]


def test_the_error_says_how_to_make_a_tensor():
    import flambeau

    with pytest.raises(TypeError) as caught:
        flambeau.add(flambeau.ones(3), ARRAY)
    assert "torch.from_numpy(array)" in caught.value.__notes__[0]


OPERATORS = [
    ("tensor + array", [2.0, 3.0, 5.0]), ("tensor - array", [0.0, -1.0, -3.0]),
    ("tensor * array", [1.0, 2.0, 4.0]), ("tensor / array", [1.0, 0.5, 0.25]),
    ("tensor // array", [1.0, 0.0, 0.0]), ("tensor ** array", [1.0, 1.0, 1.0]),
    ("array / tensor", [1.0, 2.0, 4.0]), ("tensor == array", [True, False, False]),
    ("array == tensor", [True, False, False]), ("tensor @ array", 7.0),
]


@pytest.mark.parametrize("text, expected", OPERATORS)
def test_operators_with_an_array_compute_with_numpy(torch, text, expected):
    y = eval(text, {"tensor": torch.ones(3), "array": ARRAY})
    assert isinstance(y, torch.Tensor) and y.tolist() == expected


@pytest.mark.parametrize("text", [
    "array + tensor", "array - tensor", "array * tensor", "array ** tensor", "array // tensor",
    "array % tensor", "array @ tensor", "tensor < array", "array >= tensor",
])
def test_other_operators_refuse_arrays(torch, text):
    with pytest.raises(TypeError):
        eval(text, {"tensor": torch.ones(3), "array": ARRAY})


def test_numpy_promotes_dtypes(torch):
    y = torch.tensor([1, 2, 3]) + ARRAY
    assert y.dtype == torch.float64
    y = (torch.ones(3) > 0) & np.array([True, False, True])
    assert y.dtype == torch.uint8 and y.tolist() == [1, 0, 1]


def test_a_gradient_is_not_lost_beside_an_array(torch):
    x = torch.ones(3, requires_grad=True)
    for compute in (lambda: x + ARRAY, lambda: x * ARRAY, lambda: ARRAY / x):
        with pytest.raises(RuntimeError, match="Can't call numpy.. on Tensor that requires grad"):
            compute()


def test_augmented_assignment_of_an_array_makes_a_new_tensor(torch):
    x = before = torch.ones(3)
    x += ARRAY
    assert x.tolist() == [2, 3, 5] and before.tolist() == [1, 1, 1]
    x = before = torch.ones(3)
    x += 1
    assert x is before


def test_numpy_scalars_stay_operands(torch):
    x = torch.ones(2)
    two = np.float32(2)
    for y in (x + two, np.float64(2) + x, torch.add(x, np.int64(2)), x.add(two)):
        assert y.tolist() == [3, 3] and y.dtype == torch.float32


def test_arrays_are_no_shapes(torch):
    shape = np.array([2, 2])
    for function in (torch.zeros, torch.ones, torch.empty, torch.rand, torch.zeros(4).reshape,
                     torch.zeros(4).view, lambda size: torch.full(size, 1.0)):
        with pytest.raises(TypeError, match="numpy.ndarray"):
            function(shape)
    assert torch.zeros(tuple(shape)).shape == (2, 2)
    assert torch.zeros(np.int64(2)).shape == (2,)


def test_which_numpy_numbers_can_be_assigned(torch):
    x = torch.zeros(2)
    for number in (np.float64(1), np.int32(1), np.int64(1), True):
        x[0] = number
        assert x[0] == 1
    for number in (np.float32(1), np.float16(1), np.bool_(True)):
        with pytest.raises(TypeError, match="can't assign a numpy.*to a torch.FloatTensor"):
            x[0] = number


SETTINGS = [
    lambda F, x, a: F.softplus(x, a, a), lambda F, x, a: F.leaky_relu(x, a),
    lambda F, x, a: F.elu(x, a), lambda F, x, a: F.celu(x, a), lambda F, x, a: F.softshrink(x, a),
    lambda F, x, a: x.clamp(-a, a), lambda F, x, a: x.clamp_min(a), lambda F, x, a: x.clip(max=a),
    lambda F, x, a: x.addcdiv(x, x + 9, value=a), lambda F, x, a: F.normalize(x, a, 0, a),
    lambda F, x, a: F.gaussian_nll_loss(x, x, x.abs(), eps=a), lambda F, x, a: F.rrelu(x, a, a),
]


@pytest.mark.parametrize("call", SETTINGS)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_settings_of_numpy_promote_nothing(torch, call, kind):
    x = torch.tensor([-2.0, 0.25, 3.0], dtype=getattr(torch, kind), requires_grad=True)
    y = call(torch.nn.functional, x, np.float64(0.5))
    assert y.dtype is x.dtype
    y.sum().backward()
    assert x.grad.dtype is x.dtype
    assert y.equal(call(torch.nn.functional, x, 0.5))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_integers_of_numpy_are_axes_and_numbers(torch, kind):
    x = torch.arange(12.0).reshape(3, 4)
    assert x.clamp(kind(1), kind(3)).dtype is torch.float32
    assert x.long().clamp(kind(1), kind(3)).dtype is torch.int64
    assert x.movedim(kind(0), kind(1)).shape == (4, 3)
    assert x.roll(kind(1), kind(0)).equal(x.roll(1, 0))
    assert x[None].squeeze(kind(0)).shape == (3, 4)
    assert torch.linalg.norm(x, dim=kind(1)).equal(torch.linalg.norm(x, dim=1))
    assert [part.shape[0] for part in x.chunk(kind(2))] == [2, 1]
    assert torch.where(x > 2, x, np.bool_(True)).dtype is torch.float32
