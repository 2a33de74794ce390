"""Weights of 8 and 4 bits under inputs in floating point, and products of int8 matrices."""

import numpy as np
import pytest

import flambeau


@pytest.mark.parametrize("shape", [(3, 5, 4), (300, 513, 130)])
def test_int_mm_is_exact(torch, shape):
    m, k, n = shape
    a = torch.randint(-128, 128, (m, k)).to(torch.int8)
    b = torch.randint(-128, 128, (k, n)).to(torch.int8)
    expected = a.numpy().astype(np.int64) @ b.numpy().astype(np.int64)
    for _ in range(3):  # the third product is a kernel's
        assert (torch._int_mm(a, b).numpy() == expected).all()
    assert (torch._int_mm(a, b.t().contiguous().t()).numpy() == expected).all()


def test_eight_bits(torch):
    x, scales = torch.randn(5, 64), torch.rand(48)
    weight = torch.randint(-128, 128, (48, 64)).to(torch.int8)
    y = torch._weight_int8pack_mm(x, weight, scales)
    assert torch.allclose(y, (x @ weight.float().T) * scales, rtol=1e-5, atol=1e-3)


def test_four_bits(torch):
    x, parameters = torch.randn(5, 64), torch.rand(2, 48, 2)
    codes = torch.randint(0, 16, (48, 64)).to(torch.int32)
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 2)
    assert packed.shape == (48, 32) and packed.dtype is torch.uint8
    y = torch._weight_int4pack_mm_for_cpu(x, packed, 32, parameters)
    scale, zero = (parameters[..., i].T.repeat_interleave(32, dim=1) for i in (0, 1))
    assert torch.allclose(y, x @ ((codes - 8) * scale + zero).T, rtol=1e-4, atol=1e-3)
    with pytest.raises(RuntimeError, match="qGroupSize"):
        torch._weight_int4pack_mm_for_cpu(x, packed, 33, parameters)


@pytest.mark.parametrize(("bits", "error"), [(8, 0.02), (4, 0.2)])
def test_models(bits, error):
    nn = flambeau.nn
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    quantized = flambeau.ao.nn.weight_only.quantize_weights(model, bits)
    x = flambeau.randn(20, 64)
    expected = model(x)
    assert (quantized(x) - expected).abs().max() < error * expected.abs().max()
    assert not (quantized(x) == expected).all()
    twin = flambeau.ao.nn.weight_only.quantize_weights(model, bits)
    twin.load_state_dict(quantized.state_dict())
    assert twin(x).equal(quantized(x))
    with pytest.raises(ValueError, match="4 or 8 bits"):
        flambeau.ao.nn.weight_only.quantize_weights(model, 3)
