"""Modes receive factories, detach and streams as PyTorch's do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import flambeau as torch
from flambeau.utils._python_dispatch import TorchDispatchMode

CPU = "{'device': device(type='cpu'), 'pin_memory': False}"
CALLS = {
    "torch.empty(())": f"aten.empty.memory_format ([],) {CPU}",
    "torch.ones(2, 3)": f"aten.ones.default ([2, 3],) {CPU}",
    "torch.full((2,), 1.5)": f"aten.full.default ([2], 1.5) {CPU}",
    "torch.arange(1, 3)": f"aten.arange.start (1, 3) {CPU}",
    "torch.randint(1, 3, (2,))": f"aten.randint.low (1, 3, [2]) {CPU}",
    "torch.eye(2, 3)": f"aten.eye.m (2, 3) {CPU}",
    "torch.linspace(0, 1, 3)": f"aten.linspace.default (0, 1, 3) {CPU}",
    "torch.randn(2, requires_grad=True)": f"aten.randn.default ([2],) {CPU}",
    "torch.zeros(2, dtype=torch.int32)":
        "aten.zeros.default ([2],) {'dtype': torch.int32, " + CPU[1:],
    "x.new_zeros(2)": "aten.new_zeros.default (tensor([1.]), [2]) {'pin_memory': False}",
}


class Listener(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(f"{func} {args} {kwargs or {}}")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("call", CALLS)
def test_modes_receive_all_options(call: str) -> None:
    x = torch.ones(1)
    with Listener() as mode:
        result = eval(call, {"torch": torch, "x": x})
    assert mode.calls == [CALLS[call]]
    assert result.requires_grad is ("requires_grad" in call)


def test_modes_receive_streams() -> None:
    stream = torch.Stream(stream_id=1, device_index=2, device_type=3)
    assert (stream.stream_id, stream.device_index, stream.device_type) == (1, 2, 3)

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            assert func.name() == "aten::record_stream" and args[1] is stream

    x = torch.ones(1)
    with Mode():
        x.record_stream(stream)


def test_class_methods_are_refused() -> None:
    class Mode(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return func(*args)

    with pytest.raises(RuntimeError, match="classmethod is not supported, please"), Mode():
        torch.ones(1)


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, elem: Any) -> Any:
        result = torch.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)
        result.elem = elem
        return result

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [a.elem if isinstance(a, cls) else a for a in args]
        result = func(*plain, **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_detached_wrappers_count_writes_together() -> None:
    x = Wrapper(torch.ones(1))
    version = x._version
    x.detach().add_(2)
    assert x._version == version + 1
    x.data.add_(2)
    assert x._version == version + 1 and x.elem.tolist() == [5.0]


STORAGE_CALLS = {"data_ptr": (), "resize_": (0,), "fill_": (0,), "_write_file": ("file",)}


@pytest.mark.parametrize("name", STORAGE_CALLS)
def test_storages_of_wrappers_have_no_memory(name: str) -> None:
    storage = Wrapper(torch.ones(2)).untyped_storage()
    assert storage.device.type == "cpu" and storage.nbytes() == 8
    with pytest.raises(RuntimeError, match="on an invalid python storage"):
        getattr(storage, name)(*STORAGE_CALLS[name])


def test_other_classes_do_not_take_a_wrapper() -> None:
    class Other(torch.Tensor):
        pass

    text = "subclass Other but the raw Tensor object is already associated to a python object"
    for create in (lambda x: torch.Tensor._make_subclass(Other, x), lambda x: x.as_subclass(Other),
                   Other):
        with pytest.raises(RuntimeError, match=text):
            create(Wrapper(torch.ones(2)))


def test_parameters_need_a_detach_of_the_same_class() -> None:
    class Forgetful(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return func(*[a.elem if isinstance(a, cls) else a for a in args])

    with pytest.raises(RuntimeError, match=r"requires that detach\(\) returns an instance of the"):
        torch.nn.Parameter(Forgetful(torch.ones(2)))


def test_set_and_data_are_dispatched() -> None:
    class Counting(torch.Tensor):
        calls: list[str] = []  # noqa: RUF012

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            cls.calls.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Counting(torch.ones(2))
    assert x.data.shape == (2,)
    x.set_(torch.zeros(3))
    assert Counting.calls == ["aten.detach.default", "aten.set_.source_Tensor"]
    assert x.shape == (3,) and type(x) is Counting


def test_reentrant_handlers_record() -> None:
    class Reentrant(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            plain = [a.elem if isinstance(a, cls) else a for a in args]
            with torch.overrides.enable_reentrant_dispatch():
                return cls(func(*plain, **(kwargs or {})))

    leaf = torch.ones(2, requires_grad=True)
    y = Reentrant(leaf) + 2
    assert not y.requires_grad
    y.elem.sum().backward()
    assert leaf.grad.tolist() == [1.0, 1.0]


def test_copies_of_subclasses_need_new_empty() -> None:
    class Plain(torch.Tensor):
        pass

    class Faithful(torch.Tensor):
        def new_empty(self, shape: Any) -> Any:
            return type(self)(shape)

    with pytest.raises(RuntimeError, match="for which that function returns another instance"):
        copy.deepcopy(Plain(3))
    assert type(copy.deepcopy(Faithful(3))) is Faithful
