"""Values of fill, masked_fill and index_fill in another dtype."""

from __future__ import annotations

import pytest


def test_float_tensors_fill_integers(torch):
    x, mask = torch.zeros(2, dtype=torch.int32), torch.tensor([True, False])
    assert x.masked_fill(mask, torch.tensor(1.7)).tolist() == [1, 0]
    assert x.index_fill(0, torch.tensor([1]), torch.tensor(2.5)).tolist() == [0, 2]
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill(mask, torch.tensor(1e20))


def test_every_number_fills_bools(torch):
    x, mask = torch.zeros(2, dtype=torch.bool), torch.tensor([True, False])
    assert x.masked_fill(mask, torch.tensor(1.5)).tolist() == [True, False]
    assert x.masked_fill(mask, 1j).tolist() == [True, False]
    assert x.index_fill(0, torch.tensor([0]), torch.tensor(1.5)).tolist() == [True, False]
    assert x.clone().fill_(1j).tolist() == [True, True]


def test_complex_numbers_without_imaginary_part_fill_floats(torch):
    mask = torch.tensor([True, False])
    assert torch.zeros(2).masked_fill(mask, torch.tensor(1 + 0j)).tolist() == [1.0, 0.0]
    with pytest.raises(RuntimeError, match="value cannot be converted to type float"):
        torch.zeros(2).masked_fill(mask, torch.tensor(1 + 1j))
