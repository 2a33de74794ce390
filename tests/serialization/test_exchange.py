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


def test_file_of_python_2_with_bytes_as_text():
    text = b"\xc5\xbc\xc4\x85"
    file = (  # [text, torch.zeros(1), 2], written by PyTorch 0.4.1 on Python 2.7
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
        b"\x80\x02}q\x01(U\x10protocol_versionq\x02M\xe9\x03U\ntype_sizesq\x03}q\x04(U\x03int"
        b"q\x05K\x04U\x05shortq\x06K\x02U\x04longq\x07K\x04uU\rlittle_endianq\x08\x88u."
        b"\x80\x02]q\x01(U\x04" + text + b"q\x02ctorch._utils\n_rebuild_tensor_v2\nq\x03((U"
        b"\x07storageq\x04ctorch\nFloatStorage\nq\x05U\x0845640624q\x06U\x03cpuq\x07\x8a\x01\x01"
        b"NtQK\x00K\x01\x85K\x01\x85\x89NtRq\x08K\x02e.\x80\x02]q\x01U\x0845640624q\x02a.\x01\x00"
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    )
    for weights_only in (True, False):
        for encoding, expected in (("bytes", text), ("utf-8", text.decode())):
            result = flambeau.load(io.BytesIO(file), weights_only=weights_only, encoding=encoding)
            assert result[0] == expected and result[2] == 2
            assert flambeau.equal(result[1], flambeau.zeros(1))


def test_storages_of_old_files_are_read_into_place():
    class File(io.BytesIO):
        read_into = 0

        def readinto(self, memory):
            File.read_into += 1
            return super().readinto(memory)

    file = File()
    x = flambeau.arange(6.0)
    flambeau.save(x, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert flambeau.equal(flambeau.load(file), x) and File.read_into == 1
    short = File(file.getvalue()[:-4])
    with pytest.raises(EOFError, match="4 bytes too early"):
        flambeau.load(short)


def test_large_meta_tensors_take_no_memory():
    file = io.BytesIO()
    flambeau.save(flambeau.empty(60_000, 960_000, device="meta"), file)
    file.seek(0)
    result = flambeau.load(file)
    assert result.shape == (60_000, 960_000) and result.device.type == "meta"


def test_save_to_what_cannot_be_written():
    class File:
        write = "text"

    with pytest.raises(TypeError, match="not callable"):
        flambeau.save("foo", File())
    with pytest.raises(AttributeError, match="'write' attribute"):
        flambeau.save("foo", flambeau.ones(1))
