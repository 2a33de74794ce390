"""Files exchanged with PyTorch itself, both ways."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict

import pytest

import flambeau

pytestmark = pytest.mark.parity
real = pytest.importorskip("torch")


def contents(torch):
    """The same things, made with either library."""
    x = torch.arange(12.0).reshape(3, 4)
    return {
        "x": x, "t": x.t()[1:], "p": torch.nn.parameter.Parameter(x.clone()),
        "f": torch.ones(2, requires_grad=True), "bf": torch.ones(2, dtype=torch.bfloat16),
        "u": torch.ones(2, dtype=torch.uint16), "e": torch.ones(0, 3), "s": torch.tensor(2),
        "c": torch.ones(2, dtype=torch.complex64), "m": torch.ones(2, 3, device="meta"),
        "dtype": torch.int8, "device": torch.device("cuda", 1), "size": torch.Size([2, 3]),
        "layout": torch.strided, "od": OrderedDict(a=1), "set": {1, 2}, "b": b"\xff\0",
        "plain": [1, 2.5, None, True, 10**30, "h\u00e9"], "cls": OrderedDict,
    }


def plain(value):
    """A value without what tells the libraries apart."""
    if hasattr(value, "stride"):
        meta = value.device.type == "meta"
        numbers = None if meta else value.detach().tolist()
        return (
            type(value).__name__, str(value.dtype), tuple(value.shape), tuple(value.stride()),
            value.storage_offset(), value.requires_grad, numbers,
        )
    foreign = type(value).__module__.startswith(("torch", "flambeau"))
    return str(value) if foreign else value


def written(torch, data, **options) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(data, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("as_zip", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize(("writer", "reader"), [(flambeau, real), (real, flambeau)],
                         ids=["ours to theirs", "theirs to ours"])
def test_contents(writer, reader, as_zip, weights_only):
    data = contents(writer)
    if not as_zip:
        del data["u"]  # PyTorch cannot read back such a dtype in its old format
    file = written(writer, data, _use_new_zipfile_serialization=as_zip)
    loaded = reader.load(file, weights_only=weights_only)
    assert list(loaded) == list(data)
    for name, value in data.items():
        assert plain(loaded[name]) == plain(value), name
    assert loaded["x"].untyped_storage().data_ptr() == loaded["t"].untyped_storage().data_ptr()


def test_same_bytes():
    ours, theirs = written(flambeau, contents(flambeau)), written(real, contents(real))
    pickles = [zipfile.ZipFile(file).read("archive/data.pkl") for file in (ours, theirs)]
    assert pickles[0] == pickles[1]
    ours, theirs = ours.getvalue(), theirs.getvalue()
    end = theirs.index(b"archive/.data/serialization_id")
    assert ours[:end] == theirs[:end]
    assert len(ours) == len(theirs)


def test_checksums_and_directory_satisfy_zipfile():
    with zipfile.ZipFile(written(flambeau, contents(flambeau))) as archive:
        assert archive.testzip() is None


def network(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(),
        nn.Sequential(nn.Linear(18, 4), nn.Dropout(0.5)), nn.LSTM(4, 3), nn.Embedding(5, 2),
    )


@pytest.mark.parametrize(("writer", "reader"), [(flambeau, real), (real, flambeau)],
                         ids=["ours to theirs", "theirs to ours"])
def test_models_and_optimizers(writer, reader):
    model = network(writer)
    optimizer = writer.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = writer.ones_like(parameter)
    optimizer.step()
    file = written(writer, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    loaded = reader.load(file)
    twin = network(reader)
    assert str(twin.load_state_dict(loaded["model"])) == "<All keys matched successfully>"
    for name, value in model.state_dict().items():
        assert twin.state_dict()[name].tolist() == value.tolist()
    other = reader.optim.Adam(twin.parameters())
    other.load_state_dict(loaded["optimizer"])
    assert other.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    state = optimizer.state_dict()["state"][0]["exp_avg"]
    assert other.state_dict()["state"][0]["exp_avg"].tolist() == state.tolist()


@pytest.mark.parametrize(("writer", "reader"), [(flambeau, real), (real, flambeau)],
                         ids=["ours to theirs", "theirs to ours"])
def test_whole_models(writer, reader):
    model = network(writer).eval()
    file = written(writer, model)
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        reader.load(file)
    file.seek(0)
    loaded = reader.load(file, weights_only=False)
    assert repr(loaded) == repr(model)
    assert not loaded.training
    x = [[[[float(i * j % 7) for i in range(5)] for j in range(5)]]]
    ours, theirs = model[:5](writer.tensor(x)), loaded[:5](reader.tensor(x))
    assert theirs.tolist()[0] == pytest.approx(ours.tolist()[0], rel=1e-5)


def test_safetensors_package_reads_and_writes_the_same(tmp_path):
    package = pytest.importorskip("safetensors.torch")
    from flambeau.serialization import safetensors

    def tensors(torch):
        return {
            "b": torch.ones(2, 3), "a": torch.arange(4), "h": torch.ones(3, dtype=torch.bfloat16),
            "m": torch.tensor([True]), "d": torch.ones(1, dtype=torch.float64),
        }

    ours = safetensors.save(tensors(flambeau), {"format": "pt"})
    assert ours == package.save(tensors(real), {"format": "pt"})
