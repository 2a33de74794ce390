"""Archives that flambeau writes: they load here as they were, and in PyTorch with its numbers."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

ARCHIVES = Path(__file__).parent / "archives"


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.cells = nn.Embedding(5, 4), nn.LSTM(4, 3, batch_first=True)
        self.last = nn.ModuleList([nn.Linear(3, 2)])

    def forward(self, x):
        y, (h, _) = self.cells(self.rows(x))
        return self.last[0](y[:, -1]), {"h": h}


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.constant = torch.ones(3)

    def forward(self, x):
        y = F.normalize(F.pad(x, (1, 1)), dim=1).permute(1, 0).reshape(-1)[2:]
        a, b = y.chunk(2)
        selected = (a - b)[torch.tensor([0, 1])] * 2 + torch.where(a[:2] > 0, a[:2], b[:2]) ** 2 / 3
        wide = F.interpolate(x[None, None], scale_factor=2.0, mode="bilinear").mean()
        zeros = torch.zeros(x.shape[0], dtype=torch.long)
        return (selected + wide - F.mse_loss(a, b) + F.cross_entropy(x, zeros) + self.constant.sum()
                + torch.einsum("i,i->", a, a) + x.max(1)[0].sum() + x.size(0) // 2
                + x.to(torch.float64).float().std(), [a, b])


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(36, 5), nn.LogSoftmax(1))


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


CASES = {
    "words": (Words, lambda: torch.randint(0, 5, (2, 3))),
    "calls": (Calls, lambda: torch.randn(4, 6)),
    "network": (network, lambda: torch.randn(2, 3, 8, 8)),
    "encoder": (encoder, lambda: torch.randn(2, 3, 8)),
}


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in leaves(v)] if isinstance(value, (tuple, list)) else [value]


def in_bytes(module):
    file = io.BytesIO()
    torch.jit.save(module, file)
    return file.getvalue()


@pytest.mark.parametrize("name", CASES)
def test_a_traced_module_becomes_torchscript(name):
    make, x = CASES[name][0](), CASES[name][1]()
    traced = torch.jit.trace(make, x)
    loaded = torch.jit.load(io.BytesIO(in_bytes(traced)))
    assert isinstance(loaded, torch.jit.RecursiveScriptModule)
    assert loaded.original_name == type(make).__name__
    assert list(loaded.state_dict()) == list(make.state_dict())
    for result, expected in zip(leaves(loaded(x)), leaves(make(x)), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_pytorch_reads_traced_modules(name):
    pytorch = pytest.importorskip("torch")
    make, x = CASES[name][0](), CASES[name][1]()
    traced = torch.jit.trace(make, x)
    theirs = pytorch.jit.load(io.BytesIO(in_bytes(traced)))
    assert [k for k, _ in theirs.named_parameters()] == [k for k, _ in traced.named_parameters()]
    results = leaves(theirs(pytorch.from_numpy(x.numpy())))
    for result, expected in zip(results, leaves(traced(x)), strict=True):
        assert abs(result.detach().numpy() - expected.detach().numpy()).max() < 1e-5


def list_archives():
    return sorted(ARCHIVES.glob("*.pt"))


def expected_of(path):
    extra = {"expected": ""}
    module = torch.jit.load(path, _extra_files=extra)
    expected = torch.load(io.BytesIO(extra["expected"]))
    return module, expected["input"], expected["output"]


@pytest.mark.parametrize("path", list_archives(), ids=lambda path: path.stem)
def test_a_loaded_module_is_saved_again(path):
    module, x, y = expected_of(path)
    data = module.save_to_buffer(_extra_files={"note": "text"})
    extra = {"note": ""}
    again = torch.jit.load(io.BytesIO(data), _extra_files=extra)
    assert extra["note"] == b"text"
    assert again.code == module.code
    torch.testing.assert_close(leaves(again(x))[0], y)


@pytest.mark.parity
@pytest.mark.parametrize("path", list_archives(), ids=lambda path: path.stem)
def test_pytorch_reads_loaded_modules(path):
    pytorch = pytest.importorskip("torch")
    module, x, y = expected_of(path)
    theirs = pytorch.jit.load(io.BytesIO(module.save_to_buffer()))
    result = leaves(theirs(pytorch.from_numpy(x.numpy())))[0]
    assert abs(result.detach().numpy() - y.numpy()).max() < 1e-5


def test_shared_parameters_stay_shared():
    module = torch.jit.load(ARCHIVES / "recurrent.pt")
    with torch.no_grad():
        module.cells.weight_ih_l0.fill_(2.0)
    again = torch.jit.load(io.BytesIO(module.save_to_buffer()))
    assert again.cells._flat_weights[0] is again.cells.weight_ih_l0
    assert (again.cells.weight_ih_l0 == 2).all()


def test_a_graph_that_torchscript_has_no_words_for_goes_into_an_archive_of_its_own():
    traced = torch.jit.trace(lambda x: F.l1_loss(x, x, reduce=False) + x, torch.ones(2, 3))
    data = in_bytes(traced)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert "program.json" in archive.namelist()
    assert torch.equal(torch.jit.load(io.BytesIO(data))(torch.ones(4, 3)), torch.ones(4, 3))


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("codes", torch.quantize_per_channel(
            torch.ones(2, 3), torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), 0, torch.qint8))


def test_a_module_without_forward_and_quantized_buffers_are_kept():
    data = io.BytesIO()
    torch.jit.save(torch.jit.script(Holder()), data)
    data.seek(0)
    loaded = torch.jit.load(data)
    assert [name for name, _ in loaded.named_modules()] == ["", "inner"]
    assert dict(loaded.named_parameters())["weight"].tolist() == [1.0, 1.0, 1.0]
    assert dict(loaded.named_buffers())["codes"].equal(Holder().codes)


class Point(NamedTuple):
    x: torch.Tensor
    count: int = 3
    names: list[str] | None = None


def test_named_tuples(tmp_path):
    class Moves(torch.nn.Module):
        def forward(self, p: Point, scale: float = 2.0) -> Point:
            return Point(p.x * scale, count=p.count + 1)

    module = torch.jit.script(Moves())
    assert f"__torch__.{__name__}.Point(p.x * scale, p.count + 1, None)" in module.code
    assert module._c.qualified_name == "__torch__.Moves"
    torch.jit.save(module, str(tmp_path / "moves.pt"))
    moved = torch.jit.load(str(tmp_path / "moves.pt"))(Point(torch.ones(2), 5))
    assert moved.x.tolist() == [2.0, 2.0] and moved[1:] == (6, None)
    assert type(moved)._fields == Point._fields


def test_layers_that_check_their_input_are_read_again(tmp_path) -> None:
    """The checks of normalizations call nothing that a file could not name (MONAI's networks)."""
    layers = nn.Sequential(nn.BatchNorm1d(2), nn.InstanceNorm1d(2))
    torch.jit.script(layers.eval()).save(tmp_path / "layers.pt")
    x = torch.ones(3, 2, 4)
    assert torch.jit.load(tmp_path / "layers.pt")(x).shape == (3, 2, 4)
