"""Pointwise operators where the registry's tests do not look: dtypes, numbers, Python's operators,
errors, in-place forms."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.core.operator import PUBLIC

F = PUBLIC["nn.functional"]
INTEGERS = torch.tensor([-5, 2, 3])
FLOATS = torch.tensor([-1.5, 2.0, 3.0])
BOOLS = torch.tensor([True, False, True])
HALVES = torch.tensor([-1.5, 2.0, 3.0], dtype=torch.float16)


# -------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda: INTEGERS / 2, torch.float32),
        (lambda: INTEGERS // 2, torch.int64),
        (lambda: INTEGERS * 2.5, torch.float32),
        (lambda: INTEGERS**2, torch.int64),
        (lambda: INTEGERS**0.5, torch.float32),
        (lambda: HALVES * 2.5, torch.float16),
        (HALVES.exp, torch.float16),
        (lambda: HALVES + FLOATS, torch.float32),
        (lambda: FLOATS.bfloat16() + 1, torch.bfloat16),
        (lambda: FLOATS + torch.tensor(1.0, dtype=torch.float64), torch.float32),
        (lambda: BOOLS + BOOLS, torch.bool),
        (lambda: BOOLS * 2, torch.int64),
        (BOOLS.square, torch.int64),
        (INTEGERS.sin, torch.float32),
        (INTEGERS.floor, torch.int64),
        (lambda: INTEGERS.clamp(0.5), torch.float32),
        (lambda: torch.tensor([1 + 2j]).abs(), torch.float32),
        (lambda: FLOATS > INTEGERS, torch.bool),
        (lambda: torch.where(BOOLS, HALVES, 1.5), torch.float16),
        (lambda: torch.where(BOOLS, INTEGERS, 1.5), torch.float32),
        (lambda: torch.float_power(INTEGERS, 2), torch.float64),
        (lambda: F["gelu"](HALVES), torch.float16),
        (lambda: F["gelu"](FLOATS), torch.float32),
    ],
)
def test_dtype_of_result(call, dtype):
    assert call().dtype is dtype


def test_integers_wrap_around():
    small = torch.tensor([250], dtype=torch.uint8)
    assert (small + 10).tolist() == [4]
    assert (-small).tolist() == [6]
    assert (small * 300).tolist() == [248]  # 300 is 44 in uint8


def test_integer_quotients_and_remainders():
    assert torch.div(INTEGERS, 2, rounding_mode="trunc").tolist() == [-2, 1, 1]
    assert torch.div(INTEGERS, 2, rounding_mode="floor").tolist() == [-3, 1, 1]
    assert (INTEGERS % 3).tolist() == [1, 2, 0]
    assert torch.fmod(INTEGERS, 3).tolist() == [-2, 2, 0]
    assert (7 // torch.tensor([2, -2])).tolist() == [3, -4]
    assert (7 % torch.tensor([4, -4])).tolist() == [3, -1]


def test_powers_of_integers():
    assert (INTEGERS ** torch.tensor([2, -1, 0])).tolist() == [25, 0, 1]
    assert (2 ** torch.tensor([0, 3])).tolist() == [1, 8]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
        INTEGERS**-1


# ------------------------------------------------------------------------------ Python's operators


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"])
@pytest.mark.parametrize("number", [2, 0.5])
def test_operators_with_numbers_on_either_side(name, number):
    array = np.array([1.0, 2.0, 3.5], np.float32)
    function = getattr(operator, name)
    left, right = function(torch.tensor(array), number), function(number, torch.tensor(array))
    np.testing.assert_allclose(left.numpy(), function(array, number), rtol=1e-6)
    np.testing.assert_allclose(right.numpy(), function(np.float32(number), array), rtol=1e-6)
    assert left.dtype is right.dtype is torch.float32


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_in_place_operators_write_into_the_tensor(name):
    x = torch.tensor([1.0, 2.0, 3.5])
    address, expected = x.data_ptr(), getattr(operator, name[1:])(x.clone(), 2)
    y = getattr(operator, name)(x, 2)
    assert y is x
    assert x.data_ptr() == address
    assert torch.equal(x, expected)


def test_bits():
    assert (INTEGERS & 3).tolist() == [3, 2, 3]
    assert (1 | INTEGERS).tolist() == [-5, 3, 3]
    assert (~BOOLS).tolist() == [False, True, False]
    assert (1 << torch.tensor([2, 70])).tolist() == [4, 0]
    with pytest.raises(NotImplementedError, match=r"bitwise_and_cpu.* not implemented for 'Float'"):
        FLOATS & 1
    with pytest.raises(TypeError, match="only implemented on integer and Boolean"):
        operator.invert(FLOATS)


def test_comparing_with_strangers():
    assert (FLOATS == None) is False  # noqa: E711
    assert (FLOATS != "a") is True
    assert FLOATS in {FLOATS}
    with pytest.raises(TypeError, match="not supported between"):
        operator.lt(FLOATS, None)


# -------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: FLOATS + torch.ones(2), RuntimeError, "must match the size of tensor b"),
        (lambda: BOOLS - BOOLS, RuntimeError, "with two bool tensors"),
        (lambda: FLOATS - BOOLS, RuntimeError, "with a bool tensor"),
        (lambda: -BOOLS, RuntimeError, "on a bool tensor"),
        (lambda: INTEGERS // 0, RuntimeError, "ZeroDivisionError"),
        (lambda: torch.maximum(FLOATS, 1.0), TypeError, "must be Tensor, not float"),
        (lambda: torch.exp(3.0), TypeError, "must be Tensor, not float"),
        (lambda: FLOATS + "a", TypeError, "unsupported operand"),
        (lambda: torch.clamp(FLOATS), RuntimeError, "At least one of"),
        (lambda: torch.ones(2, dtype=torch.uint8).clamp(0, 300), RuntimeError, "without overflow"),
        (lambda: torch.div(FLOATS, 2, rounding_mode="x"), RuntimeError, "rounding_mode"),
        (lambda: INTEGERS.div_(2), RuntimeError, "result type Float can't be cast"),
        (lambda: torch.where(INTEGERS, FLOATS, FLOATS), RuntimeError, "boolean tensor"),
        (lambda: F["elu"](INTEGERS), NotImplementedError, "not implemented for 'Long'"),
        (lambda: F["hardtanh"](FLOATS, 2, 1), ValueError, "min_val cannot be greater"),
        (lambda: F["prelu"](torch.ones(2, 2), torch.ones(3)), RuntimeError, "Mismatch of"),
        (lambda: torch.imag(FLOATS), RuntimeError, "non-complex dtypes"),
        (lambda: torch.isclose(FLOATS, INTEGERS), RuntimeError, "did not match"),
    ],
)
def test_error(call, error, words):
    with pytest.raises(error, match=words):
        call()


# -------------------------------------------------------------------------------- activations


@pytest.mark.parametrize("name", [
    "relu", "relu6", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardsigmoid", "hardswish",
    "leaky_relu",
])
def test_inplace_argument(name):
    x = torch.tensor([-2.0, 0.5, 7.0])
    expected = F[name](x.clone())
    assert F[name](x, inplace=True) is x
    assert torch.equal(x, expected)


def test_relu_in_place_is_recorded():
    x = torch.tensor([-2.0, 0.5], requires_grad=True)
    y = x * 3
    F["relu"](y, inplace=True)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        F["relu"](x, inplace=True)


def test_gradient_at_ties_and_edges():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.maximum(x, torch.tensor([1.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [0.5, 0.0]
    y = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    y.clamp(0, 1).sum().backward()
    assert y.grad.tolist() == [1.0, 1.0, 0.0]
    z = torch.tensor([0.0, 3.0, 6.0], requires_grad=True)
    (F["relu"](z) + F["relu6"](z) + F["hardswish"](z)).sum().backward()
    assert z.grad.tolist() == [0.5, 3.0, 2.0]


def test_infinite_cotangents_do_not_leak_through_relu():
    x = torch.tensor([-1.0, 1.0] * 2000, requires_grad=True)
    F["relu"](x).backward(torch.full((4000,), float("inf")))
    assert x.grad[:2].tolist() == [0.0, float("inf")]


def test_erf_in_float32_is_close_and_saturates():
    from math import erf

    x = np.linspace(-6, 6, 4001, dtype=np.float32)
    exact = np.vectorize(erf)(x.astype(np.float64))
    np.testing.assert_allclose(torch.erf(torch.tensor(x)).numpy(), exact, rtol=5e-7, atol=0)
    assert torch.erf(torch.full((4000,), 7.0)).eq(1).all()


def test_scipy_is_not_imported_until_it_is_needed():
    import subprocess
    import sys

    code = ("import sys, flambeau as t; x = t.ones(3); (x.exp() * x.sigmoid() + x.log()).sum(); "
            "print(any(m.startswith('scipy') for m in sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -------------------------------------------------------------------------------- complex numbers


def test_parts_are_views():
    z = torch.tensor([1 + 2j, 3 - 4j])
    z.real.mul_(10)
    z.imag = torch.tensor([5.0, 6.0])
    assert z.tolist() == [10 + 5j, 30 + 6j]
    assert torch.view_as_real(z).data_ptr() == z.data_ptr()


def test_gradients_of_complex_functions():
    z = torch.tensor([3 + 4j], requires_grad=True)
    z.abs().sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), [0.6 + 0.8j], rtol=1e-6)
    w = torch.tensor([1 + 2j], requires_grad=True)
    (w * w).real.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [2 - 4j], rtol=1e-6)


def test_complex_powers_of_negative_numbers():
    exponent = torch.tensor([1.2 + 0.5j, -0.3j], dtype=torch.complex128, requires_grad=True)
    base = torch.tensor([-1.0, -2.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda e: torch.pow(base, e), (exponent,))
    assert torch.autograd.gradcheck(lambda e: torch.pow(-1, e), (exponent,))


def test_clamp_takes_a_tensor_without_axes_for_a_number():
    x = torch.tensor([-1.0, 0.5, 3.0])
    assert torch.clamp(x, 0, torch.tensor(1.0)).tolist() == [0.0, 0.5, 1.0]
    assert x.clone().clamp_(torch.tensor(1), 2).tolist() == [1.0, 1.0, 2.0]
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch.clamp(x, 0, torch.ones(3))


def test_integers_are_close_in_the_default_dtype():
    left, right = torch.tensor([16777217]), torch.tensor([16777216])
    assert torch.isclose(left, right, rtol=0, atol=0.5).tolist() == [True]  # float32 rounds
    assert not torch.equal(left, right)


def test_eight_bit_floats_are_equal_but_not_close():
    x = torch.arange(5.0).to(torch.float8_e4m3fn)
    assert torch.isclose(x, x, rtol=0, atol=0).all()
    torch.testing.assert_close(x, x, rtol=0, atol=0)
    with pytest.raises(NotImplementedError, match="mul_cpu_reduced_float"):
        torch.isclose(x, x)


@pytest.mark.parametrize("count", [1, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_functions_at_the_ends(dtype, count):
    ends = torch.tensor([-torch.inf, torch.inf, -3.0], dtype=dtype).repeat(count)
    assert torch.lgamma(ends).tolist() == [torch.inf] * 3 * count
    zeros = torch.tensor([0.0, -0.0], dtype=dtype).repeat(count)
    assert torch.erfinv(zeros).signbit().tolist() == [False, True] * count
    assert torch.erfc(zeros).tolist() == [1.0] * 2 * count
