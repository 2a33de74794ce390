"""__torch_dispatch__: operators, below autograd, go to modes and to wrapper classes."""

from __future__ import annotations

import copy

import pytest

import flambeau as torch
from flambeau.multiprocessing.reductions import StorageWeakRef
from flambeau.utils._python_dispatch import (
    BaseTorchDispatchMode, TorchDispatchMode, _get_current_dispatch_mode, is_in_torch_dispatch_mode,
    return_and_correct_aliasing,
)


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_forward_backward_and_factories():
    x = torch.ones(3, requires_grad=True)
    with Log() as log:
        assert _get_current_dispatch_mode() is log
        y = (x * 2 + 1).sum()
        y.backward()
    assert log.seen[:3] == ["mul.Tensor", "add.Tensor", "sum.default"]
    assert "mul.Tensor" in log.seen[3:]
    assert x.grad.tolist() == [2.0] * 3
    with Log() as log, BaseTorchDispatchMode():
        z = torch.zeros(2, 2)
        z[0]
        z.view(4)
        z.add_(1)
        assert (z < 1).tolist() == [[False] * 2] * 2
    assert log.seen == ["zeros.default", "select.int", "view.default", "add_.Tensor", "lt.Scalar"]
    assert not is_in_torch_dispatch_mode()


@pytest.mark.usefixtures("plain_functions")
def test_operators_are_their_own_again_after_a_mode():
    before = torch.sin.__code__
    with Log():
        assert torch.sin.__code__ is not before
    assert torch.sin.__code__ is before or Wrapped.count


class Wrapped(torch.Tensor):
    """Holds a tensor, and does nothing but what that does."""

    count = 0
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad)
        wrapper.inner = inner.detach()
        Wrapped.count += 1
        return wrapper

    def __repr__(self):
        return f"Wrapped({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def opened(x):
            if isinstance(x, (list, tuple)):
                return [opened(v) for v in x]
            return x.inner if isinstance(x, Wrapped) else x

        result = func(*opened(args), **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_a_wrapper_computes_and_differentiates():
    inner = torch.tensor([1.0, 2.0], requires_grad=True)
    x = Wrapped(inner)
    assert (x.shape, x.dtype, x.device.type, x.requires_grad) == ((2,), torch.float32, "cpu", True)
    y = (x * x).exp().sum() + torch.ones(2).sum()
    assert type(y) is Wrapped
    assert type(y.grad_fn).__name__ == "AddBackward0"
    y.backward()
    assert type(x.grad) is Wrapped
    ((inner * inner).exp().sum() + 2).backward()
    assert torch.allclose(x.grad.inner, inner.grad)
    assert type(torch.cat([x, x])) is type(x.detach()) is type(x[0]) is Wrapped
    assert type(torch.ones(2) + torch.ones(2)) is torch.Tensor


def test_who_answers_nothing_is_told():
    class Mute(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, *args, **kwargs):
            return NotImplemented

    x = torch.Tensor._make_subclass(Mute, torch.ones(2))
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch._ops.aten.add"):
        x + 1

    class Plain(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Plain, (2,))


@pytest.mark.usefixtures("plain_functions")
def test_a_step_on_wrappers_stays_eager_and_others_are_compiled():
    x = Wrapped(torch.tensor([1.0, 2.0]))
    step = torch.compile(lambda: x * 2 + 1)
    for _ in range(4):
        assert step().inner.tolist() == [3.0, 5.0]
    assert "__torch_dispatch__" in step.explain()
    plain = torch.compile(lambda y: (y * 2 + 1).sum(), mode="now")
    for _ in range(4):
        assert plain(torch.ones(2)).item() == 6.0
    assert plain.ready


class Aliased(Wrapped):
    """A wrapper whose results alias its arguments as the schemas say."""

    @staticmethod
    def __new__(cls, inner):
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), inner.storage_offset(), dtype=inner.dtype)
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        opened = [x.inner if isinstance(x, Aliased) else x for x in args]
        named = {k: x.inner if isinstance(x, Aliased) else x for k, x in kwargs.items()}
        result = func(*opened, **named)
        if isinstance(result, (list, tuple)):
            result = type(result)(map(cls, result))
        else:
            result = cls(result)
        return return_and_correct_aliasing(func, args, kwargs, result)


def storage_of(x):
    return StorageWeakRef(x.untyped_storage())


def test_views_of_a_wrapper_have_its_storage():
    x = Aliased(torch.arange(6.0).view(2, 3))
    for view in (x.view(-1), x.t(), x[1], *x.split(1), x.detach(), x.unfold(1, 2, 1)):
        assert type(view) is Aliased and storage_of(view) == storage_of(x)
        assert (view.shape, view.stride()) == (view.inner.shape, view.inner.stride())
        assert view.storage_offset() == view.inner.storage_offset()
    assert storage_of(x.view(-1)[2:]) == storage_of(x)
    for result in (x * 2, x.clone(), Aliased(x.inner)):
        assert storage_of(result) != storage_of(x)
    assert x.mul_(2) is x
    out = Aliased(torch.empty(2, 3))
    assert torch.ops.aten.add.out(x, x, out=out) is out
    assert out.inner.tolist() == [[0.0, 4.0, 8.0], [12.0, 16.0, 20.0]]


def test_a_class_hands_on_to_tensor():
    called = []

    class Counted(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            called.append(str(func))
            result = super().__torch_dispatch__(func, types, list(args), kwargs)
            assert type(result) is torch.Tensor and not result.requires_grad
            return result

    x = torch.Tensor._make_subclass(Counted, torch.ones(2), True)
    y = x * 3
    y.sum().backward()
    assert y.tolist() == [3.0, 3.0] and x.grad.tolist() == [3.0, 3.0]
    assert called[0] == "aten.mul.Tensor"


def test_what_is_no_tensor_is_refused_as_a_result():
    class Odd(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return {"aten.neg.default": "arf", "aten.add_.Tensor": 3}.get(str(func))

    x = torch.Tensor._make_subclass(Odd, torch.ones(2))
    with pytest.raises(RuntimeError, match="^Unable to cast arf to Tensor$"):
        x.neg()
    with pytest.raises(RuntimeError, match="^Unable to cast 3 to Tensor$"):
        x.add_(1)
    assert x * 2 is None


def test_the_deepcopy_of_a_wrapper_is_its_clone():
    x = Wrapped(torch.tensor([1.0, 2.0], requires_grad=True))
    y = copy.deepcopy(x)
    assert type(y) is Wrapped and y.is_leaf and y.requires_grad
    assert y.inner is not x.inner and y.inner.tolist() == [1.0, 2.0]

    class Open(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return args[0].inner.clone()

    with pytest.raises(RuntimeError, match="for which cloning returns another instance"):
        copy.deepcopy(Open(torch.ones(2)))
