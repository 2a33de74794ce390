"""Classes that answer for sizes, strides, device and layout of their tensors."""

from typing import ClassVar

import pytest

QUERIES = {
    "shape": "sym_size.default", "size()": "sym_size.default", "dim()": "dim.default",
    "ndim": "dim.default", "numel()": "sym_numel.default", "stride()": "sym_stride.default",
    "storage_offset()": "sym_storage_offset.default", "is_contiguous()": "is_contiguous.default",
    "is_contiguous(memory_format=torch.channels_last)": "is_contiguous.memory_format",
}
STRIDES = [query for query in QUERIES if query.startswith(("stride", "is_contiguous"))]


def make(torch, answers, plain=False, **policy):
    """Return a tensor of a class that answers queries by name, and refuses others."""
    class Wrapper(torch.Tensor):
        calls: ClassVar[list[str]] = []

        @staticmethod
        def __new__(cls):
            if plain:
                return torch.Tensor._make_subclass(cls, torch.zeros(2, 3), True, **policy)
            return torch.Tensor._make_wrapper_subclass(cls, (2, 3), **policy)

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            cls.calls.append(func.__name__)
            return answers.get(func.overloadpacket.__name__, NotImplemented)

    return Wrapper()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_queries_reach_the_class(torch, query, plain):
    x = make(torch, {}, plain, dispatch_sizes_strides_policy="sizes")
    name = QUERIES[query].partition(".")[0]
    with pytest.raises(TypeError, match=f"Multiple dispatch failed for 'torch.ops.aten.{name}'"):
        eval(f"x.{query}")
    assert type(x).calls == [QUERIES[query]]


@pytest.mark.parametrize("query", QUERIES)
def test_a_policy_of_strides_asks_for_strides_only(torch, query):
    x = make(torch, {}, dispatch_sizes_strides_policy="strides")
    if query in STRIDES:
        with pytest.raises(TypeError, match="Multiple dispatch failed"):
            eval(f"x.{query}")
    else:
        eval(f"x.{query}")
        assert type(x).calls == []


def test_answers_and_defaults(torch):
    x = make(torch, {"sym_size": (5, 7), "dim": 2, "sym_stride": None, "is_contiguous": False},
             dispatch_sizes_strides_policy="sizes")
    assert x.shape == x.size() == (5, 7) and isinstance(x.shape, torch.Size)
    assert x.size(1) == 7 and x.stride() == (3, 1) and x.dim() == 2
    assert not x.is_contiguous()
    with pytest.raises(RuntimeError, match="dim returned invalid type NoneType, expected int"):
        make(torch, {"dim": None}, dispatch_sizes_strides_policy="sizes").dim()


def test_device_and_layout(torch):
    place = make(torch, {"device": torch.device("meta")}, dispatch_device=True)
    assert place.device.type == "meta" and torch.zeros(2).type_as(place).device.type == "meta"
    assert make(torch, {"layout": torch.sparse_csr}, dispatch_layout=True).layout \
        is torch.sparse_csr
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.ops.prim.layout'"):
        make(torch, {}, dispatch_layout=True).layout  # noqa: B018


def test_another_policy_is_refused_and_classes_without_one_are_not_asked(torch):
    with pytest.raises(ValueError, match="expected 'strides' or 'sizes'"):
        make(torch, {}, dispatch_sizes_strides_policy="all")
    x = make(torch, {})
    assert (x.shape, x.stride(), x.device.type, x.layout) == ((2, 3), (3, 1), "cpu", torch.strided)
    assert type(x).calls == []


def test_properties_of_strides_that_only_aten_has(torch):
    aten, x = torch.ops.aten, torch.zeros(2, 3, 4, 4)
    assert not aten.is_strides_like_format.default(x, torch.channels_last)
    assert aten.is_strides_like_format.default(
        x.to(memory_format=torch.channels_last), torch.channels_last)
    assert aten.is_non_overlapping_and_dense.default(x.transpose(0, 2))
    assert not aten.is_non_overlapping_and_dense.default(x[:, ::2])
    assert not aten.is_non_overlapping_and_dense.default(torch.zeros(1).expand(3))


def test_the_class_itself_has_tensor_attributes(torch):
    x = make(torch, {}, dispatch_sizes_strides_policy="sizes", dispatch_device=True)
    for name in ("size", "stride", "device", "layout", "shape"):
        assert getattr(type(x), name) is getattr(torch.Tensor, name)
    with pytest.raises(AttributeError):
        x.shape = (1,)
