"""Writes to classes with `__torch_dispatch__`, and their conversions: handlers and the tape see
them as PyTorch's do."""

import typing

import pytest


@pytest.fixture
def wrapper(torch):
    """A class that holds a tensor, computes with it, and notes the overloads it receives."""

    class Wrapper(torch.Tensor):
        calls: typing.ClassVar[list] = []

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(
                cls, inner.size(), dtype=inner.dtype, requires_grad=inner.requires_grad)

        def __init__(self, inner):
            self.inner = inner.detach()

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            cls.calls.append((str(func), kwargs.get("dtype")))
            result = func(*[a.inner if isinstance(a, cls) else a for a in args], **kwargs)
            return cls(result) if isinstance(result, torch.Tensor) else result

    return Wrapper


WRITES = {
    "zero_": (), "fill_": (2.5,), "normal_": (), "uniform_": (1.0, 2.0), "add_": (1.0,),
    "bernoulli_": (0.5,), "exponential_": (),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_reaches_what_the_wrapper_holds(torch, wrapper, name):
    plain = torch.full((4,), 7.0)
    x = wrapper(plain.clone())
    torch.manual_seed(3)
    expected = getattr(plain, name)(*WRITES[name])
    torch.manual_seed(3)
    wrapper.calls.clear()
    assert getattr(x, name)(*WRITES[name]) is x
    assert torch.equal(x.inner, expected)
    assert [call.split(".")[1] for call, _ in wrapper.calls] == [name]
    assert x._version == 1


def test_copies_reach_what_the_wrapper_holds(torch, wrapper):
    x, source = wrapper(torch.zeros(3)), torch.arange(3.0)
    x.copy_(source)
    assert torch.equal(x.inner, source)
    x.copy_(wrapper(source + 1))
    assert torch.equal(x.inner, source + 1)
    layer = torch.nn.Linear(3, 1, bias=False)
    layer.weight = torch.nn.Parameter(wrapper(torch.zeros(1, 3)))
    layer.load_state_dict({"weight": torch.ones(1, 3)})
    assert torch.equal(layer.weight.inner, torch.ones(1, 3))


STEPS = {
    "a number": lambda y, x: y.add_(1), "scaled": lambda y, x: y.mul_(3),
    "itself": lambda y, x: y.mul_(x), "twice": lambda y, x: y.mul_(x).mul_(x),
    "divided": lambda y, x: y.div_(x), "the result": lambda y, x: y.exp_(),
    "its old value": lambda y, x: y.sin_(), "clamped": lambda y, x: y.clamp_(0, 3),
}


@pytest.mark.parametrize("step", STEPS)
def test_gradients_pass_writes(torch, wrapper, step):
    def gradient(make):
        x = make(torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True))
        y = x * 2
        assert STEPS[step](y, x) is y
        return torch.autograd.grad(y.sum(), x)[0]

    expected = gradient(lambda t: t)
    torch.testing.assert_close(gradient(wrapper).inner, expected)


def test_a_leaf_may_not_be_written(torch, wrapper):
    x = wrapper(torch.ones(3, requires_grad=True))
    for write in (lambda: x.mul_(2), lambda: x.zero_(), lambda: x.normal_()):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            write()
    with torch.no_grad():
        x.mul_(2)
    assert torch.equal(x.inner, torch.full((3,), 2.0))


CONVERSIONS = {
    "bfloat16": lambda x, torch: x.bfloat16(), "double": lambda x, torch: x.double(),
    "to": lambda x, torch: x.to(torch.float16), "bool": lambda x, torch: x.bool(),
    "type_as": lambda x, torch: x.type_as(torch.ones(1, dtype=torch.float64)),
    "like": lambda x, torch: x.to(torch.ones(1, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_conversion_is_one_call_that_names_the_dtype(torch, wrapper, name):
    x = wrapper(torch.ones(3))
    wrapper.calls.clear()
    y = CONVERSIONS[name](x, torch)
    assert wrapper.calls == [("aten._to_copy.default", y.dtype)]
    assert y.inner.dtype == y.dtype != torch.float32


def test_a_move_to_the_device_where_it_is_returns_the_wrapper(torch, wrapper):
    x = wrapper(torch.ones(3))
    wrapper.calls.clear()
    assert x.cpu() is x and x.to("cpu") is x and x.to(torch.ones(1)) is x
    assert wrapper.calls == []


def test_what_a_wrapper_says_of_its_memory(torch, wrapper):
    x = wrapper(torch.arange(3.0))
    assert not x.is_meta and x.is_cpu and x.data_ptr() == 0
    assert type(x.data) is wrapper and torch.equal(x.data.inner, torch.arange(3.0))
    with pytest.raises(RuntimeError, match=r"\.numpy\(\) is not supported for tensor subclasses"):
        x.numpy()
    with pytest.raises(RuntimeError, match=r"\.tolist\(\) is not supported for tensor subclasses"):
        x.tolist()


def test_a_class_that_dispatches_overrides_no_functions_by_itself(torch, wrapper):
    disabled = torch._C._disabled_torch_function_impl
    assert wrapper.__torch_function__ is disabled
    x = wrapper(torch.ones(3))
    plain = torch.zeros(3)
    assert type(plain.copy_(x)) is torch.Tensor and torch.equal(plain, torch.ones(3))
    assert type(x.new_tensor([1.0])) is torch.Tensor

    class Asked(wrapper):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "asked"

    assert Asked(torch.ones(3)) + 1 == "asked"


@pytest.mark.parametrize("name, arguments", [
    ("norm", ()), ("nonzero", ()), ("masked_select", (True,)), ("std", ()), ("var", ()),
    ("argmax", ()),
])
def test_results_hold_what_pytorchs_hold(torch, wrapper, name, arguments):
    plain = torch.tensor([0.0, 3.0, 4.0])
    masks = [plain > 1] if arguments else []
    result = getattr(wrapper(plain), name)(*masks)
    assert type(result) is wrapper
    torch.testing.assert_close(result.inner, getattr(plain, name)(*masks))
