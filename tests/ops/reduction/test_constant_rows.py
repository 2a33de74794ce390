"""Variances of equal numbers: zero, which tests of collapsed embeddings ask for (lightly)."""

from __future__ import annotations


def test_equal_numbers_do_not_vary(torch):
    for n in (8, 10, 100, 1000):
        rows = torch.nn.functional.normalize(torch.rand(32), dim=0).expand(n, -1)
        assert (torch.std(rows, 0) == 0).all() and (torch.var(rows.contiguous(), 0) == 0).all()
    assert torch.var_mean(torch.full((7, 3), 0.1), 0)[0].tolist() == [0.0] * 3
