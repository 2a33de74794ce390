"""Bounds of integers, and ranges of them, as programs that read exported graphs use both."""

import pytest

import flambeau as torch
from flambeau.export import Dim, export
from flambeau.utils._sympy.numbers import IntInfinity, int_oo
from flambeau.utils._sympy.value_ranges import ValueRangeError, ValueRanges


def test_a_bound_lies_beyond_all_integers_and_within_the_infinities_of_floats():
    lowest = -int_oo
    assert int_oo > 10**40 and -int_oo < -(10**40) and -int_oo < int_oo
    assert 3 < int_oo < float("inf") and float("-inf") < -int_oo < 3
    assert -lowest == int_oo == IntInfinity() and hash(int_oo) == hash(IntInfinity())
    assert max(5, int_oo) == int_oo and min(5, int_oo) == 5
    with pytest.raises(OverflowError):
        int(int_oo)


def test_ranges_meet_and_join():
    ranges = ValueRanges(2, int_oo)
    assert repr(ranges) == "VR[2, int_oo]" and 3 in ranges and 1 not in ranges
    assert ranges & ValueRanges(0, 5) == ValueRanges(2, 5)
    assert ranges | ValueRanges(0, 1) == ValueRanges(0, int_oo)
    assert ranges.issubset(ValueRanges.unknown_int()) and ValueRanges.wrap(3).is_singleton()
    with pytest.raises(ValueRangeError, match=r"Invalid ranges \[3:2\]"):
        ValueRanges(3, 2)


def test_a_dimension_without_a_bound_has_no_largest_length():
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    program = export(Double(), (torch.ones(4, 2),), dynamic_shapes=({0: Dim("b")},))
    (range_of_b,) = program.range_constraints.values()
    assert isinstance(range_of_b.upper, IntInfinity)
