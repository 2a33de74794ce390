"""Quantized transposed, dynamic and fused layers, and reference modules, as PyTorch has them."""

from __future__ import annotations

import pytest


def quantized(torch, *shape, dtype=None, seed=0):
    torch.manual_seed(seed)
    return torch.quantize_per_tensor(torch.randn(*shape), 0.05, 3 if dtype is None else 0,
                                     dtype or torch.quint8)


def same(torch, own, reference):
    """Integers may differ by one where the rounding of products does."""
    assert (own.int_repr().int() - reference.int_repr().int()).abs().max() <= 1
    assert own.q_scale() == pytest.approx(reference.q_scale())


@pytest.mark.parametrize(("rank", "groups"), [(1, 1), (2, 2), (3, 1)])
def test_transposed(torch, rank, groups):
    nnq = torch.ao.nn.quantized
    x = quantized(torch, 2, 4, *(5,) * rank)
    layer = getattr(nnq, f"ConvTranspose{rank}d")(
        4, 6, 3, stride=2, padding=1, output_padding=1, groups=groups)
    layer.set_weight_bias(quantized(torch, 4, 6 // groups, *(3,) * rank, dtype=torch.qint8, seed=1),
                          torch.randn(6))
    layer.scale, layer.zero_point = 0.1, 7
    float_layer = getattr(torch.nn, f"ConvTranspose{rank}d")(
        4, 6, 3, stride=2, padding=1, output_padding=1, groups=groups)
    float_layer.weight.data, float_layer.bias.data = layer.weight().dequantize(), layer.bias()
    expected = float_layer(x.dequantize()).detach()
    same(torch, layer(x), torch.quantize_per_tensor(expected, 0.1, 7, torch.quint8))
    assert "output_padding=(1" in repr(layer) and "QuantizedConvTranspose" in repr(layer)
    other = getattr(nnq, f"ConvTranspose{rank}d")(
        4, 6, 3, stride=2, padding=1, output_padding=1, groups=groups)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x).int_repr(), layer(x).int_repr())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d"])
def test_dynamic_results_have_the_integers_of_the_input(torch, name):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 6)
    layer = getattr(torch.ao.nn.quantized.dynamic, name)(3, 3, 2)
    layer.set_weight_bias(quantized(torch, 3, 3, 2, 2, dtype=torch.qint8), torch.zeros(3))
    y = layer(x)
    scale = (float(x.max()) - float(x.min())) / 127
    steps = y / scale
    assert (steps - steps.round()).abs().max() < 1e-2


def test_sums_and_activations_behind_layers(torch):
    nniq = torch.ao.nn.intrinsic.quantized
    torch.backends.quantized.engine = "onednn"
    try:
        x, extra = quantized(torch, 1, 3, 6, 6), quantized(torch, 1, 4, 4, 4, seed=5)
        weight = quantized(torch, 4, 3, 3, 3, dtype=torch.qint8, seed=1)
        for kind, relu in ((nniq.ConvAdd2d, False), (nniq.ConvAddReLU2d, True)):
            layer = kind(3, 4, 3)
            layer.set_weight_bias(weight, torch.ones(4))
            layer.scale, layer.zero_point = 0.1, 30
            y = torch.nn.functional.conv2d(x.dequantize(), weight.dequantize(), torch.ones(4))
            y = y + extra.dequantize()
            y = y.relu() if relu else y
            same(torch, layer(x, extra), torch.quantize_per_tensor(y, 0.1, 30, torch.quint8))
        rows, weight = quantized(torch, 5, 6), quantized(torch, 3, 6, dtype=torch.qint8, seed=2)
        for layer, function in (
            (nniq.LinearLeakyReLU(6, 3, 0.1), lambda v: torch.nn.functional.leaky_relu(v, 0.1)),
            (nniq.LinearTanh(6, 3), torch.tanh),
        ):
            layer.set_weight_bias(weight, torch.ones(3))
            layer.scale, layer.zero_point = 0.02, 100
            y = function(rows.dequantize() @ weight.dequantize().T + 1)
            same(torch, layer(rows), torch.quantize_per_tensor(y, 0.02, 100, torch.quint8))
    finally:
        torch.backends.quantized.engine = "x86"


def test_reference_modules_round_their_weights(torch):
    reference = torch.ao.nn.quantized.reference
    settings = {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.1,
                "zero_point": 2}

    def rounded(weight):
        return torch.quantize_per_tensor(weight.detach(), 0.1, 2, torch.qint8).dequantize()

    torch.manual_seed(0)
    linear, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    own = reference.Linear.from_float(linear, settings)
    expected = torch.nn.functional.linear(x, rounded(linear.weight), linear.bias)
    assert torch.allclose(own(x), expected) and repr(own).startswith("QuantizedLinear(Reference)")
    assert own.get_quantized_weight().dtype == torch.qint8
    assert torch.equal(own.weight, linear.weight)
    cell = torch.nn.LSTMCell(4, 3)
    own = reference.LSTMCell.from_float(cell, {
        "weight_ih": settings, "weight_hh": settings, "is_decomposed": False})
    h = torch.randn(2, 3), torch.randn(2, 3)
    result = own(x, h)
    for name in ("weight_ih", "weight_hh"):
        getattr(cell, name).data = rounded(getattr(cell, name))
    assert all(map(torch.allclose, result, cell(x, h)))


def test_conversion_to_a_reference_model(torch):
    quantization = torch.ao.quantization
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        quantization.QuantStub(), torch.nn.Linear(4, 3), quantization.DeQuantStub()).eval()
    model.qconfig = quantization.default_qconfig
    prepared = quantization.prepare(model)
    x = torch.randn(8, 4)
    prepared(x)
    converted = quantization.convert(prepared, is_reference=True)
    assert type(converted[1]) is torch.ao.nn.quantized.reference.Linear
    model = torch.nn.Sequential(torch.nn.ConvTranspose2d(1, 1, 2))
    model.qconfig = quantization.default_per_channel_qconfig
    with pytest.raises(AssertionError, match="not supported yet for ConvTranspose"):
        quantization.prepare(model)


def test_engines(torch):
    assert set(torch.backends.quantized.supported_engines) >= {"fbgemm", "x86", "onednn"}
    with pytest.raises(RuntimeError, match="not a valid value for quantized engine"):
        torch.backends.quantized.engine = "nothing"
    assert torch.backends.quantized.engine == "x86"


def test_refusals_and_comparisons(torch):
    plain = torch.rand(2, 2)
    x = torch.quantize_per_tensor(plain, 0.5, 0, torch.qint8)
    assert not torch.equal(plain, x) and not torch.equal(x, plain) and torch.equal(x, x)
    rows = torch.quantize_per_channel(
        plain, torch.ones(2), torch.zeros(2, dtype=torch.long), 0, torch.qint8)
    quantized_ops = torch.ops.quantized
    with pytest.raises(RuntimeError, match="Only per-tensor quantization is supported in Matmul"):
        quantized_ops.matmul(rows, rows, 1.0, 0)
    with pytest.raises(RuntimeError, match="Only per-tensor quantization is supported in 'cat'"):
        quantized_ops.cat([rows, rows], 0, 1.0, 0)
    packed = quantized_ops.linear_prepack(x, torch.ones(2))
    assert packed.bias().tolist() == [1.0, 1.0]
    wide = torch.quantize_per_tensor(plain, 0.1, 0, torch.qint32)
    for function, scale in ((torch.sigmoid, 2**-32), (torch.tanh, 2**-31)):
        y = function(wide)
        assert (y.q_scale(), y.q_zero_point()) == (scale, 0)
