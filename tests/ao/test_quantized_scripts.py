"""Quantized models as TorchScript archives: weights are packed again when one is read."""

from __future__ import annotations

import io
import warnings
from importlib import import_module

import pytest


def _converted(torch):
    """A static model of a convolution, a sum, activations, a norm and a linear layer; an input."""
    quantization = import_module(torch.__name__ + ".ao.quantization")
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.hardswish, self.elu = nn.Hardswish(), nn.ELU()
            self.sum = torch.ao.nn.quantized.FloatFunctional()
            self.norm, self.linear, self.relu = nn.LayerNorm(4), nn.Linear(4, 5), nn.ReLU()

        def forward(self, x):
            x = self.conv(self.quant(x))
            x = self.elu(self.sum.add(x, self.hardswish(x)))
            x = self.norm(x.mean([2, 3]))
            return self.dequant(self.relu(self.linear(x)))

    model = Model().eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    x = torch.randn(2, 3, 6, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = quantization.prepare(model)
        prepared(x)
        return quantization.convert(prepared), x


def _dynamic(torch, dtype):
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    quantization = import_module(torch.__name__ + ".ao.quantization")
    return quantization.quantize_dynamic(model, dtype=dtype), torch.randn(3, 4)


def _saved(torch, model) -> io.BytesIO:
    file = io.BytesIO()
    torch.jit.save(model, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("kind", ["static", "qint8", "float16"])
def test_archives_give_the_same_results(torch, kind: str) -> None:
    torch.manual_seed(0)
    model, x = _converted(torch) if kind == "static" else _dynamic(torch, getattr(torch, kind))
    for written in (torch.jit.script(model), torch.jit.trace(model, x)):
        assert torch.equal(written(x), model(x))
        loaded = torch.jit.load(_saved(torch, written))
        assert torch.equal(loaded(x), model(x))
        again = torch.jit.load(_saved(torch, loaded))
        assert torch.equal(again(x), model(x))


@pytest.mark.parity
def test_pytorch_reads_our_archives() -> None:
    theirs = pytest.importorskip("torch")
    import flambeau as ours

    ours.manual_seed(0)
    model, x = _converted(ours)
    loaded = theirs.jit.load(_saved(ours, ours.jit.script(model)))
    y = loaded(theirs.from_numpy(x.numpy()))
    assert abs(y.numpy() - model(x).numpy()).max() < 0.02
    assert loaded(theirs.from_numpy(x.numpy())).equal(
        theirs.jit.load(_saved(theirs, loaded))(theirs.from_numpy(x.numpy())))
