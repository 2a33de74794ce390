"""Storages: conversions, sizes, buffers, as PyTorch has them."""

import copy
import warnings

import pytest


@pytest.fixture(autouse=True)
def _typed_storages_are_deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_typed_storage(torch):
    x = torch.arange(3.0)
    storage = x.storage()
    assert (storage.dtype, storage.size(), storage.device) == (torch.float32, 3, x.device)
    assert storage.double().tolist() == [0.0, 1.0, 2.0] and storage.double().dtype == torch.float64
    assert storage.type() == "torch.FloatStorage"
    assert storage.pickle_storage_type() == "FloatStorage"
    assert "torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 3" in repr(storage)
    storage.fill_(2)
    assert x.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
        storage[0:2]


def test_untyped_storage(torch):
    storage = torch.UntypedStorage([1, 2, 3])
    assert storage.tolist() == [1, 2, 3] and storage.resizable() and storage.new().size() == 0
    assert storage.float().tolist() == [1.0, 2.0, 3.0]
    assert storage.get_device() is None and not storage.is_shared() and not storage.is_sparse
    storage.resize_(5)
    assert storage.nbytes() == 5 and storage.tolist()[:3] == [1, 2, 3]
    with pytest.raises(RuntimeError, match="Expected a sequence type, but got Tensor"):
        torch.UntypedStorage(torch.zeros(2))


def test_from_buffer(torch):
    assert torch.FloatStorage.from_buffer(b"\0\0\x80?", "little").tolist() == [1.0]
    turned = torch.UntypedStorage.from_buffer(b"\1\0\2\0", dtype=torch.int16, byte_order="big")
    assert turned.tolist() == [0, 1, 0, 2]


def test_meta_storages_have_a_size_and_no_bytes(torch):
    for storage in (torch.UntypedStorage(24, device="meta"),
                    torch.TypedStorage([0] * 6, device="meta", dtype=torch.int32),
                    torch.empty(2, 3, device="meta").storage()):
        assert (storage.device.type, storage.nbytes(), storage.data_ptr()) == ("meta", 24, 0)
        assert storage.clone().device.type == "meta"
        for read in (storage.tolist, lambda s=storage: s[0]):
            with pytest.raises(NotImplementedError, match="Not available for 'meta' device type"):
                read()
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            storage.cpu()
        with pytest.raises(RuntimeError, match="_share_fd_: only available on CPU"):
            storage.share_memory_()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.zeros(3).copy_(torch.empty(3, device="meta"))


def test_tensors_of_storages(torch):
    x = torch.ones(2, dtype=torch.int32)
    assert torch.tensor(x.storage(), dtype=torch.int32).tolist() == [1, 1]
    assert torch.tensor(x.untyped_storage(), dtype=torch.int32).tolist() == [1, 1]
    assert x.storage_type() is torch.IntStorage
    for make in (lambda s: torch.tensor(s, dtype=torch.float32),
                 lambda s: torch.tensor([]).set_(s)):
        with pytest.raises(RuntimeError, match="Expected a Storage of type"):
            make(x.storage())


def test_asarray_shares_memory_with_buffers(torch):
    memory = bytearray(8)
    x = torch.asarray(memory, dtype=torch.int32)
    memory[0] = 7
    assert x.tolist() == [7, 0]
    assert torch.asarray(memory, dtype=torch.int32, copy=True).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint32", "bool"])
def test_deterministic_algorithms_fill_new_memory(torch, dtype):
    kind = getattr(torch, dtype)
    torch.use_deterministic_algorithms(True)
    try:
        tensors = [torch.empty(3, dtype=kind), torch.empty_strided((2, 2), (1, 2), dtype=kind),
                torch.empty_like(torch.zeros(3, dtype=kind)),
                torch.zeros(3, dtype=kind).new_empty(2),
                torch.zeros(1, dtype=kind).resize_(3)[1:]]
    finally:
        torch.use_deterministic_algorithms(False)
    for x in tensors:
        full = x.isnan() if kind.is_floating_point else \
            x == (True if dtype == "bool" else torch.iinfo(kind).max)
        assert full.all()


def test_deepcopy_keeps_sharing_with_storages(torch):
    a, b = torch.arange(4.0), torch.arange(2.0)
    x, (typed, untyped, other), y = copy.deepcopy([a, [a.storage(), a.untyped_storage(),
                                                       b.storage()], b])
    x.add_(1)
    assert typed[0] == 1 and a[0] == 0
    assert untyped.data_ptr() == x.data_ptr() != a.data_ptr()
    assert other.data_ptr() == y.data_ptr() != b.data_ptr()


def test_a_storages_size_is_a_numpy_integer(torch):
    import numpy as np

    assert torch.FloatStorage(np.int16(3)).size() == 3


def test_storages_of_a_dtype_come_from_buffers_under_both_names(torch):
    for read in (torch.ByteStorage.from_buffer, torch.ByteStorage._from_buffer):
        assert torch.ByteTensor(read(b"\x01\x02\xff")).tolist() == [1, 2, 255]
    assert torch.ShortStorage._from_buffer(b"\x01\x00\x02\x00", "little").tolist() == [1, 2]


def test_new_shared_memory_has_the_size_asked_for(torch):
    storage = torch.ones(2).untyped_storage()._new_shared(12, device=torch.device("cpu"))
    assert storage.is_shared() and storage.nbytes() == 12
    x = torch.ones(1).new(storage).resize_(3)
    torch.add(torch.arange(3.0), 1, out=x)
    assert x.is_shared() and x.tolist() == [1.0, 2.0, 3.0]


def test_a_storage_is_one_object_while_it_is_in_use(torch):
    x = torch.zeros(4)
    storage = x.untyped_storage()
    storage.tag = "mine"
    assert x[1:].untyped_storage() is storage and x.detach().untyped_storage().tag == "mine"
    assert torch.zeros(4).untyped_storage() is not storage


def test_tensors_share_the_memory_of_storages(torch):
    storage = torch.UntypedStorage(10)
    for create in (torch.tensor, torch.as_tensor, torch.asarray):
        x = create(storage)
        assert (x.dtype, x.shape) == (torch.int64, (1,)) and x.data_ptr() == storage.data_ptr()
        assert create(storage, dtype=torch.uint8).shape == (10,)
    assert torch.UntypedStorage(20).__sizeof__() - storage.__sizeof__() == 10


@pytest.mark.parametrize("name", ["QInt8Storage", "QUInt8Storage", "QInt32Storage"])
def test_storages_of_quantized_dtypes_hold_integers(torch, name):
    storage = getattr(torch, name)(4)
    storage[:] = 0
    storage[1:3] = 2
    assert storage.tolist() == [0, 2, 2, 0]


def test_mapped_files_have_names_and_are_shared(torch, tmp_path):
    name = str(tmp_path / "numbers")
    storage = torch.UntypedStorage.from_file(name, True, 48)
    assert (storage.filename, storage.nbytes(), storage.is_shared()) == (name, 48, True)
    x = torch.from_file(name, shared=True, size=12)
    assert x.is_shared() and x.view(3, 4)[1:].untyped_storage().filename == name
    private = torch.from_file(name, shared=False, size=12)
    assert private.untyped_storage().filename is None
    assert torch.ones(2).untyped_storage().filename is None


def test_new_tensor_of_a_tensor_warns(torch):
    with pytest.warns(UserWarning, match=r"rather than tensor.new_tensor\(sourceTensor\)"):
        torch.ones(2).new_tensor(torch.ones(1))
