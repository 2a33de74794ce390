"""Short writes of in-place operators: what the function computes, or False with nothing written."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.core.operator import OPERATORS
from flambeau.ops.core.short_write import generate_short_write, has_short_write

SHORT = {name: operator for name, operator in OPERATORS.items()
         if getattr(operator, "twin", None) and has_short_write(operator)}
MULTIPLY = generate_short_write(SHORT["mul"])


def test_common_operators_have_short_writes():
    assert {"lerp", "addcmul", "addcdiv", "sigmoid", "tanh", "exp", "relu_only"} <= SHORT.keys()


@pytest.mark.parametrize("name", sorted(SHORT))
def test_a_short_write_computes_what_the_function_computes(name):
    operator = SHORT[name]
    for args, kwargs in operator.samples(np.random.default_rng(0)):
        args = tuple(torch.tensor(a, dtype=torch.float32)
                     if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in args)
        if not isinstance(args[0], torch.Tensor) or any(isinstance(a, np.ndarray) for a in args):
            continue
        expected = operator.function(*args, **kwargs)
        before = args[0].clone()
        if generate_short_write(operator)(*args, **kwargs):
            assert args[0].shape == expected.shape
            np.testing.assert_array_equal(args[0].numpy(), expected.numpy())
        else:
            np.testing.assert_array_equal(args[0].numpy(), before.numpy())


def _leaf():
    return torch.ones(3, requires_grad=True)


@pytest.mark.parametrize("create", [
    lambda: (_leaf(), 2.0),
    lambda: (torch.ones(3), _leaf()),
    lambda: (torch.ones(1).expand(3), 2.0),
    lambda: (torch.ones(3), torch.ones(2, 3)),
    lambda: (torch.ones(3), torch.ones(3, dtype=torch.float64)),
    lambda: (torch.ones(3, dtype=torch.int32), 2.0),
    lambda: (torch.ones(3, dtype=torch.int64), 2.0),
    lambda: (torch.ones(3), True),
    lambda: (torch.ones(3), 1e30),
    lambda: (torch.ones(3, device="meta"), 2.0),
])
def test_other_calls_are_left_to_the_general_path(create):
    target, other = create()
    assert MULTIPLY(target, other) is False
    assert target.device.type == "meta" or target.tolist() == [1] * 3


def test_operands_may_be_the_target_but_not_overlap_it():
    x = torch.arange(1.0, 5.0)
    assert MULTIPLY(x, x)
    assert x.tolist() == [1, 4, 9, 16]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:].mul_(x[:3])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:].lerp_(x[:3], 0.5)
    assert x.tolist() == [1, 4, 9, 16]


def test_a_write_is_counted_once():
    x = torch.ones(3)
    x.lerp_(torch.zeros(3), 0.5).mul_(2).sigmoid_()
    assert x._version == 3
