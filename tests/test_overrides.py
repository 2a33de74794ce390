"""TorchFunctionMode: functions of torch go through the modes that are on."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau as torch
from flambeau.overrides import BaseTorchFunctionMode, TorchFunctionMode


class Log(TorchFunctionMode):
    def __init__(self, name="", seen=None):
        self.name, self.seen = name, [] if seen is None else seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(self.name + func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_what_the_program_calls_and_not_what_torch_calls():
    x, y = torch.ones(2, 3), torch.tensor([0, 1])
    with Log() as log:
        loss = torch.nn.functional.cross_entropy(x, y)
        z = x.exp()
        torch.nn.init.zeros_(z)
    assert log.seen == ["cross_entropy", "exp", "zeros_"]
    before = list(log.seen)
    x.relu()
    assert log.seen == before
    assert loss.item() > 1


def test_operators_of_python_and_layers():
    layer = torch.nn.Linear(2, 2)
    with Log() as log:
        layer(torch.ones(1, 2)) + 1
        torch.ones(3)[0]
    assert "linear" in log.seen
    assert len(log.seen) == 5


def test_modes_are_asked_from_the_last_one_on():
    seen = []
    with Log("a.", seen), Log("b.", seen), BaseTorchFunctionMode():
        torch.ones(2)
    assert seen == ["b.ones", "a.ones"]


def test_a_mode_may_answer_itself():
    class Empty(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func.__module__.endswith("nn.init"):
                return kwargs["tensor"] if "tensor" in (kwargs or {}) else args[0]
            return func(*args, **(kwargs or {}))

    torch.manual_seed(3)
    with Empty():
        torch.nn.init.normal_(torch.empty(5))
    first = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(1))


def test_gradients_inside_a_mode():
    x = torch.ones(3, requires_grad=True)
    with Log() as log:
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert log.seen[:2] == ["mul", "sum"]
    assert len(log.seen) == 3


def test_operators_that_were_never_called_before():
    with Log() as log:
        first = torch.special.i1e(torch.ones(1))
        second = torch.special.i1e(torch.ones(1))
    assert log.seen == ["ones", "special_i1e" if "special_i1e" in log.seen else "i1e"] * 2
    assert torch.equal(first, second)
    assert torch.equal(torch.special.i1e(torch.ones(1)), first)


class Tagged(torch.Tensor):
    """Gives plain tensors, but for clone and to; remembers which functions came by."""

    seen: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if func in {torch.Tensor.clone, torch.Tensor.to, torch.Tensor.requires_grad_}:
            result = result.as_subclass(cls)
            result.tag = args[0].tag
        return result


def tagged() -> Tagged:
    x = torch.ones(2).as_subclass(Tagged)
    x.tag = "mine"
    Tagged.seen.clear()
    return x


def test_methods_of_a_subclass_go_through_its_hook():
    x = tagged()
    kinds = [type(y) for y in (x.clone(), x.to(torch.float64), x + 1, 1 + x, x.sum(), x[0])]
    assert kinds == [Tagged, Tagged, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
    names = "clone", "to", "add", "add", "sum", "__getitem__"
    assert Tagged.seen == [getattr(torch.Tensor, name) for name in names]
    assert [function.__name__ for function in Tagged.seen] == list(names)
    assert x.clone().tag == "mine"
    assert x.shape == (2,)


def test_a_subclass_of_a_subclass_is_asked_first():
    class Child(Tagged):
        pass

    child = torch.ones(2).as_subclass(Child)
    child.tag = "child"
    assert type(child.clone()) is Child
    tagged()
    assert type(torch.ones(2).as_subclass(Tagged) + child) is torch.Tensor


def test_the_default_hook_gives_objects_of_the_class():
    class OwnTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.tensor([3.0, 1.0]).as_subclass(OwnTensor)
    assert type(x * 2) is OwnTensor
    assert [type(y) for y in x.sort()] == [OwnTensor, OwnTensor]
    assert type(x.tolist()) is list


def test_copies_and_pickles_keep_class_and_attributes():
    x = tagged()
    for y in (copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert (type(y), y.tag, y.tolist()) == (Tagged, "mine", [1.0, 1.0])
    Tagged.seen.clear()
    assert type(torch.Tensor._make_subclass(Tagged, torch.ones(2), True)) is Tagged
    assert Tagged.seen == []  # it is made before it has a tag


def test_results_on_a_subclass_without_a_hook_are_of_the_subclass():
    class Plain(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Plain)
    kinds = [type(y) for y in (x + 1, 1 - x, torch.add(x, x), torch.cat([x, x]), x.sum())]
    assert kinds == [Plain] * 5
    assert type(x[None].T) is Plain
    assert Plain.dtype is torch.Tensor.dtype
    assert type(torch.ones(2) + torch.ones(2)) is torch.Tensor
    assert type(torch.nn.Parameter(torch.ones(2)) * 2) is torch.Tensor


class Duck:
    """Is no tensor, and answers with names."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented if func is torch.sub else func.__name__


