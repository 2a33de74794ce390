"""Histograms count values on a bin's edge where PyTorch's arithmetic puts them."""

from __future__ import annotations

import pytest


def on_edges(torch):
    return torch.arange(-10, 11) / 10


def test_values_on_edges_are_counted_where_their_position_rounds_to(torch):
    x = on_edges(torch)
    assert torch.histc(x, 10).tolist() == [3, 2, 1, 2, 2, 2, 2, 2, 2, 3]
    assert torch.histogram(x, 10).hist.tolist() == [2, 2, 3, 2, 1, 2, 2, 2, 2, 3]


def test_edges_are_those_of_linspace(torch):
    x = on_edges(torch)
    assert torch.equal(torch.histogram(x, 7).bin_edges, torch.linspace(-1, 1, 8))


def test_weights_are_summed_in_their_dtype(torch):
    weight = torch.tensor([1e8, 1.0, 1.0])
    hist = torch.histogram(torch.zeros(3), 1, range=(0.0, 1.0), weight=weight).hist
    assert hist.tolist() == [1e8]


def test_values_outside_and_nan_are_dropped(torch):
    x = torch.tensor([float("nan"), -5.0, 0.0, 0.5, 1.0, float("inf")])
    assert torch.histc(x, 2, 0.0, 1.0).tolist() == [1, 2]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda t: t.histc(t.ones(3), 0), RuntimeError,
     "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
    (lambda t: t.histc(t.ones(3), 2, 0.0, float("inf")), RuntimeError,
     "torch.histc: range of [0, inf] is not finite"),
    (lambda t: t.histc(t.ones(3), 2, 2.0, 1.0), RuntimeError,
     "torch.histc: max must be larger than min"),
    (lambda t: t.histc(t.ones(3, dtype=t.int64), 2), NotImplementedError,
     "\"histogram_cpu\" not implemented for 'Long'"),
    (lambda t: t.histogram(t.ones(3), 3, range=(2.0, 1.0)), RuntimeError,
     "torch.histogramdd: min should not exceed max, but got min 2 max 1 for dimension 0"),
    (lambda t: t.histogram(t.ones(3), t.ones(2, 2)), RuntimeError,
     "torch.histogramdd: bins tensor should have one dimension, but got 2 dimensions in the bins "
     "tensor for dimension 0"),
    (lambda t: t.histogram(t.ones(3), 3, weight=t.ones(2)), RuntimeError,
     "torch.histogramdd: if weight tensor is provided it should have the same shape as the input "
     "tensor excluding its innermost dimension, but got input with shape [3, 1] and weight with "
     "shape [2]"),
])
def test_refusals(torch, call, error, text):
    with pytest.raises(error) as caught:
        call(torch)
    assert text in str(caught.value)
