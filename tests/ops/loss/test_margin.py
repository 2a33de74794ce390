"""Margin losses count positive violations only: those that are NaN are none, as in PyTorch."""

from __future__ import annotations

NAN, INF = float("nan"), float("inf")


def test_nan_is_no_violation(torch):
    x = torch.tensor([[INF, 1.0, 2.0], [1.0, NAN, 0.0], [-INF, 0.0, 1.0]], dtype=torch.float64)
    losses = torch.nn.functional.multi_margin_loss(x, torch.tensor([0, 0, 1]), reduction="none")
    assert losses.tolist() == [0, 0, 2 / 3]
    labels = torch.tensor([[0, -1, 1], [1, 2, -1], [0, 1, 2]])
    losses = torch.nn.functional.multilabel_margin_loss(x, labels, reduction="none")
    assert losses.tolist() == [0, 2 / 3, 0]