def test_an_object_that_is_no_tensor_is_asked():
    duck = Duck()
    assert torch.mean(duck) == "mean"
    assert torch.nn.functional.dropout(duck) == "dropout"
    assert torch.ones(2) + duck == "add"
    assert torch.cat([torch.ones(2), duck]) == "cat"
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.sub'"):
        torch.sub(duck, 1)


def test_attributes_go_through_modes_and_hooks():
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with Watch():
        assert x.shape == (2, 3)
        x.requires_grad = True
    get, put = torch.Tensor.shape.__get__, torch.Tensor.requires_grad.__set__
    assert seen == [get, put]
    assert x.requires_grad


def test_a_mode_that_declines_leaves_the_call_to_the_class():
    class Decline(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Decline():
        assert torch.mean(Duck()) == "mean"
        with pytest.raises(TypeError, match="mode object"):
            torch.ones(2)


def test_functions_and_their_names():
    from flambeau import overrides

    known = overrides.get_overridable_functions()
    assert torch.add in known[torch]
    assert torch.nn.functional.linear in known[torch.nn.functional]
    assert torch.ones in overrides.get_ignored_functions()
    assert overrides.resolve_name(torch.linalg.vector_norm) == "torch.linalg.vector_norm"
    assert overrides.resolve_name(torch.matmul) == "torch.matmul"  # also torch.linalg.matmul
    assert overrides.resolve_name(torch.mul) == "torch.mul"  # also torch.multiply
    assert overrides.resolve_name(torch.Tensor.add_) == "torch.Tensor.add_"
    assert overrides.get_testing_overrides()[torch.cat]([]) == -1
    with pytest.raises(TypeError, match="expected a sequence"):
        overrides.has_torch_function(object())


def test_backward_calls_no_hook_and_a_compiled_step_leaves_hooks_their_calls():
    class Counted(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Counted)
    w = torch.ones(2, requires_grad=True)
    loss = (x * w).sum()
    Counted.calls = 0
    torch.autograd.backward(loss.as_subclass(torch.Tensor))
    assert Counted.calls == 0
    step = torch.compile(lambda w: (x * w).sum())
    assert [type(step(w)) for _ in range(4)] == [Counted] * 4
    assert "Counted overrides mul" in step.explain()
    Counted.calls = 0
    assert type(step(w)) is Counted
    assert Counted.calls >= 2


def test_a_function_written_between_two_modes_keeps_its_code():
    """Swaps outlive a mode; a function that got its code meanwhile is not sent back to none."""
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen = []
    x = torch.tensor([3.0, 4.0])
    with Mode():
        pass
    assert torch.hypot(x, x).shape == torch.logdet(torch.eye(2) * 2).expand(2).shape
    code = torch.logdet.__code__
    with Mode():
        torch.logdet(torch.eye(2))
    assert torch.logdet in seen
    assert torch.logdet.__code__ is code
