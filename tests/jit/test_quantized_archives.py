"""PyTorch's archives of quantized models: packed weights are read, and damaged ones are refused."""

from __future__ import annotations

import io
from typing import Any

import pytest

import flambeau
from flambeau.serialization.archive import ArchiveWriter


def archive(data: bytes) -> io.BytesIO:
    """An archive whose module's pickle is `data`."""
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    writer.record("data.pkl", data)
    writer.record("constants.pkl", b"\x80\x02).")
    writer.record("code/__torch__.py", b"class M(Module):\n  training : bool\n")
    writer.close()
    file.seek(0)
    return file


PACKED = b"c__torch__.torch.classes.quantized\n%s\n)\x81"
STATES = (b"(K\x01K\x02t", b"N", b"}", b"(NNt", b"(X\x01\0\0\x002]]t", b"(]]]t", b"(K\x01](NeNNt")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", [
    b"LinearPackedParamsBase", b"Conv2dPackedParamsBase", b"EmbeddingPackedParamsBase"])
def test_damaged_packed_weights_are_refused(kind: bytes, state: bytes) -> None:
    with pytest.raises(RuntimeError, match="the archive is damaged"):
        flambeau.jit.load(archive(b"\x80\x02" + PACKED % kind + state + b"b."))


def test_other_classes_of_cpp_are_named() -> None:
    with pytest.raises(RuntimeError, match=r"quantized\.Unknown is a C\+\+ class"):
        flambeau.jit.load(archive(b"\x80\x02" + PACKED % b"Unknown" + b"Nb."))


def _static(torch: Any, layer: Any, x: Any) -> Any:
    ao = torch.ao.quantization
    module = torch.nn.Sequential(ao.QuantStub(), layer, torch.nn.ReLU(), ao.DeQuantStub()).eval()
    module.qconfig = ao.get_default_qconfig("fbgemm")
    ao.prepare(module, inplace=True)(x)
    return ao.convert(module, inplace=True)


def _table(torch: Any) -> Any:
    ao, table = torch.ao.quantization, torch.nn.Sequential(torch.nn.EmbeddingBag(10, 8))
    table[0].qconfig = ao.float_qparams_weight_only_qconfig
    return ao.convert(ao.prepare(table))


def models(torch: Any) -> dict[str, tuple[Any, Any]]:
    """Quantized models with their inputs."""
    nn, dynamic = torch.nn, torch.ao.quantization.quantize_dynamic
    rows, steps = torch.randn(4, 5), torch.randn(3, 2, 5)
    image, series = torch.randn(2, 2, 6, 6), torch.randn(2, 2, 8)
    return {
        "dynamic": (dynamic(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))), rows),
        "float16": (dynamic(nn.Sequential(nn.Linear(5, 8)), dtype=torch.float16), rows),
        "lstm": (dynamic(nn.Sequential(nn.LSTM(5, 6, 2))), steps),
        "gru": (dynamic(nn.Sequential(nn.GRU(5, 6, bidirectional=True))), steps),
        "linear": (_static(torch, nn.Linear(5, 3), rows), rows),
        "conv1d": (_static(torch, nn.Conv1d(2, 4, 3), series), series),
        "conv2d": (_static(torch, nn.Conv2d(2, 4, 3, padding=1), image), image),
        "table": (_table(torch), torch.tensor([[1, 2], [3, 4]])),
    }


def first(value: Any) -> Any:
    """The output of a recurrent layer, or the whole result."""
    return value[0] if isinstance(value, tuple) else value


@pytest.mark.parity
@pytest.mark.parametrize("name", [
    "dynamic", "float16", "lstm", "gru", "linear", "conv1d", "conv2d", "table"])
def test_pytorchs_quantized_models_compute_the_same_here(name: str) -> None:
    pytorch = pytest.importorskip("torch")
    module, x = models(pytorch)[name]
    scripted, file = pytorch.jit.script(module), io.BytesIO()
    pytorch.jit.save(scripted, file)
    file.seek(0)
    result = first(flambeau.jit.load(file)(flambeau.from_numpy(x.numpy().copy())))
    assert abs(result.detach().numpy() - first(scripted(x)).detach().numpy()).max() < 1e-6
