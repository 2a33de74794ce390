"""Numbers that are equal and still not the same: 2 and 2.0, 0.0 and -0.0, one NaN and another."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.trace.plain_values import are_same_plain, write_mismatch

from ..step_comparison import compiled, runs, same

ALIKE = [2, 2.0, True, 1, 1.0, 1 + 0j, 0.0, -0.0, 0, False, math.nan, complex(0.0, -0.0), 0j, None,
         "2", b"2", np.float64(2), np.float32(2), np.int64(2)]


@pytest.mark.parametrize("value", ALIKE, ids=repr)
def test_only_the_same_are_the_same(value):
    names = {}

    def name(x):
        names[f"v{len(names)}"] = x
        return f"v{len(names) - 1}"

    differs = eval(f"lambda x: {write_mismatch('x', value, name)}", names)
    for other in ALIKE:
        assert are_same_plain(value, other) == (value is other)
        assert differs(other) == (value is not other)
    assert not differs(type(value)(value) if value is not None else None)


SCALE = 2.0


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale, self.settings = scale, {"scale": scale}

    def forward(self, x):
        return x * self.scale + self.settings["scale"]


def _closure():
    scale = 2.0

    def step(x):
        return x * scale

    def put(value):
        nonlocal scale
        scale = value

    return step, put


def _global():
    def put(value):
        global SCALE
        SCALE = value

    return lambda x: x * SCALE, put


def _attribute():
    module = Scaled(2.0)
    return module, lambda value: setattr(module, "scale", value)


def _entry():
    module = Scaled(2.0)
    return module, lambda value: module.settings.update(scale=value)


@pytest.mark.parametrize("make", [_closure, _global, _attribute, _entry])
@pytest.mark.parametrize("kinds", [(2, 2.0), (1.0, True), (0.0, -0.0)], ids=repr)
def test_a_number_that_becomes_one_of_another_kind_is_seen(make, kinds):
    step, put = make()
    fast = compiled(step)
    x = torch.zeros(3) if 0.0 in kinds else torch.arange(3)
    for i in range(16):
        put(kinds[i // 4 % 2])
        y, wanted = 1 / fast(x), 1 / step(x)
        assert y.dtype == wanted.dtype
        assert y.tolist() == wanted.tolist()
    assert runs(fast)


def test_arguments_too():
    fast = compiled(lambda x, k: 1 / (x * k))
    for k in (2, 2.0, 0.0, -0.0, True, 1) * 3:
        y, wanted = fast(torch.arange(3), k), 1 / (torch.arange(3) * k)
        assert y.tolist() == wanted.tolist()


def test_nan_is_one_kind_of_call_as_are_equal_numbers_of_numpy():
    fast = compiled(lambda x, k: x * k)
    for _ in range(5):
        same(fast(torch.ones(2), float("nan")).isnan(), torch.ones(2, dtype=torch.bool))
        same(fast(torch.ones(2), np.float64(3)), torch.full((2,), 3.0))
    assert len(fast._programs) == 2
    assert runs(fast) == 8
