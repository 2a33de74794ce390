"""Files made to do harm: nothing outside the allow-list runs, and no size in a file is believed."""

from __future__ import annotations

import collections
import io
import os
import pickle
import random
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

import flambeau as torch
from flambeau import serialization
from flambeau.serialization import opcodes
from flambeau.serialization.archive import ArchiveWriter
from flambeau.serialization.safetensors import SafetensorError
from flambeau.serialization.safetensors import load as load_safetensors

ERRORS = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, NotImplementedError)


def checkpoint(pickled: bytes, **records: bytes) -> io.BytesIO:
    """A checkpoint whose pickle is given."""
    file = io.BytesIO()
    archive = ArchiveWriter(file)
    archive.record("data.pkl", pickled)
    for name, data in (records or {"data/0": bytes(64)}).items():
        archive.record(name.replace("__", "/"), data)
    archive.close()
    file.seek(0)
    return file


def refused(pickled: bytes) -> str:
    """The message with which the pickle is refused, in both formats."""
    with pytest.raises(pickle.UnpicklingError):
        torch.load(io.BytesIO(pickled))
    with pytest.raises(pickle.UnpicklingError) as caught:
        torch.load(checkpoint(pickled))
    return str(caught.value)


class Runs:
    """Pickles as a call."""

    def __init__(self, function, *args) -> None:
        self.call = function, args

    def __reduce__(self):
        return self.call


