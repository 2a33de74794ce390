"""Files of tensors whose class has no memory of its own: their attributes are what is stored."""

import copy
import io

import pytest

import flambeau as torch


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, content):
        return torch.Tensor._make_wrapper_subclass(
            cls, content.size(), strides=content.stride(), dtype=content.dtype)

    def __init__(self, content):
        self.content = content

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrapped = [x.content if isinstance(x, cls) else x for x in args]
        return cls(func(*unwrapped, **(kwargs or {})))


def read(file, **options):
    file.seek(0)
    return torch.load(file, **options)["w"]


@pytest.mark.parametrize("zip_file", [True, False])
def test_a_wrapper_is_stored_by_its_attributes(zip_file):
    file = io.BytesIO()
    wrapper = Wrapper(torch.arange(6.0).reshape(2, 3).t())
    torch.save({"w": wrapper}, file, _use_new_zipfile_serialization=zip_file)
    loaded = read(file, weights_only=False)
    assert type(loaded) is Wrapper and loaded.shape == (3, 2) and loaded.stride() == (1, 3)
    assert loaded.content.tolist() == wrapper.content.tolist()
    with torch.serialization.safe_globals([Wrapper]):
        assert read(file).content.tolist() == wrapper.content.tolist()
    assert copy.deepcopy(wrapper).content.tolist() == wrapper.content.tolist()


def test_a_file_holds_no_attribute_of_flambeau_s():
    file = io.BytesIO()
    torch.save({"w": Wrapper(torch.ones(2))}, file)
    assert b"_flambeau" not in file.getvalue()
