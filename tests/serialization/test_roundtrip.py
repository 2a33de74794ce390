"""What is saved comes back: values, dtypes, sharing, containers, parameters, models; on files."""

from __future__ import annotations

import errno
import gzip
import io
import os
import pickle
import stat
import struct
import zipfile
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest

import flambeau as torch
from flambeau import serialization
from flambeau.nn.parameter import Parameter

Pair = namedtuple("Pair", ["a", "b"])


class Marked(torch.Tensor):
    """A user's subclass."""


class Note:
    """A user's class, known by its module and name."""

    def __init__(self, text: str) -> None:
        self.text = text


def saved(obj, **options) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def returned(obj, **options):
    return torch.load(saved(obj), **options)


DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
    "uint16", "uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn",
]


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name):
    memory = np.arange(1, 7).astype(getattr(torch, name).numpy)
    loaded = returned(torch.from_numpy(memory).reshape(2, 3))
    assert str(loaded.dtype) == f"torch.{name}"
    assert loaded._array.tobytes() == memory.tobytes()
    assert loaded.shape == (2, 3)


def test_shapes_without_elements_and_without_axes():
    loaded = returned([torch.ones(0, 3), torch.tensor(2.5), torch.ones(2, 0)])
    assert [tuple(t.shape) for t in loaded] == [(0, 3), (), (2, 0)]
    assert loaded[1].item() == 2.5


def test_views_share_their_storage():
    x = torch.arange(12.0).reshape(3, 4)
    views = {"x": x, "t": x.t(), "row": x[1], "step": x[:, ::2], "same": x}
    loaded = returned(views)
    assert loaded["same"] is loaded["x"]
    for name, view in views.items():
        assert loaded[name].tolist() == view.tolist()
        assert loaded[name].stride() == view.stride()
        assert loaded[name].storage_offset() == view.storage_offset()
    loaded["x"][1, 2] = 100
    assert loaded["t"][2, 1] == loaded["row"][2] == loaded["step"][1, 1] == 100


def test_only_one_copy_of_shared_memory_is_written():
    x = torch.zeros(1000)
    assert len(saved([x, x[10:], x.reshape(10, 100)]).getvalue()) < 4000 + 3000