CALLS = [
    (os.system, "touch hacked"), (eval, "open('hacked', 'w')"), (exec, "open('hacked', 'w')"),
    (open, "hacked", "w"), (getattr, os, "system"), (__import__, "os"), (print, "x"),
    (pickle.loads, b"x"), (type, "X", (), {}), (torch.load, "hacked"), (torch.save, 1, "hacked"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0].__name__)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_calls_do_not_run(call, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if call[0] is getattr:
        pickled = b"cposix\nsystem\n(S'touch hacked'\ntR."
    else:
        pickled = pickle.dumps(Runs(*call), protocol)
    refused(pickled)
    assert os.listdir(tmp_path) == []


def test_system_cannot_even_be_allowed():
    with serialization.safe_globals([os.system]):
        assert "is blocked" in refused(pickle.dumps(Runs(os.system, "touch hacked"), 2))


NAMES = [
    "torch.hub load", "torch os", "torch sys", "torch.serialization load", "torch._utils os",
    "torch._utils _rebuild_tensor_v2.__globals__", "torch.serialization os",
    "collections namedtuple", "collections OrderedDict.fromkeys", "builtins object",
    "builtins getattr", "__builtin__ eval", "flambeau load", "torch._C _VariableFunctionsClass",
    "codecs encode", "_codecs decode", "numpy load", "torch.nn.modules.linear Linear",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_outside_the_list(name):
    line = name.replace(" ", "\n").encode()
    assert "add_safe_globals" in refused(b"\x80\x02c" + line + b"\n.")


def test_what_is_no_function_cannot_be_called():
    number = b"\x80\x02K\x05)R."
    tensor = b"\x80\x02ctorch\nTensor\n(J\xff\xff\xff\x7ftR."
    storage = b"\x80\x02ctorch.storage\nUntypedStorage\n(J\xff\xff\xff\x7ftR."
    kind = b"\x80\x02ctorch\nfloat32\n)R."
    for pickled in (number, tensor, storage, kind):
        refused(pickled)


def test_sizes_are_not_believed():
    huge = b"\xff\xff\xff\x7f"
    for pickled in (
        b"\x80\x02X" + huge + b".", b"\x80\x02B" + huge + b".", b"\x80\x02T" + huge + b".",
        b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f.", b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",
        b"\x80\x05\x96" + b"\xff" * 7 + b"\x7f.", b"\x80\x02\x8b" + huge + b".",
        b"\x80\x02cbuiltins\nbytearray\n(J" + huge + b"tR.", b"\x80\x02j" + huge + b".",
        b"I" + b"9" * 100_000 + b"\n.",
    ):
        tracemalloc.start()
        refused(pickled)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 30_000_000
    put = b"\x80\x02Nr" + huge + b"."
    assert torch.load(checkpoint(put)) is None


def test_deep_tuples_do_not_overflow_the_stack():
    nested = b"\x80\x02})" + b"\x85" * 200_000
    assert "nested too deeply" in refused(nested + b"Ns.")
    refused(b"\x80\x02cbuiltins\nset\n])" + b"\x85" * 200_000 + b"a\x85R.")
    refused(b"\x80\x02ctorch.serialization\n_get_layout\n)" + b"\x85" * 200_000 + b"\x85R.")
    refused(b"\x80\x04()" + b"\x85" * 200_000 + b"\x91.")


def test_wide_tuples_do_not_take_for_ever():
    doubling = b"\x80\x02})q\x00" + b"h\x00\x86q\x00" * 200
    refused(doubling + b"Ns.")


def tensor_pickle(storage=b"FloatStorage", key=b"X\1\0\0\x000", count=b"K\x10", rest=None) -> bytes:
    """A tensor on storage 0 of 64 bytes; `rest` replaces offset, size and stride."""
    reference = b"(X\7\0\0\0storagectorch\n" + storage + b"\n" + key
    reference += b"X\3\0\0\0cpu" + count + b"tQ"
    rest = b"K\0K\x04\x85K\1\x85" if rest is None else rest
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + reference + rest + hooks + b"tR."


def fails(pickled: bytes) -> str:
    with pytest.raises(ERRORS) as caught:
        torch.load(checkpoint(pickled))
    return str(caught.value)


def test_tensors_stay_inside_their_storage():
    assert torch.load(checkpoint(tensor_pickle())).tolist() == [0] * 4
    minus = b"J\xff\xff\xff\xff"
    for rest in (
        b"K\0K\x11\x85K\1\x85", b"K\x0dK\4\x85K\1\x85", b"K\0K\4\x85K\6\x85",
        minus + b"K\4\x85K\1\x85", b"K\x04K\4\x85" + minus + b"\x85",
        b"K\0" + minus + b"\x85K\1\x85",
        b"K\0K\4\x85K\1K\1\x86", b"K\0(" + b"\x8a\x08" + b"\xff" * 7 + b"\x7ftK\1\x85",
        b"K\0N\x85K\1\x85", b"K\0K\4K\1",
    ):
        fails(tensor_pickle(rest=rest))


def test_storages_must_be_in_the_file():
    fails(tensor_pickle(count=b"K\x11"))
    fails(tensor_pickle(count=b"J\xff\xff\xff\x7f"))
    fails(tensor_pickle(count=b"J\xff\xff\xff\xff"))
    fails(tensor_pickle(key=b"X\1\0\0\x001"))
    fails(tensor_pickle(key=b"X\x0b\0\0\0../../passwd"[:16]))
    fails(tensor_pickle(key=b"]"))
    fails(tensor_pickle(storage=b"NoStorage"))


def test_archives_that_claim_too_much():
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02N.")
        archive.writestr("archive/data/0", bytes(300 << 20))
    bomb.seek(0)
    with pytest.raises(RuntimeError, match="records claim"):
        torch.load(bomb)
    overlapping = bytearray(checkpoint(b"\x80\x02N.").getvalue())
    at = overlapping.index(b"PK\1\2")
    overlapping[at + 20 : at + 28] = struct.pack("<II", 1 << 30, 1 << 30)
    with pytest.raises(RuntimeError, match="records claim"):
        torch.load(io.BytesIO(overlapping))


def test_nothing_is_unpacked_to_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02N.")
        archive.writestr("../escaped", b"x")
        archive.writestr("/tmp/flambeau-escaped", b"x")
    file.seek(0)
    assert torch.load(file) is None
    assert os.listdir(tmp_path) == []
    assert not os.path.exists("/tmp/flambeau-escaped")


def test_state_cannot_be_forced_on_objects():
    ordered = b"\x80\x02ccollections\nOrderedDict\n)R"
    assert torch.load(checkpoint(ordered + b"}X\1\0\0\0aK\1sb.")).a == 1
    refused(b"\x80\x02]}X\1\0\0\0aK\1sb.")
    refused(b"\x80\x02ctorch\nTensor\n}X\1\0\0\0aK\1sb.")
    refused(b"\x80\x02cbuiltins\nset\n)\x81K\1a.")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a few of them changed, removed, or repeated."""
    known = bytes(sorted(opcodes.OPERATIONS))
    damaged = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(damaged))
        kind = rng.randrange(5)
        if kind == 0:
            damaged[at] = rng.randrange(256)
        elif kind == 1:
            damaged[at] = rng.choice(known)
        elif kind == 2 and len(damaged) > 20:
            del damaged[at : at + rng.randrange(1, 9)]
        elif kind == 3:
            damaged[at:at] = bytes(rng.choice(known) for _ in range(rng.randrange(1, 6)))
        else:
            start = rng.randrange(len(damaged))
            damaged[at:at] = damaged[start : start + rng.randrange(40)]
    return bytes(damaged)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_raise(seed):
    x = torch.arange(60.0).reshape(20, 3)
    data = {
        "x": x, "t": x.t()[1:], "o": collections.OrderedDict(a=1), "l": [1, 2.5, "s", {1, 2}],
        "c": collections.Counter("ab"), "n": (1, (2, (3, 4))),
    }
    file, old = io.BytesIO(), io.BytesIO()
    torch.save(data, file)
    torch.save(data, old, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(file) as archive:
        pickled = archive.read("archive/data.pkl")
    memory = np.arange(60, dtype=np.float32).tobytes()
    rng = random.Random(seed)
    outcomes = collections.Counter()
    for turn in range(1500):
        if turn % 3 == 0:
            damaged = io.BytesIO(mutated(file.getvalue(), rng))
        elif turn % 3 == 1:
            damaged = checkpoint(mutated(pickled, rng), data__0=memory)
        else:
            damaged = io.BytesIO(mutated(old.getvalue(), rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.load(damaged)
            outcomes["loaded"] += 1
        except ERRORS:
            outcomes["raised"] += 1
    assert outcomes["raised"] > 1000


@pytest.mark.parametrize("header", [
    b"", b"[]", b"{", b'{"x": 1}', b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}',
    b'{"x":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}',
    b'{"x":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}',
    b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
    b'{"x":{"dtype":"F32","shape":[99999999999],"data_offsets":[0,399999999996]}}',
    b'{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
    b'"y":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    b'{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
    b'"x":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}',
    b"[" * 100_000,
])
def test_safetensors_headers(header, tmp_path):
    data = len(header).to_bytes(8, "little") + header + bytes(4)
    with pytest.raises(SafetensorError):
        load_safetensors(data)
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(SafetensorError):
        torch.load(tmp_path / "x.safetensors")


def test_safetensors_lengths():
    for data in (b"", b"\1", b"\xff" * 8, b"\xff" * 200):
        with pytest.raises(SafetensorError):
            load_safetensors(data)
