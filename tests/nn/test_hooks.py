"""Hooks of modules: forward, backward, with keyword arguments, always called, global ones."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings

import pytest


@pytest.fixture
def square(torch, nn):
    class Square(nn.Module):
        def forward(self, x, *, plus=0):
            return x * x + plus

    return Square()


@pytest.fixture
def hooks(nn):
    """Registration of global hooks; what a test registers here is removed afterwards."""
    handles = []

    def register(name, *args, **kwargs):
        function = getattr(nn.modules.module, f"register_module_{name}")
        handles.append(function(*args, **kwargs))
        return handles[-1]

    yield register
    for handle in handles:
        handle.remove()


def test_forward_hooks_see_and_replace(torch, square):
    seen = []
    square.register_forward_pre_hook(lambda m, args: seen.append(args))
    square.register_forward_pre_hook(lambda m, args: args[0] + 1)
    square.register_forward_hook(lambda m, args, y: seen.append((args, y)))
    square.register_forward_hook(lambda m, args, y: -y)
    assert square(2) == -9
    assert seen == [(2,), ((3,), 9)]


def test_hooks_with_kwargs(square):
    square.register_forward_pre_hook(lambda m, a, k: (a, {"plus": k["plus"] + 1}), with_kwargs=True)
    square.register_forward_hook(lambda m, a, k, y: (y, k), with_kwargs=True)
    assert square(2, plus=10) == (15, {"plus": 11})


def test_a_pre_hook_with_kwargs_must_return_both(square):
    square.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple of "):
        square(2)


def test_order_and_prepend(square):
    order = []
    for name, prepend in (("a", False), ("b", False), ("c", True)):
        square.register_forward_hook(lambda m, x, y, n=name: order.append(n), prepend=prepend)
        square.register_forward_pre_hook(lambda m, x, n=name: order.append(n), prepend=prepend)
    square(1)
    assert order == ["c", "a", "b"] * 2


def test_handles(square):
    calls = []
    handle = square.register_forward_hook(lambda m, x, y: calls.append(1))
    square(1)
    handle.remove()
    handle.remove()
    square(1)
    with square.register_forward_hook(lambda m, x, y: calls.append(2)):
        square(1)
    square(1)
    assert calls == [1, 2]


def test_always_called(nn):
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("broken")

    calls = []
    broken = Broken()
    broken.register_forward_hook(lambda m, x, y: calls.append("plain"))
    broken.register_forward_hook(lambda m, x, y: calls.append(("always", y)), always_call=True)
    with pytest.raises(KeyError, match="broken"):
        broken(1)
    assert calls == [("always", None)]
    broken.register_forward_hook(lambda m, x, y: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="was silenced as another error was raised in forward"):  # noqa: SIM117
        with pytest.raises(KeyError):
            broken(1)


def test_full_backward_hooks(torch, square):
    seen = []
    square.register_full_backward_pre_hook(lambda m, gy: seen.append(gy[0].tolist()))
    square.register_full_backward_hook(lambda m, gx, gy: seen.append((gx[0].item(), gy[0].item())))
    x = torch.tensor([3.0], requires_grad=True)
    (square(x) * 2).sum().backward()
    assert seen == [[2.0], (12.0, 2.0)]
    assert x.grad.tolist() == [12.0]


def test_full_backward_hooks_refuse_writes_to_outputs_and_inputs(torch, nn):
    scale = nn.Linear(2, 2)
    scale.register_full_backward_hook(lambda m, gx, gy: None)
    y = scale(torch.ones(1, 2, requires_grad=True))
    with pytest.raises(RuntimeError, match="Output 0 of BackwardHookFunction is a view"):
        y.add_(1)
    inplace = nn.ReLU(inplace=True)
    inplace.register_full_backward_hook(lambda m, gx, gy: None)
    with pytest.raises(RuntimeError, match="an input was returned as-is"):
        inplace(torch.ones(1, 2, requires_grad=True) * 1)
    with torch.no_grad():
        assert y.add_(1).requires_grad


def test_full_backward_hooks_replace(torch, square):
    square.register_full_backward_pre_hook(lambda m, gy: (gy[0] * 10,))
    square.register_full_backward_hook(lambda m, gx, gy: (gx[0] + 1,))
    x = torch.tensor([3.0], requires_grad=True)
    square(x).sum().backward()
    assert x.grad.tolist() == [61.0]


def test_full_backward_hook_without_gradients_of_inputs(torch, nn):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0]))

        def forward(self, x):
            return x * self.weight

    seen = []
    scale = Scale()
    scale.register_full_backward_hook(lambda m, gx, gy: seen.append((gx, gy[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        scale(torch.tensor([5.0])).sum().backward()
    assert seen == [((None,), [1.0])]
    assert scale.weight.grad.tolist() == [5.0]


def test_full_backward_hooks_of_several_tensors(torch, nn):
    class Both(nn.Module):
        def forward(self, a, name, b):
            return a * b, a + b

    seen = []
    both = Both()
    both.register_full_backward_hook(
        lambda m, gx, gy: seen.append([None if g is None else g.item() for g in (*gx, *gy)])
    )
    a, b = (torch.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    y, z = both(a, "name", b)
    (y * 10 + z).sum().backward()
    assert seen == [[31.0, None, 21.0, 10.0, 1.0]]


def test_wrong_number_of_gradients(torch, square):
    square.register_full_backward_hook(lambda m, gx, gy: ())
    x = torch.tensor([3.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 0, but expected 1"):
        square(x).sum().backward()


def test_the_two_kinds_of_backward_hooks_do_not_mix(nn, square):
    square.register_full_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        square.register_backward_hook(lambda *a: None)


def test_non_full_backward_hook_warns_of_several_nodes(torch, square):
    seen = []
    square.register_backward_hook(lambda m, gx, gy: seen.append(gy[0].tolist()))
    x = torch.tensor([3.0], requires_grad=True)
    with pytest.warns(FutureWarning, match="forward contains multiple autograd Nodes"):
        y = square(x, plus=1)
    y.sum().backward()
    assert seen == [[1.0]]


def test_global_forward_hooks(hooks, nn, square):
    seen = []
    hooks("forward_pre_hook", lambda m, args: seen.append("global pre"))
    handle = hooks("forward_hook", lambda m, args, y: seen.append("global"))
    square.register_forward_pre_hook(lambda m, args: seen.append("own pre"))
    square.register_forward_hook(lambda m, args, y: seen.append("own"))
    square(1)
    nn.Identity()(1)
    assert seen == ["global pre", "own pre", "global", "own", "global pre", "global"]
    handle.remove()
    seen.clear()
    nn.Identity()(1)
    assert seen == ["global pre"]


def test_global_backward_hooks(hooks, torch, square):
    seen = []
    hooks("full_backward_pre_hook", lambda m, gy: seen.append("pre"))
    hooks("full_backward_hook", lambda m, gx, gy: seen.append(gx[0].item()))
    x = torch.tensor([3.0], requires_grad=True)
    square(x).sum().backward()
    assert seen == ["pre", 6.0]


def test_registration_hooks(hooks, torch, nn):
    seen = []
    for kind in ("buffer", "module", "parameter"):
        hooks(f"{kind}_registration_hook", lambda m, name, value: seen.append(name))
    module = nn.Module()
    module.register_buffer("b", torch.ones(1))
    module.p = nn.Parameter(torch.ones(1))
    module.m = nn.Module()
    assert seen == ["b", "p", "m"]


def test_a_registration_hook_replaces(hooks, torch, nn):
    other = nn.Parameter(torch.zeros(1))
    hooks("parameter_registration_hook", lambda m, name, value: other)
    module = nn.Module()
    module.p = nn.Parameter(torch.ones(1))
    assert module.p is other


def _plus_one(module, args, output):
    return output + 1


def test_copies_have_the_hooks(nn):
    layer = nn.Identity()
    layer.register_forward_hook(_plus_one)
    assert copy.deepcopy(layer)(1) == 2
    assert copy.copy(layer)(1) == 2
    clone = nn.Identity()
    clone.__setstate__(layer.__getstate__())
    assert clone(1) == 2


def test_hooks_are_pickled(nn):
    layer = nn.Identity()
    layer.register_forward_hook(len)
    assert list(pickle.loads(pickle.dumps(layer))._forward_hooks.values()) == [len]


def test_without_global_hooks_calls_are_direct_again(own):
    handle = own.nn.modules.module.register_module_forward_hook(lambda m, x, y: None)
    assert own.nn.Identity()._flambeau_is_hooked
    handle.remove()
    assert not own.nn.Identity()._flambeau_is_hooked


def test_no_warning_for_an_ordinary_full_hook(torch, square):
    square.register_full_backward_hook(lambda m, gx, gy: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        square(torch.tensor([3.0], requires_grad=True)).sum().backward()


def test_warning_of_hooks_that_are_not_saved(torch):
    hooks = importlib.import_module(f"{torch.__name__}.utils.hooks")
    x = torch.ones(1, requires_grad=True)
    x.register_hook(hooks.unserializable_hook(lambda g: None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hooks.warn_if_has_hooks(x)
    assert isinstance(x.register_hook(lambda g: None), hooks.RemovableHandle)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        hooks.warn_if_has_hooks(x)


def test_full_backward_hook_beside_constants_and_unused_outputs(torch, nn):
    class Both(nn.Module):
        def forward(self, a, b):
            return a * b, a + b

    seen = []
    both = Both()
    both.register_full_backward_hook(lambda m, gx, gy: seen.append((gx, gy)))
    a, b = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0])
    both(a, b)[0].sum().backward()
    ((by_a, by_b), (by_product, by_sum)) = seen[0]
    assert (by_a.item(), by_b.item(), by_product.item(), by_sum) == (3.0, 0.0, 1.0, None)
    assert a.grad.item() == 3.0


def test_full_backward_hook_and_second_derivatives(torch, nn):
    class Cube(nn.Module):
        def forward(self, x):
            return x * x * x

    cube = Cube()
    cube.register_full_backward_hook(lambda m, gx, gy: (gx[0] * 2,))
    x = torch.tensor([3.0], requires_grad=True)
    (first,) = torch.autograd.grad(cube(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert (first.item(), second.item()) == (54.0, 36.0)


def test_global_hooks_are_those_of_the_module_of_modules(torch, monkeypatch):
    """`torch.nn.modules.module._global_*`: what libraries save, clear and set again."""
    home, calls = torch.nn.modules.module, []  # reads and writes by attribute
    monkeypatch.setattr(home, "_global_forward_hooks", home._global_forward_hooks)  # restored
    handle = home.register_module_forward_hook(lambda *args: calls.append("hook"))
    assert list(home._global_forward_hooks) == [handle.id]
    saved = dict(home._global_forward_hooks)
    layer = torch.nn.Linear(2, 2)
    home._global_forward_hooks = {}
    layer(torch.ones(1, 2))
    assert not calls
    home._global_forward_hooks = saved
    layer(torch.ones(1, 2))
    assert calls == ["hook"]
    home._global_forward_hooks.clear()
    layer(torch.ones(1, 2))
    assert calls == ["hook"]
    handle.remove()
