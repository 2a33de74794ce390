"""Static quantization of convolutional models; quantized tables; histograms."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*reduce_range", "ignore:torch.ao.quantization", "ignore:must run observer")


@pytest.fixture
def ao(torch):
    if torch.__name__ == "torch":
        torch.backends.quantized.engine = "fbgemm"
    return import_module(torch.__name__ + ".ao.quantization")


@pytest.fixture
def nnq(torch, ao):
    return import_module(torch.__name__ + ".ao.nn.quantized")


def test_convolutions_of_integers_are_exact(torch, nnq):
    """With scales of 1 a quantized convolution is one of integers, cut to a byte."""
    torch.manual_seed(0)
    x = torch.randint(0, 6, (2, 4, 7, 7)).float()
    weight = torch.randint(-3, 4, (6, 2, 3, 3)).float()
    bias = torch.arange(6).float()
    layer = nnq.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
    layer.set_weight_bias(torch.quantize_per_channel(
        weight, torch.ones(6).double(), torch.zeros(6).long(), 0, torch.qint8), bias)
    layer.scale, layer.zero_point = 1.0, 100
    y = layer(torch.quantize_per_tensor(x, 1.0, 3, torch.quint8))
    wanted = torch.nn.functional.conv2d(x, weight, bias, 2, 1, 1, 2)
    assert torch.equal(y.dequantize(), wanted.clamp(-100, 155))
    assert repr(layer).startswith("QuantizedConv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), scale=")
    loaded = nnq.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
    loaded.load_state_dict(layer.state_dict())
    assert torch.equal(loaded(torch.quantize_per_tensor(x, 1.0, 3, torch.quint8)).int_repr(),
                       y.int_repr())


def test_convolutions_of_other_ranks(torch, nnq):
    for kind, shape in ((nnq.Conv1d, (1, 2, 5)), (nnq.Conv3d, (1, 2, 3, 3, 3))):
        layer = kind(2, 3, 2)
        weight = torch.ones(3, 2, *[2] * (len(shape) - 2))
        layer.set_weight_bias(torch.quantize_per_tensor(weight, 1.0, 0, torch.qint8), None)
        y = layer(torch.quantize_per_tensor(torch.ones(shape), 1.0, 0, torch.quint8))
        assert (y.dequantize() == 2 * 2 ** (len(shape) - 2)).all()


def _model(torch, ao, nnq):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
            self.conv, self.bn = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
            self.relu, self.sum = torch.nn.ReLU(), nnq.FloatFunctional()
            self.last = torch.nn.Conv2d(8, 8, 3, padding=1)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            return self.dequant(self.sum.add(x, self.last(x)))

    torch.manual_seed(0)
    return Model().eval()


def test_a_fused_model_is_quantized(torch, ao, nnq):
    model = _model(torch, ao, nnq)
    fused = ao.fuse_modules(model, [["conv", "bn", "relu"]])
    x = torch.randn(4, 3, 8, 8)
    assert type(fused.conv).__name__ == "ConvReLU2d"
    assert torch.allclose(fused(x), model(x), atol=1e-5)
    fused.qconfig = ao.get_default_qconfig("fbgemm")
    prepared = ao.prepare(fused)
    for _ in range(2):
        prepared(x)
    quantized = ao.convert(prepared)
    assert type(quantized.conv).__name__ == "ConvReLU2d"
    assert repr(quantized.conv).startswith("QuantizedConvReLU2d(3, 8, kernel_size=(3, 3)")
    error = (quantized(x) - model(x)).abs().mean()
    assert error < 0.03 * model(x).abs().mean()
    assert "sum.scale" in quantized.state_dict()


def test_batch_normalization_alone_is_a_module_of_its_own(torch, ao, nnq):
    model = _model(torch, ao, nnq).eval()
    model.qconfig = ao.default_qconfig
    prepared = ao.prepare(model)
    x = torch.randn(2, 3, 8, 8)
    prepared(x)
    quantized = ao.convert(prepared)
    assert type(quantized.bn).__name__ == "BatchNorm2d"
    assert quantized(x).shape == model(x).shape and "bn.scale" in quantized.state_dict()


def test_tables_in_bytes(torch, ao, nnq):
    torch.manual_seed(0)
    table = torch.nn.Embedding(10, 4)
    table.qconfig = ao.float_qparams_weight_only_qconfig
    bag = torch.nn.EmbeddingBag(10, 4, mode="sum")
    bag.qconfig = ao.float_qparams_weight_only_qconfig
    indices = torch.tensor([1, 5, 1, 9])
    rows = nnq.Embedding.from_float(table)
    assert torch.allclose(rows(indices), table(indices), atol=0.02)
    assert rows.weight().dtype is torch.quint8
    sums = nnq.EmbeddingBag.from_float(bag)
    offsets = torch.tensor([0, 3])
    assert torch.allclose(sums(indices, offsets), bag(indices, offsets), atol=0.05)
    assert "dtype=torch.quint8" in repr(sums)
    model = torch.nn.Sequential(copy.deepcopy(bag))
    dynamic = ao.quantize_dynamic(model, {torch.nn.EmbeddingBag: bag.qconfig})
    assert type(dynamic[0]).__name__ == "EmbeddingBag"


def test_histograms_cut_outliers(torch, ao):
    observer = ao.HistogramObserver()
    for i in range(4):
        observer(torch.sin(torch.arange(1000.0) * 1.1 + i) * (i + 1))
    scale, zero_point = observer.calculate_qparams()
    assert scale.item() == pytest.approx(0.0313417, abs=1e-6)
    assert zero_point.item() == 128
    outliers = ao.HistogramObserver()
    outliers(torch.cat([torch.linspace(-1, 1, 10000), torch.tensor([100.0])]))
    least = ao.MinMaxObserver()
    least(torch.tensor([-1.0, 100.0]))
    assert outliers.calculate_qparams()[0] <= least.calculate_qparams()[0]
