"""Results that PyTorch lays out row by row, whatever the layout of the operands."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["logsigmoid", "rrelu"])
def test_activations_are_row_major(torch, name):
    function = getattr(torch.nn.functional, name)
    assert function(torch.randn(5, 3).t()).stride() == (5, 1)
    images = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert function(images).is_contiguous()


def test_rms_norm_is_row_major_or_channels_last(torch):
    norm = torch.nn.functional.rms_norm
    assert norm(torch.randn(4, 3).t(), (4,), torch.ones(4)).stride() == (4, 1)
    images = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert norm(images, (5,)).is_contiguous(memory_format=torch.channels_last)


def test_drawn_indices_can_be_viewed(torch):
    for dtype in (torch.float32, torch.float64):
        y = torch.multinomial(torch.ones(4, 6, dtype=dtype), 3)
        assert y.view(-1).shape == (12,)


def test_indices_along_axes_share_memory(torch):
    rows, columns = torch.unravel_index(torch.arange(6).reshape(2, 3), (2, 3))
    assert rows.stride() == columns.stride() == (6, 2)
    assert columns.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_consecutive_distinct_columns(torch):
    x = torch.tensor([[1, 1, 2, 3], [4, 4, 5, 6]])
    y = torch.unique_consecutive(x, dim=1)
    assert y.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert y.stride() == (1, 2)
    volume = torch.arange(6).reshape(1, 2, 3).repeat_interleave(2, 2)
    y = torch.unique_consecutive(volume, dim=2)
    assert y.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert y.stride() == (2, 1, 2)
