"""Storages: conversions, sizes, buffers, as PyTorch has them."""

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
