"""embedding_bag of large tables: kernels give what NumPy gives before they are there."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.native.embedding import find_bag_maxima, sum_bags

RNG = np.random.default_rng(0)
COUNTS = {
    "even": np.full(900, 7), "uneven": np.arange(900) % 14, "few": np.array([3000, 0, 3000, 1]),
    "more bags than numbers": np.r_[np.zeros(3000, int), np.full(800, 2)],
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bags(name, mode, weighted):
    if weighted and mode != "sum":
        return
    counts = COUNTS[name]
    table = RNG.integers(-9, 9, (300, 66)).astype(np.float32)
    table[7, 5] = np.nan
    numbers = RNG.integers(0, 300, counts.sum())
    each = RNG.integers(1, 5, counts.sum()).astype(np.float32) if weighted else None
    starts = np.cumsum(counts) - counts
    rows = table[numbers] if each is None else table[numbers] * each[:, None]
    wanted = np.stack([
        getattr(np, mode)(rows[a : a + n], 0) if n else np.zeros(66)
        for a, n in zip(starts, counts, strict=True)
    ])
    for _ in range(2):
        y = torch.nn.functional.embedding_bag(
            torch.from_numpy(numbers), torch.from_numpy(table), torch.from_numpy(starts),
            mode=mode, per_sample_weights=None if each is None else torch.from_numpy(each),
        )
        np.testing.assert_allclose(y.numpy(), wanted, 1e-6)


def test_max_of_bags_knows_the_first_row_of_each_maximum():
    weight = torch.from_numpy(RNG.integers(0, 3, (40, 5)).astype(np.float32)).requires_grad_()
    numbers = torch.from_numpy(RNG.integers(0, 40, (30, 6)))
    torch.nn.functional.embedding_bag(numbers, weight, mode="max").sum().backward()
    wanted = np.zeros((40, 5))
    for bag in numbers.numpy():
        for column in range(5):
            wanted[bag[weight.detach().numpy()[bag, column].argmax()], column] += 1
    np.testing.assert_array_equal(weight.grad.numpy(), wanted)


def test_a_kernel_sums_bags():
    table, counts = RNG.normal(size=(50, 66)), COUNTS["uneven"]
    bags, numbers = np.repeat(np.arange(900), counts), RNG.integers(0, 50, counts.sum())
    sum_bags(table, numbers, bags, 900, None)
    y = sum_bags(table, numbers, bags, 900, None)
    assert y is not None
    wanted = np.zeros((900, 66))
    np.add.at(wanted, bags, table[numbers])
    np.testing.assert_allclose(y, wanted)


def test_a_kernel_finds_maxima_and_their_first_rows():
    table, numbers = RNG.integers(0, 4, (50, 66)).astype(float), RNG.integers(0, 50, (200, 7))
    table[7, 5] = np.nan
    args = table, numbers.reshape(-1), np.repeat(np.arange(200), 7), 200
    find_bag_maxima(*args)
    actual = find_bag_maxima(*args)
    assert actual is not None
    rows = table[numbers]
    np.testing.assert_array_equal(actual[0], rows.max(1))
    first = np.take_along_axis(numbers[:, :, None], rows.argmax(1)[:, None], 1)[:, 0]
    np.testing.assert_array_equal(actual[1], first)