class Fresh:
    """Makes a tensor only while it is pickled, which is then free to go."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __reduce__(self):
        return list, ([torch.full((50,), self.number)],)


def test_memory_freed_while_saving_is_not_mistaken_for_shared():
    loaded = returned([Fresh(0.0), Fresh(1.0), Fresh(2.0)], weights_only=False)
    assert [row[0][0].item() for row in loaded] == [0, 1, 2]


def test_plain_data():
    data = {
        "numbers": [1, -1, 2**70, 2.5, True, None, 1 + 2j], "text": "h\u00e9", "bytes": b"\0\xff",
        "nested": ({1: (2, [3])}, {4, 5}), "order": OrderedDict(b=1, a=2),
        "count": Counter("aab"), "array": bytearray(b"xy"), "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16, "device": torch.device("cuda", 1), "layout": torch.strided,
    }
    for weights_only in (True, False):
        loaded = returned(data, weights_only=weights_only)
        assert loaded == data
        assert type(loaded["size"]) is torch.Size
        assert loaded["dtype"] is torch.bfloat16
        assert loaded["layout"] is torch.strided


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(protocol):
    x = torch.arange(4)
    data = {"x": x, "p": Parameter(torch.ones(2)), "t": "text" * 100, "b": b"1", "f": {1.5}}
    for weights_only in (True, False):
        loaded = torch.load(saved(data, pickle_protocol=protocol), weights_only=weights_only)
        assert loaded["x"].tolist() == [0, 1, 2, 3]
        assert isinstance(loaded["p"], Parameter)
        assert (loaded["t"], loaded["b"], loaded["f"]) == (data["t"], b"1", {1.5})


def test_parameters_and_requires_grad():
    leaf = torch.ones(2, requires_grad=True)
    marked = Parameter(torch.ones(1), requires_grad=False)
    marked.note = "kept"
    loaded = returned([leaf, marked, leaf * 2])
    assert loaded[0].requires_grad
    assert loaded[0].is_leaf
    assert isinstance(loaded[1], Parameter)
    assert not loaded[1].requires_grad
    assert loaded[1].note == "kept"
    assert loaded[2].is_leaf


def test_hooks_and_traces_of_autograd_are_left_out():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: g)
    (x * 2).sum().backward()
    loaded = returned(x)
    assert loaded.requires_grad
    assert not loaded.__dict__.get("_backward_hooks")


def test_subclass_of_tensor_with_attributes():
    x = torch.ones(2)._alias(Marked)
    x.note = 3
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        returned(x)
    with serialization.safe_globals([Marked]):
        loaded = returned(x)
    assert type(loaded) is Marked
    assert loaded.note == 3


def test_meta_tensors():
    loaded = returned(torch.ones(2, 3, device="meta"))
    assert loaded.device.type == "meta"
    assert loaded.shape == (2, 3)


def test_same_memory_under_two_dtypes_is_refused():
    x = torch.ones(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved([x, x.view(torch.int32)])


def test_numpy_scalars_when_allowed():
    value, before = np.float64(1.5), set(serialization.get_safe_globals())
    with pytest.raises(pickle.UnpicklingError, match="scalar"):
        returned(value)
    allowed = [np._core.multiarray.scalar, np.dtype, type(np.dtype("float64"))]
    with serialization.safe_globals(allowed):
        assert returned(value) == 1.5
    assert set(serialization.get_safe_globals()) == before


def test_whole_objects_only_without_weights_only():
    with pytest.raises(pickle.UnpicklingError) as caught:
        returned(Note("x"))
    for words in ("weights_only", "False", "add_safe_globals", "Note", "trust"):
        assert words in str(caught.value)
    assert returned(Note("x"), weights_only=False).text == "x"
    before = serialization.get_safe_globals()
    serialization.add_safe_globals([Note])
    try:
        assert returned(Note("y")).text == "y"
        assert serialization.get_unsafe_globals_in_checkpoint(saved(Note("y"))) == []
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(before)  # those of nested tensors, if others imported them
    (name,) = serialization.get_unsafe_globals_in_checkpoint(saved(Note("y")))
    assert name.endswith("test_roundtrip.Note")


def test_functions_and_classes_by_name():
    loaded = returned([torch.stack, torch.Tensor, torch.Generator], weights_only=False)
    assert loaded == [torch.stack, torch.Tensor, torch.Generator]


def test_lambda_cannot_be_saved(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(1, path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        torch.save([torch.ones(3), lambda: 0], path)
    assert torch.load(path) == 1
    assert os.listdir(tmp_path) == ["x.pt"]


# ---------------------------------------------------------------------------------- files


def test_layout_of_the_archive(tmp_path):
    path = tmp_path / "model.v1.pt"
    torch.save({"x": torch.ones(3), "y": torch.ones(5)}, path)
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = [entry.filename for entry in archive.infolist()]
        for entry in archive.infolist():
            sizes = struct.unpack("<2H", raw[entry.header_offset + 26 : entry.header_offset + 30])
            assert (entry.header_offset + 30 + sum(sizes)) % 64 == 0
        assert archive.read("model.v1/version") == b"3\n"
        assert archive.read("model.v1/byteorder") == b"little"
    assert names == [
        f"model.v1/{name}"
        for name in ("data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0",
                     "data/1", "version", ".data/serialization_id")
    ]


def test_path_str_and_open_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.ones(2), str(path))
    with open(path, "rb") as file:
        assert torch.load(file).tolist() == [1, 1]
    with open(path, "wb") as file:
        file.write(b"in front")
        torch.save(torch.zeros(2), file)
    with open(path, "rb") as file:
        file.seek(8)
        assert torch.load(file).tolist() == [0, 0]
    with gzip.open(path, "wb") as file:
        torch.save(torch.zeros(2), file)
    with gzip.open(path, "rb") as file:
        assert torch.load(file).tolist() == [0, 0]


def test_wrong_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save(1, tmp_path / "no" / "x.pt")
    with pytest.raises(AttributeError, match="'write' attribute"):
        torch.save(1, object())
    with pytest.raises(EOFError, match="Ran out of input"):
        torch.load(io.BytesIO(b""))
    with pytest.raises(RuntimeError, match="Invalid magic number"):
        torch.load(io.BytesIO(pickle.dumps({"plain": 1})))

    class Pipe(io.RawIOBase):
        def seekable(self):
            return False

    with pytest.raises(io.UnsupportedOperation, match="seekable"):
        torch.load(Pipe())


def test_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    torch.save({"epoch": 1}, path)

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            torch.save({"epoch": 2}, path)
    assert torch.load(path) == {"epoch": 1}
    assert os.listdir(tmp_path) == ["x.pt"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links as POSIX has them")
def test_save_keeps_permissions_and_follows_links(tmp_path):
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    torch.save(1, real)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~umask
    real.chmod(0o640)
    link.symlink_to(real)
    torch.save(2, link)
    assert link.is_symlink()
    assert torch.load(real) == 2
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    torch.save(3, os.devnull)


def test_map_location():
    file = saved([torch.ones(2), torch.ones(3)])
    seen = []

    def note(storage, location):
        seen.append((storage.nbytes(), location))

    assert torch.load(file, map_location=note)[0].tolist() == [1, 1]
    assert seen == [(8, "cpu"), (12, "cpu")]
    for place in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        file.seek(0)
        assert torch.load(file, map_location=place)[0].tolist() == [1, 1]
    file.seek(0)
    assert torch.load(file, map_location="meta")[1].device.type == "meta"
    file.seek(0)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(file, map_location="cuda:0")


def test_registered_location():
    def restore(storage, location):
        return storage if location == "elsewhere" else None

    serialization.register_package(5, lambda storage: None, restore)
    from flambeau.serialization import location

    try:
        assert torch.load(saved(torch.ones(1)), map_location="elsewhere").tolist() == [1]
    finally:
        location._registry[:] = [e for e in location._registry if e[2] is not restore]
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        torch.load(saved(torch.ones(1)), map_location="elsewhere")


def test_the_format_before_zip_may_name_a_large_storage_more_than_once(tmp_path):
    path = tmp_path / "tied.pt"
    weight, small = torch.ones(50, 50), torch.zeros(10)
    torch.save([weight, small, weight.t()], path, _use_new_zipfile_serialization=False)
    first, _, second = torch.load(path, weights_only=True)
    assert first.data_ptr() == second.data_ptr() and first.sum() == 2500


def test_mmap_reads_from_the_file_and_writes_to_memory(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"x": torch.arange(1000.0), "y": torch.arange(3)}, path)
    before = path.read_bytes()
    loaded = torch.load(path, mmap=True)
    assert loaded["x"][999] == 999
    assert loaded["y"].tolist() == [0, 1, 2]
    assert loaded["y"].untyped_storage().nbytes() == 24
    assert loaded["y"].storage_offset() == 0
    loaded["x"][0] = 7
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="must be a file path"):
        torch.load(saved(1), mmap=True)
    torch.save(torch.ones(2), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        torch.load(path, mmap=True)


def test_format_before_zip():
    x = torch.arange(6.0).reshape(2, 3)
    file = saved({"x": x, "t": x.t(), "p": Parameter(torch.ones(2))},
                 _use_new_zipfile_serialization=False)
    for weights_only in (True, False):
        file.seek(0)
        loaded = torch.load(file, weights_only=weights_only)
        assert loaded["t"].tolist() == x.t().tolist()
        assert loaded["x"].untyped_storage() == loaded["t"].untyped_storage()
        assert isinstance(loaded["p"], Parameter)


def test_big_endian_file():
    plain = saved(torch.tensor([1.0, 2.0]))
    swapped = io.BytesIO()
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(swapped, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("data/0"):
                data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
            new.writestr(name, b"big" if name.endswith("byteorder") else data)
    swapped.seek(0)
    assert torch.load(swapped).tolist() == [1, 2]


def test_archive_packed_again_with_compression():
    plain, packed = saved(torch.arange(1000)), io.BytesIO()
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    packed.seek(0)
    assert torch.load(packed)[999] == 999


def test_checksums_notice_damage():
    raw = bytearray(saved(torch.ones(100)).getvalue())
    at = raw.index(np.ones(100, np.float32).tobytes())
    raw[at] ^= 1
    with pytest.raises(RuntimeError, match="does not match its checksum"):
        torch.load(io.BytesIO(raw))


def test_saving_copies_no_tensor():
    import tracemalloc

    class Sink(io.RawIOBase):
        def write(self, data):
            return len(data)

    tensors = [torch.ones(1_000_000) for _ in range(8)]
    tracemalloc.start()
    torch.save(tensors, Sink())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_environment_and_arguments(monkeypatch):
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        returned(1, weights_only=True, pickle_module=pickle)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError):
        returned(Note("x"), weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        returned(1)
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        assert returned(Note("x")).text == "x"


class Spoiled:
    """Pickles as a sparse tensor with other indices."""

    def __init__(self, tensor, *parts):
        self.tensor, self.parts = tensor, parts

    def __reduce_ex__(self, protocol):
        return torch._utils._rebuild_sparse_tensor, (self.tensor.layout, (*self.parts, (3, 3)))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("layout", "compressed", "plain"), [
    ("csr", "crow_indices", "col_indices"), ("csc", "ccol_indices", "row_indices"),
])
def test_sparse_indices_that_cannot_be_raise_what_the_check_says(
    layout, compressed, plain, zipped
):
    tensor = getattr(torch.eye(3), f"to_sparse_{layout}")()
    indices = getattr(tensor, compressed)() + 1
    spoiled = Spoiled(tensor, indices, getattr(tensor, plain)(), tensor.values())
    with pytest.raises(RuntimeError, match=rf"`{compressed}\[..., 0\] == 0` is not satisfied"):
        torch.load(saved({"spoiled": spoiled}, _use_new_zipfile_serialization=zipped))
    tensor = torch.eye(3).to_sparse()
    spoiled = Spoiled(tensor, tensor.indices() + 1, tensor.values())
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.load(saved({"spoiled": spoiled}, _use_new_zipfile_serialization=zipped))


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors_in_the_old_format(layout):
    tensor = getattr(torch.arange(6.0).view(2, 3), layout)()
    loaded = torch.load(saved([tensor], _use_new_zipfile_serialization=False))[0]
    assert loaded.layout == tensor.layout
    assert loaded.to_dense().tolist() == tensor.to_dense().tolist()


def test_states_of_old_pickles(torch):
    x = torch.zeros(0)
    x.__setstate__((torch.arange(6.0).untyped_storage(), 0, (2, 3), (3, 1)))
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    x.__setstate__((True, None, {}))
    assert x.requires_grad
    x.__setstate__((torch.ones(2), None, {}, False, None))
    assert x.tolist() == [1, 1]
    assert not x.requires_grad
    with pytest.raises(RuntimeError, match="can be only called on leaf Tensors"):
        (torch.ones(1, requires_grad=True) * 2).__setstate__((True, None, {}))
