"""Layers whose scripts depend on the rank of their input."""

import io

import pytest


def save_and_load(torch, module, *inputs):
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module.eval()), file)
    file.seek(0)
    return torch.jit.load(file)(*inputs), module(*inputs)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("shape", [(3, 5, 8), (5, 8)])
def test_attention_of_batches_and_without(torch, batch_first, shape):
    x = torch.randn(shape)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=batch_first)
    (y, weights), (expected, expected_weights) = save_and_load(torch, module, x, x, x)
    assert torch.allclose(y, expected, atol=1e-5)
    assert torch.allclose(weights, expected_weights, atol=1e-5)


@pytest.mark.parametrize(("mode", "rank"), [
    ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("nearest", 2), ("trilinear", 3),
])
def test_upsampling_of_all_ranks(torch, mode, rank):
    x = torch.randn(1, 2, *(4,) * rank)
    y, expected = save_and_load(torch, torch.nn.Upsample(scale_factor=2, mode=mode), x)
    assert y.shape == expected.shape and torch.allclose(y, expected, atol=1e-5)
