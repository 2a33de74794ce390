"""unique along an axis: every NaN is a value of its own."""

from __future__ import annotations


def test_each_nan_counts_once(torch):
    nan = float("nan")
    values, counts = torch.unique(torch.tensor([0, 0, nan, nan, 1]), dim=0, return_counts=True)
    assert sorted(counts.tolist()) == [1, 1, 1, 2]
    assert values.isnan().sum() == 2
    rows = torch.tensor([[0, 2], [0, 2], [nan, 1], [nan, 1]])
    assert torch.unique(rows, dim=0).shape == (3, 2)
