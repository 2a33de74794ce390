"""torch.onnx: what onnxruntime computes from an exported model, and what cannot be exported."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

BT = {0: Dim("b"), 1: Dim("t")}


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.Conv2d(8, 8, 3, groups=4, padding="same"), nn.GroupNorm(2, 8), nn.SiLU(),
        nn.MaxPool2d(2), nn.Hardswish(True), nn.AdaptiveAvgPool2d(3), nn.Dropout(),
        nn.Flatten(), nn.Linear(72, 5), nn.LogSoftmax(-1),
    )


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.rnn = kind(4, 6, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        out, state = self.rnn(self.embed(x))
        return self.head(out[:, -1]), state


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Transformer(8, 2, 1, 1, 16, batch_first=True, activation="gelu")

    def forward(self, x, y):
        return self.body(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(y.shape[1]))


class Functions(nn.Module):
    def forward(self, x, y):
        b, t = x.shape[0], x.size(1)
        mask = torch.tril(torch.ones(t, t)).bool()
        p = ((x @ x.mT) / 2).masked_fill(~mask, float("-inf")).softmax(-1)
        z = torch.cat([p @ x, y.expand(b, t, -1)], -1).reshape(b * t, -1)
        return (
            z[:, None, ::2] + torch.arange(b * t)[:, None, None], 3 - x, x**2, x.max(1),
            x.mean((0, 1)), x[:, [0, 1]], nn.functional.pad(x, (1, 2)), x.chunk(2, -1)[1],
            nn.functional.interpolate(x[:, None], scale_factor=2), x.clamp(-0.5, 0.5).std(-1),
            torch.where(x > 0, x, 2.0), nn.functional.layer_norm(x, (4,)), x.roll(1, 2),
            nn.functional.gelu(x, approximate="tanh"), x.argmax(-1), torch.stack([x, x], 1),
        )


class OneImage(nn.Module):
    """Convolutions and poolings of an image without a batch axis."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 4, 2, stride=2)

    def forward(self, x):
        y, pools = self.up(self.conv(x)), nn.functional
        return (
            pools.max_pool2d(y, 2), pools.avg_pool2d(y, 2), pools.adaptive_avg_pool2d(y, 1),
            pools.adaptive_avg_pool2d(y, 7), pools.adaptive_avg_pool2d(y, 5),
            pools.adaptive_max_pool2d(y, 4),
        )


CASES = {
    "convolutions": (convolutions, lambda b, t: (torch.randn(b, 3, 16, 16),), ({0: Dim("b")},)),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda b, t: (torch.randint(10, (b, t)),), (BT,)),
    "gru": (lambda: Recurrent(nn.GRU), lambda b, t: (torch.randint(10, (b, t)),), (BT,)),
    "transformer": (Translator, lambda b, t: (torch.randn(b, t, 8), torch.randn(b, 4, 8)),
                    {"x": BT, "y": {0: BT[0]}}),
    "one image": (OneImage, lambda b, t: (torch.randn(3, 16, 16),), None),
    "functions": (Functions, lambda b, t: (torch.randn(b, t, 4), torch.randn(4)), {"x": BT}),
}


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_computes_the_same(name):
    torch.manual_seed(0)
    make, inputs, shapes = CASES[name]
    module = make().eval()
    program = torch.onnx.export(module, inputs(2, 5), dynamic_shapes=shapes)
    for sizes in ((2, 5), (3, 7)):
        args = inputs(*sizes)
        wanted = torch.utils._pytree.tree_leaves(module(*args))
        actual = program(*args)
        assert len(actual) == len(wanted)
        for a, b in zip(actual, wanted, strict=True):
            assert a.dtype == b.dtype
            assert torch.allclose(a, b, atol=1e-5)


def test_names_and_files(tmp_path):
    import onnx

    file = tmp_path / "model.onnx"
    torch.onnx.export(nn.Linear(3, 2), (torch.ones(4, 3),), file, input_names=["features"],
                      output_names=["logits"], dynamic_axes={"features": {0: "batch"}})
    model = onnx.load(file)
    assert [i.name for i in model.graph.input] == ["features"]
    assert [o.name for o in model.graph.output] == ["logits"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert {i.name for i in model.graph.initializer} == {"weight", "bias"}


class Orthogonal(nn.Module):
    def forward(self, x):
        return torch.linalg.qr(x)[0]


def test_an_operator_without_conversion_is_named_before_anything_is_written(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(Orthogonal()))
    file = tmp_path / "model.onnx"
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"linalg_qr.* in 1\.0 \(Orthogonal\)"):
        torch.onnx.export(model, (torch.ones(2, 2),), file)
    assert not file.exists()
    training = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"model.eval\(\) before the export"):
        torch.onnx.export(training, (torch.ones(2, 1, 3, 3),), file)
    assert not file.exists()


