"""Views of quantized tensors and writes into them are PyTorch's; tests run under both."""

import io
import warnings

import pytest


@pytest.fixture(autouse=True)
def _without_pytorchs_deprecations():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def by_channel(torch, x, axis):
    count = x.shape[axis]
    return torch.quantize_per_channel(
        x, torch.arange(1, count + 1) * 0.25, torch.arange(count), axis, torch.quint8)


def test_parts_of_channels_have_the_scales_of_those_channels(torch):
    q = by_channel(torch, torch.arange(24.0).reshape(2, 3, 4), 1)
    assert torch.equal(q[1].dequantize(), q.dequantize()[1]) and q[1].q_per_channel_axis() == 0
    cut = q[:, 1:]
    assert torch.equal(cut.dequantize(), q.dequantize()[:, 1:])
    assert cut.q_per_channel_scales().tolist() == [0.5, 0.75]
    alone = q.select(1, 2)
    assert (alone.q_scale(), alone.q_zero_point()) == (0.75, 2)
    assert q.unsqueeze(0).q_per_channel_axis() == 2
    assert q.unsqueeze(0).squeeze(0).q_per_channel_axis() == 1
    with pytest.raises(RuntimeError, match="Squeeze is only possible on non-axis"):
        by_channel(torch, torch.ones(1, 2), 0).squeeze(0)


def test_numbers_are_quantized_as_they_are_written(torch):
    q = torch.quantize_per_tensor(torch.zeros(2, 3), 0.5, 10, torch.quint8)
    q[0] = torch.tensor([1.1, 2.0, 1e6])
    q[1, 0] = torch.tensor([3.0])
    assert q.int_repr().tolist() == [[12, 14, 255], [16, 10, 10]]
    q.masked_fill_(torch.tensor([True, False, False]), 2)
    assert q.int_repr().tolist() == [[14, 14, 255], [14, 10, 10]]
    q[torch.tensor([0, 1]), torch.tensor([1, 2])] = torch.tensor([0.0, 4.0])
    assert q.int_repr().tolist() == [[14, 10, 255], [14, 10, 18]]
    p = by_channel(torch, torch.zeros(2, 3), 0)
    p[1] = torch.ones(3)
    assert p.int_repr().tolist() == [[0, 0, 0], [3, 3, 3]]
    with pytest.raises(RuntimeError, match="masked_fill__quantized_cpu for quantized tensors"):
        p.masked_fill_(torch.tensor(True), 1)
    with pytest.raises(RuntimeError, match="only works with contiguous and NHWC"):
        q[:, 0] = torch.ones(2)
    with pytest.raises(RuntimeError, match="please use dequantize"):
        torch.ones(2, 3).copy_(q)
    with pytest.raises(RuntimeError, match="only supported for accumulate=False"):
        q.index_put((torch.tensor([0]),), torch.ones(1, 3), accumulate=True)


def test_orders_of_memory(torch):
    q = torch.quantize_per_tensor(torch.rand(2, 3, 4, 5), 0.1, 0, torch.quint8)
    last = q.to(memory_format=torch.channels_last)
    assert last.stride() == (60, 1, 15, 3) and last.equal(q)
    x = torch.rand(10, 2, 1, 1)  # in both orders; a conversion goes by the strides
    assert x.to(memory_format=torch.channels_last).stride() == (2, 1, 2, 2)
    assert x.contiguous(memory_format=torch.channels_last).stride() == (2, 1, 1, 1)


@pytest.mark.parametrize(("name", "expected"), [
    ("quint4x2", [0x20, 0x64, 0xA8, 0xEC, 0x0F]), ("quint2x4", [0xF8, 0xFF, 0x03])])
def test_bytes_that_hold_several_integers(torch, name, expected):
    x = torch.arange(0.0, 18.0, 2.0).reshape(1, 9)
    q = torch.quantize_per_tensor(x, 1.0, 0, getattr(torch, name))
    most = {"quint4x2": 15, "quint2x4": 3}[name]
    assert q.dequantize().tolist() == x.clamp(max=most).tolist()
    assert q.int_repr().tolist() == expected
    assert q.untyped_storage().nbytes() == len(expected)
    file = io.BytesIO()
    torch.save(q, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.dtype is q.dtype and loaded.int_repr().tolist() == expected


def test_views_of_a_file_share_their_storage(torch):
    q = torch.quantize_per_tensor(torch.rand(5, 2), 0.1, 0, torch.quint8)
    file = io.BytesIO()
    torch.save((q, q[:, 1]), file)
    file.seek(0)
    whole, column = torch.load(file)
    assert column.equal(q[:, 1]) and whole.storage().data_ptr() == column.storage().data_ptr()
