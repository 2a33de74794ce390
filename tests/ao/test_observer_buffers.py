"""Observers change their buffers in place, quantized operators take PyTorch's edge cases."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("name", [
    "MinMaxObserver", "PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver",
    "HistogramObserver"])
def test_observers_write_their_buffers_in_place(torch: Any, name: str) -> None:
    observer = getattr(torch.ao.quantization, name)(dtype=torch.qint8)
    before = list(map(id, observer._buffers.values()))
    for _ in range(3):
        observer(torch.rand(4, 5))
    assert list(map(id, observer._buffers.values())) == before
    assert observer.max_val.max().item() <= 1


def test_only_observers_of_extremes_refuse_a_reduced_symmetric_range(torch: Any) -> None:
    options = {"dtype": torch.quint8, "qscheme": torch.per_tensor_symmetric, "reduce_range": True}
    observer = torch.ao.quantization.HistogramObserver(bins=256, **options)
    observer(torch.linspace(-1, 1, 100))
    assert observer.calculate_qparams()[1].tolist() == [128]
    with pytest.raises(NotImplementedError, match="Cannot reduce range"):
        torch.ao.quantization.MinMaxObserver(**options)


def test_hardtanh_of_swapped_bounds_gives_the_upper_one(torch: Any) -> None:
    x = torch.quantize_per_tensor(torch.tensor([-2.0, 0.0, 2.0]), 0.5, 10, torch.quint8)
    y = torch.ao.nn.quantized.functional.hardtanh(x, 0.5, -0.5)
    assert y.dequantize().tolist() == [-0.5, -0.5, -0.5]


def test_narrow_tables_take_empty_bags(torch: Any) -> None:
    space = torch.ops.quantized
    table = space.embedding_bag_2bit_prepack(torch.ones(4, 8))
    empty = torch.zeros(0, dtype=torch.long)
    bags = space.embedding_bag_2bit_rowwise_offsets(table, empty, torch.tensor([0]))
    assert bags.tolist() == [[0.0] * 8]


def test_functions_that_pytorch_writes_in_cpp(torch: Any) -> None:
    x, out = torch.arange(4.0).reshape(1, 1, 4), torch.empty(1, 1, 8)
    expected = [[[2, 1, 0, 1, 2, 3, 2, 1]]]
    assert torch._C._nn.reflection_pad1d(x, 2, out=out).tolist() == expected
    assert out.tolist() == expected
    assert torch._C._nn.replication_pad2d(x, (1, 1, 0, 0)).tolist() == [[[0, 0, 1, 2, 3, 3]]]
    weights = [torch.ones(8, 4), torch.ones(8, 2)]
    state = (torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
    y, h, c = torch._VF.lstm(x, state, weights, False, 1, 0.0, False, False, False)
    assert y.shape == h.shape == c.shape == (1, 1, 2)
