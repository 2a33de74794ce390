"""Quantization-aware training: fake quantizers, the layers that train with them, conversion."""

from __future__ import annotations

from importlib import import_module

import pytest

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*reduce_range", "ignore:torch.ao.quantization", "ignore:must run observer")


@pytest.fixture
def ao(torch):
    if torch.__name__ == "torch":
        torch.backends.quantized.engine = "fbgemm"
    import_module(torch.__name__ + ".ao.nn.intrinsic.qat")
    return import_module(torch.__name__ + ".ao.quantization")


def test_fake_quantizers_round_and_pass_gradients(torch, ao):
    fake = ao.FakeQuantize(quant_min=0, quant_max=255, averaging_constant=1.0)
    x = torch.tensor([-0.5, 0.013, 2.05], requires_grad=True)
    y = fake(x)
    steps = y / fake.scale
    assert torch.allclose(steps, steps.round(), atol=1e-4)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    fake.disable_fake_quant()
    assert torch.equal(fake(x), x)
    fake.enable_fake_quant()
    fake.disable_observer()
    scale = fake.scale.clone()
    fake(x * 100)
    assert torch.equal(fake.scale, scale)
    assert "fake_quant_enabled=tensor([1], dtype=torch.uint8)" in repr(fake)


def test_fused_fake_quantizers(torch, ao):
    x = torch.tensor([[-1.0, 0.3], [0.2, 4.0]])
    by_tensor = ao.default_fused_act_fake_quant()
    by_tensor(x)
    assert by_tensor.scale.tolist() == pytest.approx([5 / 255])
    assert by_tensor.zero_point.tolist() == [51]
    by_channel = ao.default_fused_per_channel_wt_fake_quant()
    y = by_channel(x)
    assert by_channel.scale.tolist() == pytest.approx([1 / 128, 4 / 255])
    assert by_channel.zero_point.tolist() == [0, -128]
    assert torch.allclose(y, x, atol=0.01)
    loaded = ao.default_fused_per_channel_wt_fake_quant()
    loaded.load_state_dict(by_channel.state_dict())
    assert torch.equal(loaded.scale, by_channel.scale)


def _model(torch, ao):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
            self.conv, self.bn = torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4)
            self.relu, self.fc = torch.nn.ReLU(), torch.nn.Linear(4 * 16, 2)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            return self.dequant(self.fc(torch.flatten(x, 1)))

    torch.manual_seed(0)
    return Model().train()


@pytest.mark.parametrize("version", [0, 1])
def test_a_model_is_trained_and_converted(torch, ao, version):
    model = ao.fuse_modules_qat(_model(torch, ao), ["conv", "bn", "relu"])
    model.qconfig = ao.get_default_qat_qconfig("fbgemm", version)
    trained = ao.prepare_qat(model)
    assert type(trained.conv).__name__ == "ConvBnReLU2d"
    assert "weight_fake_quant" in dict(trained.fc.named_children())
    optimizer = torch.optim.SGD(trained.parameters(), 0.1)
    x, target = torch.randn(16, 2, 6, 6), torch.arange(16) % 2
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(trained(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    trained.apply(ao.disable_observer)
    trained.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
    assert not trained.conv.bn.training
    trained.eval()
    quantized = ao.convert(trained)
    assert type(quantized.conv).__name__ == "ConvReLU2d"
    assert (quantized(x).argmax(1) == trained(x).argmax(1)).float().mean() > 0.8
    assert not [name for name in quantized.state_dict() if "fake_quant" in name]


def test_evaluated_models_are_refused(torch, ao):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2)).eval()
    model.qconfig = ao.get_default_qat_qconfig("fbgemm")
    with pytest.raises(AssertionError, match="prepare_qat only works on models in training mode"):
        ao.prepare_qat(model)
    with pytest.raises(AssertionError, match="qconfig must be provided for QAT module"):
        import_module(torch.__name__ + ".ao.nn.qat").Linear(2, 2)


def test_nothing_within_a_trained_layer_is_observed(torch):
    """The normalization of a ConvBnReLU2d is no result of the model."""
    quantization, nn = torch.ao.quantization, torch.nn
    model = nn.Sequential(quantization.QuantStub(), nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2),
                          nn.ReLU(), quantization.DeQuantStub()).train()
    quantization.fuse_modules_qat(model, ["1", "2", "3"], inplace=True)
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    prepared = quantization.prepare_qat(model)
    observers = [name for name, _ in prepared.named_modules()
                 if name.endswith("activation_post_process") and name.count(".") == 1]
    assert observers == ["0.activation_post_process", "1.activation_post_process"]
    assert not hasattr(prepared[1].bn, "activation_post_process")


def test_a_linear_layer_is_trained_with_its_normalization(torch):
    quantization, nn = torch.ao.quantization, torch.nn
    model = nn.Sequential(quantization.QuantStub(), nn.Linear(4, 3), nn.BatchNorm1d(3),
                          quantization.DeQuantStub()).train()
    quantization.fuse_modules_qat(model, ["1", "2"], inplace=True)
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    prepared = quantization.prepare_qat(model)
    x = torch.randn(16, 4)
    for _ in range(3):
        prepared(x)
    expected = prepared.eval()(x)
    torch.testing.assert_close(quantization.convert(prepared)(x), expected, atol=0.05, rtol=0)


def test_fused_layers_draw_what_pytorch_draws(torch, ao):
    """Preparing a model leaves the generator where PyTorch leaves it: a seed keeps its run."""
    qat, qconfig = torch.ao.nn.intrinsic.qat, ao.get_default_qat_qconfig("fbgemm")
    for bias in (False, True):
        torch.manual_seed(0)
        convolution = qat.ConvBnReLU2d(2, 4, 3, bias=bias, qconfig=qconfig)
        after = torch.rand(1)
        torch.manual_seed(0)
        assert torch.equal(convolution.weight, torch.nn.Conv2d(2, 4, 3, bias=False).weight)
        assert torch.equal(convolution.bn.weight, torch.rand(4))
        if bias:
            bound = 18 ** -0.5
            assert torch.equal(convolution.bias, torch.empty(4).uniform_(-bound, bound))
        assert torch.equal(after, torch.rand(1))
        torch.manual_seed(0)
        linear = qat.LinearBn1d(3, 4, bias=bias, qconfig=qconfig)
        after = torch.rand(1)
        torch.manual_seed(0)
        assert torch.equal(linear.weight, torch.nn.Linear(3, 4, bias=bias).weight)
        assert torch.equal(linear.bn.weight, torch.rand(4))
        assert torch.equal(after, torch.rand(1))


def test_statistics_of_a_fused_linear_layer_freeze(torch, ao):
    qat, qconfig = torch.ao.nn.intrinsic.qat, ao.get_default_qat_qconfig("fbgemm")
    layer = qat.LinearBn1d(3, 4, qconfig=qconfig).freeze_bn_stats().train()
    assert not layer.bn.training
    assert layer.update_bn_stats().train().bn.training