class DropsFeatures(nn.Module):
    def forward(self, x):
        return torch.feature_dropout(x, 0.5, True)


def test_dropout_of_features_in_training_is_refused(tmp_path):
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"model.eval\(\) before the export"):
        torch.onnx.export(DropsFeatures(), (torch.ones(2, 1, 3, 3),), tmp_path / "model.onnx")


class AddsToAColumn(nn.Module):
    def forward(self, x):
        y = x * 2
        whole, row = y.view(-1), y[1]
        y[:, 0].add_(1)
        return y, whole * 1, row


class WritesPartsOfItsOwn(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.arange(3.0))

    def forward(self, x):
        bias = self.bias.clone()
        bias[1:2].zero_()
        y = torch.zeros(2, 3)
        before = x + y
        y[0].copy_(x[0])
        y[1, ::2] = x[1, ::2] * 3
        y[..., 1] = 5
        y.add_(bias)
        return before, y, y.t() + 1


class WritesWhereAMaskIs(nn.Module):
    def forward(self, x):
        y = x * 2
        transposed = y.t()
        y[x > 0] = 1.0
        return transposed + 1


@pytest.mark.parametrize("model", [AddsToAColumn, WritesPartsOfItsOwn, WritesWhereAMaskIs])
def test_writes_into_parts_of_other_values(model):
    model, x = model(), torch.randn(2, 3)
    program = torch.onnx.export(model, (x,))
    y = torch.randn(2, 3)
    result = model(y)
    wanted = result if isinstance(result, tuple) else (result,)
    for computed, expected in zip(program(y), wanted, strict=True):
        assert torch.equal(computed, expected)


class WritesSomeColumns(nn.Module):
    def forward(self, x):
        y = x * 2
        y[:, torch.tensor([0, 2])] = x[:, :2]
        return y


class WritesIntoARow(nn.Module):
    def forward(self, x):
        y = x * 2
        y[0].add_(1)
        return y


def test_writes_without_conversion_are_refused_with_their_module(tmp_path):
    x, file = torch.ones(2, 3), tmp_path / "model.onnx"
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"in 0 \(WritesSomeColumns\): index_"):
        torch.onnx.export(nn.Sequential(WritesSomeColumns()), (x,), file)
    varying = {"x": {0: torch.export.Dim("rows")}}
    with pytest.raises(torch.onnx.OnnxExporterError, match="a value whose sizes vary"):
        torch.onnx.export(WritesIntoARow(), (x,), file, dynamic_shapes=varying)
    assert not file.exists()


def test_writes_in_place_into_whole_values():
    whole = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    x = torch.randn(2, 3)
    assert torch.allclose(torch.onnx.export(whole, (x,))(x)[0], whole(x), atol=1e-6)


class WritesWhatOthersRead(nn.Module):
    def forward(self, x):
        y = x * 2
        alias = y
        y.add_(x)  # as in a residual block
        z = y.relu_() * 3
        return alias + z, y


def test_writes_into_whole_values_whose_sizes_vary():
    varying = ({0: torch.export.Dim("rows")},)
    program = torch.onnx.export(WritesWhatOthersRead(), (torch.randn(2, 3),),
                                dynamic_shapes=varying)
    x = torch.randn(5, 3)
    for computed, expected in zip(program(x), WritesWhatOthersRead()(x), strict=True):
        assert torch.allclose(computed, expected)


def test_modes_of_the_older_exporter():
    net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    mode = torch.onnx.TrainingMode
    seen = []
    net[0].register_forward_pre_hook(lambda *_: seen.append(net.training))
    torch.onnx.export(net, torch.ones(1, 3), dynamo=False)
    net.eval()
    torch.onnx.export(net, torch.ones(1, 3), dynamo=False, training=mode.PRESERVE,
                      operator_export_type=torch.onnx.OperatorExportTypes.ONNX)
    assert set(seen) == {False}
    assert not net.training
    with torch.onnx.select_model_mode_for_export(net, mode.TRAINING):
        assert net.training
        assert net[1].training
    assert not net[1].training
    with pytest.raises(TypeError, match="'mode' should be a torch.onnx.TrainingMode enum"):
        torch.onnx.export(net, torch.ones(1, 3), dynamo=False, training=True)
    assert (repr(mode.EVAL), str(mode(2)), int(mode.PRESERVE)) == (
        "<TrainingMode.EVAL: 0>", "TrainingMode.TRAINING", 1)
    assert mode.EVAL != 0
