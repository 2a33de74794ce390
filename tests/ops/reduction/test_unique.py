"""unique along an axis: every NaN is a value of its own."""

from __future__ import annotations


def test_each_nan_counts_once(torch):
    nan = float("nan")
    values, counts = torch.unique(torch.tensor([0, 0, nan, nan, 1]), dim=0, return_counts=True)
    assert sorted(counts.tolist()) == [1, 1, 1, 2]
    assert values.isnan().sum() == 2
    rows = torch.tensor([[0, 2], [0, 2], [nan, 1], [nan, 1]])
    assert torch.unique(rows, dim=0).shape == (3, 2)


def test_rows_with_nan_come_in_the_order_of_std_sort(torch):
    nan = float("nan")
    rows = torch.tensor([[nan, 1], [0, 1], [nan, 0], [nan, 1], [-1, 2]])
    values, inverse, counts = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    assert inverse.tolist() == [1, 2, 0, 3, 4]
    assert counts.tolist() == [1] * 5
    assert values[:, 1].tolist() == [0, 1, 1, 1, 2]
    many = torch.tensor([[(i * 7) % 5, (i * 3) % 4] for i in range(60)], dtype=torch.float32)
    many[::9] = nan  # more rows than are inserted one by one
    inverse, counts = torch.unique(many, dim=0, return_inverse=True, return_counts=True)[1:]
    assert (counts.tolist(), (inverse * torch.arange(60)).sum().item()) == (COUNTS, CHECKSUM)


COUNTS = [int(c) for c in "2211323321212211111111111121111111211113111"]
CHECKSUM = 31947
