"""Compiled modules: a forward program, and a backward one that autograd runs."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.trace.trace import Trace

from ..step_comparison import both, compiled, left_by, runs, same


def _net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(64, 5))


def test_a_module_trains_as_it_does_eagerly():
    eager, net = _net(), _net()
    fast = compiled(net)
    models = (eager, net, torch.optim.SGD(eager.parameters(), 0.1, 0.9)), (
        fast, net, torch.optim.SGD(fast.parameters(), 0.1, 0.9))
    for i in range(6):
        x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
        losses = []
        for model, _, optimizer in models:
            torch.manual_seed(i)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        same(*losses)
        same({k: v for k, v in left_by(net)().items() if "0.bias" not in k},
             {k: v for k, v in left_by(eager)().items() if "0.bias" not in k}, 1e-4)
    assert runs(fast) == 5


def test_inputs_get_gradients_and_graphs_go_on():
    weight = nn.Parameter(torch.randn(4, 3))

    def f(x, y):
        return (x @ weight).relu(), (x * y).sum()

    fast = compiled(f)
    for _ in range(6):
        results = []
        for g in (fast, f):
            x, y = torch.ones(2, 4).requires_grad_(), torch.full((4,), 2.0).requires_grad_()
            weight.grad = None
            a, b = g((x * 2).tanh(), y)
            (a.sum() * b).backward()
            results.append((x.grad, y.grad, weight.grad))
        same(*results)
    assert runs(fast) == 5


def test_backward_through_one_output_twice_and_again():
    fast = compiled(lambda x: (x * x, x.exp()))
    for _ in range(5):
        x = torch.ones(3, requires_grad=True)
        a, _ = fast(x)
        a.sum().backward(retain_graph=True)
        a.sum().backward()
        same(x.grad, torch.full((3,), 4.0))
        with pytest.raises(RuntimeError, match="second time"):
            a.sum().backward()
    assert runs(fast) == 4
    (g,) = torch.autograd.grad(fast(x)[0].sum() ** 2, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    same(h, torch.full((3,), 36.0))  # d/dx of 4 x_i sum(x_j^2), summed over i, at 1


def test_an_output_and_a_view_of_it():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 8)

        def forward(self, x):
            y = self.linear(x).tanh()
            return y.view(-1, 8), y

    net = Both()
    fast = compiled(net)
    for k in (0, 1, 0, 1):
        x = torch.randn(5, 3, 6)
        results = []
        for function in (fast, net):
            net.zero_grad()
            function(x)[k].square().sum().backward()
            results.append([p.grad.clone() for p in net.parameters()])
        same(*results)


def test_a_call_creates_what_neither_existed_nor_was_passed():
    trace, existing, argument = Trace(), torch.zeros(2), torch.zeros(2)
    trace.existing_tensors, trace.argument_tensors = {id(existing)}, {id(argument)}
    assert not trace.has_created(existing)
    assert not trace.has_created(argument)
    assert trace.has_created(torch.zeros(2))


def test_it_behaves_as_the_module():
    net = _net()
    fast = torch.compile(net)
    assert isinstance(fast, nn.Module)
    assert fast._orig_mod is net
    assert list(fast.state_dict()) == ["_orig_mod." + key for key in net.state_dict()]
    fast.eval()
    assert not net[1].training
    net.note = 3
    assert fast.note == 3
    fast.other = 4
    assert net.other == 4
    net.train()
    assert fast.training
    fast.training = False
    assert not net.training
    assert len(fast) == len(net)
    with pytest.raises(TypeError, match="support len"):
        len(torch.compile(nn.Linear(2, 2)))


def _remade(module):
    return pickle.loads(pickle.dumps(module))


@pytest.mark.parametrize("again", [_remade, copy.deepcopy])
def test_a_compiled_module_is_copied_and_pickled(again):
    fast = compiled(_net().eval())
    x = torch.randn(2, 1, 8, 8)
    other = again(fast)
    assert other._orig_mod is not fast._orig_mod
    for _ in range(4):
        same(fast(x), other(x))
    assert runs(other) == 3


def test_hooks_of_a_compiled_module_run_around_it():
    net = nn.Linear(3, 2)
    fast, seen = compiled(net), []
    handle = fast.register_forward_hook(lambda module, args, y: seen.append(module))
    for _ in range(4):
        fast(torch.ones(1, 3))
    assert seen == [fast] * 4
    assert "_forward_hooks" not in net.__dict__
    handle.remove()
    fast(torch.ones(1, 3))
    assert len(seen) == 4
    assert runs(fast) == 4


def test_a_module_is_compiled_in_place():
    eager, net = _net().eval(), _net().eval()
    before, keys = repr(net), list(net.state_dict())
    assert net.compile(mode="now", backend="evaluate") is None
    x = torch.randn(2, 1, 8, 8)
    for _ in range(4):
        same(net(x), eager(x))
    assert runs(net._compiled_call_impl) == 3
    assert repr(net) == before
    assert list(net.state_dict()) == keys
    for again in (_remade, copy.deepcopy):
        other = again(net)
        assert other._compiled_call_impl is None
        same(other(x), eager(x))


def test_hooks_of_a_module_compiled_in_place_are_compiled_too():
    net = nn.Linear(3, 2)
    net.compile(mode="now", backend="evaluate")
    net.register_forward_hook(lambda module, args, y: y * 2)
    x = torch.randn(4, 3)
    for _ in range(4):
        same(net(x), F.linear(x, net.weight, net.bias) * 2)
    assert runs(net._compiled_call_impl) == 2


def test_modules_compiled_in_place_become_part_of_a_step():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    net[0].compile(mode="now", backend="evaluate")
    step = compiled(lambda x: net(x).sum())
    for _ in range(4):
        same(step(torch.ones(2, 3)), net(torch.ones(2, 3)).sum())
    assert runs(step) == 3


def test_inference_has_no_graph():
    net = _net().eval()
    fast = compiled(net)
    x = torch.randn(2, 1, 8, 8)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            for _ in range(4):
                same(fast(x), net(x))
    assert runs(fast) == 6


def test_a_module_that_cannot_be_compiled_is_named():
    class Reader(nn.Module):
        def forward(self, x):
            return x * float(x[0])

    fast = compiled(Reader())
    for _ in range(3):
        fast(torch.ones(2))
    assert fast.explain().startswith("Reader is followed: its Python runs on every call")


def test_a_weight_or_argument_written_before_backward_is_told():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    fast = compiled(net)
    for _ in range(4):
        fast(torch.ones(2, 3)).sum().backward()
    for which in (net[2].weight, None, net[0].bias):
        x = torch.ones(2, 3)
        y = fast(x)
        with torch.no_grad():
            (x if which is None else which).mul_(2)
        if which is net[0].bias:  # no derivative needs it
            y.sum().backward()
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
    assert runs(fast) >= 4


def test_second_derivatives_are_those_of_the_eager_function():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    fast = compiled(net)
    for _ in range(6):
        x = torch.randn(2, 3, requires_grad=True)
        results = []
        for function in (fast, net):
            (g,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
            results.append(torch.autograd.grad(g.square().sum(), [x, net[0].weight]))
        same(*results)
    assert runs(fast) >= 3


def _draw_and_scale(x):
    mask = torch.bernoulli(torch.full_like(x, 0.5), generator=GENERATOR)
    return (x * mask).exp() + F.dropout(x * x, 0.4) * torch.randn(x.shape[1])


GENERATOR = torch.Generator()


@pytest.mark.parametrize("function", [
    nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 1)), _draw_and_scale])
def test_a_second_derivative_of_a_call_that_draws_repeats_its_numbers(function):
    fast, x = compiled(function), torch.randn(2, 3, requires_grad=True)
    for seed in range(6):
        results = []
        for step in (fast, function):
            torch.manual_seed(seed)
            GENERATOR.manual_seed(seed)
            y, _ = step(x), (torch.rand(700), torch.randn(1))  # the call is not the last to draw
            (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            (h,) = torch.autograd.grad(g.square().sum(), x)
            later = torch.rand(2), torch.randn(2), torch.rand(1, generator=GENERATOR)
            results.append((g, h, *later))
        same(*results)
    assert runs(fast) >= 3


def test_a_second_derivative_of_a_call_that_writes_to_an_argument_writes_once():
    def step(x, total, last):
        total.add_(x.detach())
        last[...] = x.detach()
        return (x ** 3).sum()

    fast, states = compiled(step), [(torch.zeros(2), torch.zeros(2)) for _ in range(2)]
    for _ in range(6):
        x = torch.randn(2, requires_grad=True)
        results = []
        for function, state in zip((fast, step), states, strict=True):
            first, second = (function(x * k, *state) for k in (1, 2))
            (g,) = torch.autograd.grad(first + second, x, create_graph=True)
            results.append((*torch.autograd.grad(g.square().sum(), x), *state))
            results[-1] += (torch.tensor([t._version for t in state]),)
        same(*results)
    assert runs(fast) >= 3


def _add_and_weigh(x, total, w):
    total.add_(x.detach())
    return (x ** 3 * total * w).sum()


def _weigh_by_both(x, total, w):
    before = total.clone()
    total.add_(x.detach())
    return (x ** 3 * before * total.detach() * w).sum()


@pytest.mark.parametrize("lies_outside", [False, True])
@pytest.mark.parametrize("function", [_add_and_weigh, _weigh_by_both])
def test_a_second_derivative_of_a_call_that_reads_what_it_writes(function, lies_outside):
    w, results = torch.randn(2, requires_grad=True), []
    for transform in (compiled, lambda f: f):
        torch.manual_seed(0)
        total, seen = torch.zeros(2), []
        step = transform(lambda x, t=total: function(x, t, w)) if lies_outside else \
            transform(lambda x, total: function(x, total, w))
        for _ in range(6):
            x = torch.randn(2, requires_grad=True)
            y = step(x) if lies_outside else step(x, total)
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            (h,) = torch.autograd.grad(g.square().sum(), w)
            seen += [y.detach(), g.detach(), h, total.clone(), torch.tensor(total._version)]
        results.append(seen)
    same(*results)


def test_a_second_derivative_of_a_call_that_draws_by_counter():
    def weigh(x):
        r = torch.rand(3)
        return (x ** 3 * r * nn.functional.dropout(torch.ones(3))).sum(), r

    fast = torch.compile(weigh, options={"mode": "now", "random": "counter"})
    for _ in range(5):
        x = torch.randn(3, requires_grad=True)
        y, r = fast(x)
        state = torch.get_rng_state()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        weights = g.detach() / (3 * x.detach() ** 2)
        dropped = weights / r
        assert torch.isclose(dropped, 2.0 * (dropped > 1)).all()
        (h,) = torch.autograd.grad(g.square().sum(), x)
        torch.testing.assert_close(h, 36 * x.detach() ** 3 * weights ** 2)
        assert torch.equal(torch.get_rng_state(), state)
    assert runs(fast) >= 3


def test_a_compiled_module_inside_a_compiled_step():
    def make():
        net = _net()
        model = compiled(net)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step, left_by(net)

    both(make, lambda i: (torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))))


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.twice = compiled(nn.Linear(3, 2)), compiled(_doubled)

    def forward(self, x):
        return self.twice(self.body(x))

    @torch.compile(mode="now")
    def half(self, x):
        return self(x) / 2


def _doubled(x):
    return x * 2


@torch.compile
def decorated(x):
    return x + 1


def test_what_holds_compiled_functions_can_be_copied():
    holder, x = Holder(), torch.ones(1, 3)
    for _ in range(4):
        before, half = holder(x), holder.half(x)
    other = copy.deepcopy(holder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(1.0)
    for _ in range(4):
        same((holder(x), holder.half(x)), (before, half))
        actual = other(x).detach(), other.half(x).detach()
        same(actual, (torch.full((1, 2), 8.0), torch.full((1, 2), 4.0)))
    assert other.twice is holder.twice
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    same(pickle.loads(pickle.dumps(holder))(x), before)
    same(copy.deepcopy(compiled(nn.Linear(3, 2).double().forward))(x.double()).shape, (1, 2))


@pytest.mark.parametrize("step", [
    lambda x: x.sum(), lambda x: (x * 1).expand(2, 3), lambda x: (x * 1).view(3, 1),
    lambda x: x + 1,
])
def test_cotangents_that_are_handed_on_as_they_are(step):
    fast = compiled(step)
    for _ in range(5):
        results = []
        for run in (step, fast):
            x = torch.ones(3, requires_grad=True)
            (run(x * 1) * torch.arange(3.0)).sum().backward()
            results.append(x.grad)
            (g,) = torch.autograd.grad(run(x).sum(), x)
            results[-1] = results[-1], g
        same(*results)
    assert runs(fast) >= 4


@pytest.mark.parametrize("mode", ["now", None])
def test_parameters_that_have_no_shape_yet(mode):
    other = nn.LazyLinear(2)  # has nothing to do with it, and is there
    net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    fast = torch.compile(net, mode=mode)
    for _ in range(8):
        x, results = torch.randn(4, 5), []
        for run in (fast, net):  # the first call gives the shapes
            net.zero_grad()
            run(x).square().sum().backward()
            results.append([p.grad for p in net.parameters()])
        same(*results, 1e-4)
        for build in fast._compiled._specializations.list_builds():
            build.done.wait(30)
    assert runs(fast) >= 2
    assert nn.parameter.is_lazy(other.weight)


@pytest.mark.parametrize("function", [
    lambda w, v: w.sum(), lambda w, v: w.sum(0) * 2, lambda w, v: (w + v).mean(1),
    lambda w, v: (w.sum(), v.exp().sum(1)), lambda w, v: w.t().sum(0) + v.sum(1),
], ids=["all", "rows", "means", "two", "transposed"])
def test_cotangents_repeat_elements_as_eager_ones_do(function):
    fast, results = compiled(function), []
    for step in (fast, function):
        seen = []
        for _ in range(5):
            w, v = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
            total = sum(y.square().sum() for y in torch.utils._pytree.tree_leaves(step(w, v)))
            cotangents = torch.autograd.grad(total, [w, v], retain_graph=True, allow_unused=True)
            total.backward()
            seen += [(g.stride(), g._version, g.tolist())
                     for g in (*cotangents, w.grad, v.grad) if g is not None]
        results.append(seen)
    assert results[0] == results[1]
