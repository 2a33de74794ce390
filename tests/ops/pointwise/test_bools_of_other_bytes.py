"""Views of integers as bools: whatever is not zero is true, also where bytes differ from 1."""

import pytest

import flambeau as torch

BYTES, SAME = [3, 0, 255, 1, 0, 2, 128, 4], [1, 0, 1, 1, 0, 1, 1, 1]
OTHER = [2, 7, 0, 255, 0, 1, 1, 0]
PAIRS = """eq ne lt le gt ge logical_xor logical_and logical_or bitwise_xor bitwise_and bitwise_or
minimum maximum add mul""".split()
ALONE = {
    "where": lambda m: torch.where(m, 1.0, 2.0),
    "where of tensors": lambda m: torch.where(m, torch.arange(m.numel()), -torch.ones(m.numel())),
    "masked_fill": lambda m: torch.zeros(m.numel()).masked_fill(m, 7.0),
    "bfloat16": lambda m: m.to(torch.bfloat16),
    "float16": lambda m: m.to(torch.float16),
    "float32": lambda m: m.to(torch.float32),
    "sort": lambda m: m.sort(stable=True)[1],
    "argsort": lambda m: m.argsort(stable=True),
    "sum": lambda m: m.sum(),
    "not": lambda m: ~m,
    "nonzero": lambda m: m.nonzero(),
}


def as_bools(numbers, repeats):
    return torch.tensor(numbers, dtype=torch.uint8).repeat(repeats).view(torch.bool)


@pytest.mark.parametrize("repeats", [1, 5000])
@pytest.mark.parametrize("name", PAIRS)
def test_of_two(name, repeats):
    function = getattr(torch, name)
    other = as_bools([int(n != 0) for n in OTHER], repeats)
    expected = function(as_bools(SAME, repeats), other)
    assert torch.equal(function(as_bools(BYTES, repeats), as_bools(OTHER, repeats)), expected)
    assert torch.equal(function(as_bools(BYTES, repeats), other), expected)


@pytest.mark.parametrize("repeats", [1, 5000])
@pytest.mark.parametrize("name", ALONE)
def test_of_one(name, repeats):
    function = ALONE[name]
    expected = function(as_bools(SAME, repeats))
    assert torch.equal(function(as_bools(BYTES, repeats)), expected)


def test_in_place():
    x = as_bools(BYTES, 1)
    x ^= as_bools(OTHER, 1)
    assert x.tolist() == [False, True, True, False, False, False, False, True]
