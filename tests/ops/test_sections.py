"""Pieces of an axis by their other names."""

import pytest

import flambeau as torch


def test_sections_and_indices_by_name():
    x = torch.arange(6)
    two = torch.tensor_split(x, indices=(2,), dim=0)
    assert [p.tolist() for p in two] == [[0, 1], [2, 3, 4, 5]]
    assert [len(p) for p in x.tensor_split(sections=4)] == [2, 2, 1, 1]
    assert [p.tolist() for p in torch.hsplit(x, sections=2)] == [[0, 1, 2], [3, 4, 5]]
    for call in (lambda: torch.tensor_split(x), lambda: torch.tensor_split(x, 2, sections=2)):
        with pytest.raises(TypeError, match=r"tensor_split\(\) received an invalid combination"):
            call()
