"""Context managers as decorators, and the private modules that tensordict imports."""

from __future__ import annotations

from importlib import import_module

import pytest


def test_subclasses_decorate_functions_and_generators(torch):
    base = import_module(torch.__name__ + ".utils._contextlib")._NoParamDecoratorContextManager
    entered = []

    class Counting(base):
        def __enter__(self):
            entered.append(True)

        def __exit__(self, *error):
            entered.append(False)

    @Counting
    def double(x):
        assert entered[-1]
        return 2 * x

    @Counting()
    def numbers():
        try:
            got = yield 1
            assert entered[-1] and got == "next"
            yield 2
        except KeyError:
            yield 3
        return 4

    assert double(3) == 6 and entered == [True, False]
    running = numbers()
    assert next(running) == 1 and not entered[-1]
    assert running.send("next") == 2
    assert running.throw(KeyError()) == 3
    with pytest.raises(StopIteration) as end:
        next(running)
    assert end.value.value == 4 and len(entered) == 10


def test_context_decorator(torch):
    decorate = import_module(torch.__name__ + ".utils._contextlib").context_decorator
    assert not decorate(lambda: torch.no_grad(), torch.is_grad_enabled)()
    with pytest.raises(RuntimeError, match="Cannot decorate classes"):
        decorate(lambda: torch.no_grad(), torch.nn.Linear)
    with pytest.raises(AssertionError, match="making it ambiguous"):
        decorate(torch.no_grad, torch.is_grad_enabled)


def test_device_of_a_decorated_generator(torch):
    set_device = import_module(torch.__name__ + ".utils._device").set_device

    @set_device("meta")
    def create():
        yield torch.empty(2)
        yield torch.empty(3)

    assert [x.device.type for x in create()] == ["meta", "meta"]
    assert torch.empty(1).device.type == "cpu"


def test_axes_of_examples(torch):
    functorch = torch._C._functorch
    seen = []

    def f(x):
        seen.append((functorch.is_batchedtensor(x), functorch.maybe_get_level(x),
                     tuple(functorch.get_unwrapped(x).shape)))
        return x

    torch.vmap(f)(torch.ones(2, 3))
    assert seen == [(True, 1, (2, 3))]
    level = functorch._vmap_increment_nesting(3, "error")
    x = functorch._add_batch_dim(torch.ones(2, 3), 1, level)
    assert x.shape == (2,) and level == 1
    y = functorch._remove_batch_dim(2 * x, level, 3, 1)
    assert functorch._vmap_decrement_nesting() == 1
    assert y.shape == (2, 3) and not functorch.is_batchedtensor(y)
    with pytest.raises(RuntimeError, match="No wrappers present"):
        functorch.get_unwrapped(y)


def test_active_fake_mode(torch):
    guards = import_module(torch.__name__ + "._guards")
    mode = import_module(torch.__name__ + "._subclasses.fake_tensor").FakeTensorMode()
    assert guards.active_fake_mode() is None
    with mode:
        assert guards.active_fake_mode() is mode
    assert guards.detect_fake_mode([mode.from_tensor(torch.ones(2))]) is mode
