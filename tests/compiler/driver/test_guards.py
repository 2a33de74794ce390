"""When programs are used, when they are not, and what users are told."""

from __future__ import annotations

import itertools
import queue
import threading
import types
import typing
import warnings

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.native.target.compile_costs import EVICTION_CALLS
from flambeau.native.runtime.frameless_call import MISS

from ..step_comparison import classify, compiled, runs, same, trainer


def _batch(n=6):
    return torch.randn(n, 8), torch.randint(0, 4, (n,))


def _net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 4))


def _told(function, *calls):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for args in calls:
            function(*args)
    return [w for w in seen if "flambeau.compile" in str(w.message) or "kinds" in str(w.message)]


def _why(function, *calls):
    for args in calls:
        function(*args)
    told = function.explain()
    assert "its Python runs on every call" in told
    return told


def test_another_shape_gets_another_program():
    net = _net().eval()
    step = compiled(lambda x, y: classify(net, x, y).detach())
    for i in range(12):
        batch = _batch(4 + i % 2)
        same(step(*batch), classify(net, *batch).detach())
    assert len(step._programs) == 2
    assert runs(step) == 10


class Batch(typing.NamedTuple):
    x: torch.Tensor
    scale: float


class Pair(typing.NamedTuple):
    x: torch.Tensor
    scale: float


def test_namedtuples_and_sizes_are_one_kind_by_type_and_structure():
    step = compiled(lambda batch, size: (batch.x * batch.scale).reshape(size))
    for i in range(24):
        kind = (Batch, Pair)[i % 2]
        x, shape = torch.randn(2, 3), torch.ones(3, 2).shape
        same(step(kind(x, 2.0), shape), (x * 2).reshape(3, 2))
    assert len(step._programs) == 2
    assert runs(step) >= 8
    x = torch.randn(2, 3)
    same(step(Batch(x, 3.0), torch.ones(6).shape), (x * 3).reshape(6))


@pytest.mark.parametrize("count", [3, 70])
def test_parameters_with_other_memory_or_flags_are_seen(count):
    weights = [torch.zeros(2, requires_grad=i % 2 == 0) for i in range(count)]

    def total(x):
        total = x
        for weight in weights:
            total = total + weight
        return total.detach()

    step = compiled(total)
    x = torch.ones(2)
    for _ in range(5):
        same(step(x), x)
    assert runs(step)
    weights[-2].data = torch.ones(2)
    same(step(x), x + 1)
    weights[-1].requires_grad_(count % 2 == 0)
    same(step(x), x + 1)
    weights[0].requires_grad_(False)
    same(step(x), total(x))


def test_more_shapes_than_programs_run_as_they_are():
    step = compiled(lambda x: x * 2)
    told = _told(step, *[(torch.ones(n),) for n in range(1, 12)])
    assert len(told) == 1
    assert "8 kinds of calls" in str(told[0].message)
    same(step(torch.ones(30)), torch.full((30,), 2.0))


def test_a_shape_that_goes_on_takes_the_place_of_one_that_does_not_come_again():
    step = compiled(lambda x: x * 2)
    shapes = [torch.ones(n) for n in range(1, 9)]
    for x in shapes * 4:
        step(x)
    first = step._programs[-1]
    new = torch.ones(9)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(EVICTION_CALLS + 3):
            for x in (new, *shapes[1:]):
                same(step(x), torch.full(x.shape, 2.0))
    assert len(told) == 1
    assert "dynamic=True" in str(told[0].message)
    assert len(step._programs) == 8
    assert first not in step._programs
    assert step.attempt(new) is not MISS
    assert step.attempt(shapes[0]) is MISS


@pytest.mark.filterwarnings("ignore:8 kinds of calls")
def test_shapes_that_all_come_again_keep_their_places():
    step = compiled(lambda x: x * 2, dynamic=False)
    shapes = [torch.ones(n) for n in range(1, 13)]
    for x in shapes * 4:
        step(x)
    before = list(step._programs)
    for x in shapes * (2 * EVICTION_CALLS):
        same(step(x), torch.full(x.shape, 2.0))
    assert step._programs == before


def test_train_and_eval_are_other_programs():
    net = _net()
    step = compiled(lambda x: net(x).detach())
    x = torch.ones(3, 8)
    for _ in range(5):
        step(x)
    net.eval()
    for _ in range(5):
        same(step(x), net(x).detach())
    assert len(step._programs) == 2
    net.train()
    torch.manual_seed(1)
    y = step(x)
    torch.manual_seed(1)
    same(y, net(x).detach())
    assert runs(step) == 9


def test_a_replaced_parameter_is_seen():
    net = _net().eval()
    step = compiled(lambda x: net(x).detach())
    x = torch.ones(3, 8)
    for _ in range(4):
        step(x)
    net[0].weight = nn.Parameter(torch.zeros(8, 8))
    for _ in range(4):
        same(step(x), net(x).detach())
    net[2].weight.data = torch.zeros(4, 8)
    for _ in range(4):
        same(step(x), net(x).detach())
    net[0] = nn.Linear(8, 8)
    for _ in range(4):
        same(step(x), net(x).detach())


def test_a_frozen_parameter_is_seen():
    net = _net().eval()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = compiled(trainer(net, optimizer, classify))
    for _ in range(4):
        step(*_batch())
    net[0].weight.requires_grad_(False)
    before = net[0].weight.clone()
    for _ in range(4):
        step(*_batch())
    same(net[0].weight.detach(), before.detach())
    assert net[0].weight.grad is None


def test_plain_values_that_the_code_names_are_guarded():
    scale = 2.0

    def step(x):
        return x * scale

    fast = compiled(step)
    x = torch.ones(2)
    for _ in range(4):
        same(fast(x), x * 2)
    scale = 3.0
    for _ in range(4):
        same(fast(x), x * 3)
    assert runs(fast)


def test_attributes_of_modules_and_plain_objects_are_guarded():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0

        def forward(self, x):
            return x * self.scale

    class Trainer:
        def __init__(self):
            self.net, self.shift = Scaled(), 1.0

        def step(self, x):
            return self.net(x) + self.shift

    owner = Trainer()
    fast = compiled(owner.step)
    x = torch.ones(2)
    for scale, shift in ((2.0, 1.0), (4.0, 1.0), (4.0, -1.0)):
        owner.net.scale, owner.shift = scale, shift
        for _ in range(4):
            same(fast(x), x * scale + shift)


def test_values_that_do_not_matter_are_forgotten():
    net = _net().eval()
    net.epoch = 0
    fast = compiled(lambda x: net(x).detach())
    x = torch.ones(3, 8)
    for epoch in range(12):
        net.epoch = epoch
        same(fast(x), net(x).detach())
    assert runs(fast) >= 8


def test_grad_mode_and_requires_grad_are_guarded():
    fast = compiled(lambda x: (x * 2).sum())
    x = torch.ones(3)
    for _ in range(4):
        assert not fast(x).requires_grad
    x.requires_grad_()
    for _ in range(4):
        assert fast(x).requires_grad
    with torch.no_grad():
        for _ in range(4):
            assert not fast(x).requires_grad


def test_a_read_value_keeps_the_step_s_python_and_names_the_line():
    def step(x):
        y = x * 2
        return int(y.sum().item())

    why = _why(compiled(step), *[(torch.ones(2),)] * 5)
    assert "item() reads" in why
    assert "Return the tensor" in why
    assert f"({__file__}:{step.__code__.co_firstlineno + 2})" in why


def test_control_flow_that_depends_on_data_is_told():
    def branches(x):
        if x.sum() > 0:
            return x
        return x * 2

    assert "__bool__() reads" in _why(compiled(branches), *[(torch.ones(2),)] * 4)
    turns = itertools.cycle([True, False])

    def alternating(x):
        return x * 2 if next(turns) else x + 1.5

    fast = compiled(alternating)
    assert "next() advances an iterator" in _why(fast, *[(torch.ones(2),)] * 6)
    same(fast(torch.ones(2)), torch.full((2,), 2.0))
    same(fast(torch.ones(2)), torch.full((2,), 2.5))


def test_other_things_that_keep_their_python():
    queue_ = queue.SimpleQueue()  # of which nobody can tell what is in it

    def keeps(x):
        queue_.put(x * 2)
        return x + 1

    def prints(x):
        print(x)
        return x + 1

    def from_numpy(x):
        return x + torch.from_numpy(x.numpy() * 2)

    def masked(x):
        return x[x > 0]

    def changing(x):
        return x * queue_.qsize()

    for step, words in ((keeps, "SimpleQueue.put"), (prints, "__repr__() reads"),
                        (masked, "shape of what"), (from_numpy, "numpy() reads"), (changing, "")):
        fast = compiled(step)
        assert words in _why(fast, *[(torch.ones(2),)] * 6)
        x = torch.tensor([1.0, -1.0])
        same(fast(x), step(x))


def test_fullgraph_raises():
    fast = compiled(lambda x: x.tolist(), fullgraph=True)
    fast(torch.ones(2))
    with pytest.raises(RuntimeError, match=r"tolist\(\) reads"):
        fast(torch.ones(2))


def test_compiled_inside_compiled_and_disable():
    inner = compiled(lambda x: x * 3)
    for _ in range(4):
        inner(torch.ones(2))
    outer = compiled(lambda x: inner(x) + 1)
    for _ in range(5):
        same(outer(torch.ones(2)), torch.full((2,), 4.0))
    assert runs(outer) == 4
    apart = torch.compiler.disable(lambda x: x * 3)
    assert "disable" in _why(compiled(lambda x: apart(x) + 1), *[(torch.ones(2),)] * 4)


def test_is_compiling_only_while_recorded():
    def step(x):
        return x + (1 if torch.compiler.is_compiling() else 2)

    fast = compiled(step)
    assert [fast(torch.zeros(1)).item() for _ in range(5)] == [1, 1, 1, 1, 1]
    assert runs(fast) >= 1
    assert step(torch.zeros(1)).item() == 2
    assert not torch.compiler.is_compiling()


def test_an_exception_leaves_the_step_as_it_was():
    net = _net().eval()
    optimizer = torch.optim.Adam(net.parameters())
    step = compiled(trainer(net, optimizer, classify))
    for _ in range(4):
        step(*_batch())
    program = step._programs[0]
    before = [p.detach().clone() for p in net.parameters()]
    counts = [s["step"].item() for s in optimizer.state.values()]
    run = program.call.__globals__["run"]

    def interrupted(values):
        raise KeyboardInterrupt

    program.call.__globals__["run"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        step(*_batch())
    program.call.__globals__["run"] = run
    same([p.detach() for p in net.parameters()], before)
    assert counts == [s["step"].item() for s in optimizer.state.values()]
    step(*_batch())
    assert runs(step) == 4


def test_an_error_while_recording_goes_through():
    fast = compiled(lambda x: x @ torch.ones(3))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="size mismatch|mat"):
            fast(torch.ones(2, 2))
    same(torch.ones(2) + 1, torch.full((2,), 2.0))


def test_programs_run_from_several_threads():
    net = _net().eval()
    step = compiled(lambda x: net(x).detach())
    x = torch.randn(3, 8)
    for _ in range(4):
        step(x)
    wanted, wrong = net(x).detach(), []

    def work():
        for _ in range(20):
            actual = step(x)
            if not torch.allclose(actual, wanted, atol=1e-5):
                wrong.append(actual)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert runs(step) > 60


def test_other_threads_pass_through_while_one_records():
    inside, go_on = threading.Event(), threading.Event()

    def step(x):
        inside.set()
        go_on.wait(5)
        return x + 1

    fast = compiled(step)
    go_on.set()
    fast(torch.ones(2))
    go_on.clear()
    inside.clear()
    thread = threading.Thread(target=fast, args=(torch.ones(2),))
    thread.start()
    assert inside.wait(5)
    same(torch.relu(torch.ones(2) * 2), torch.full((2,), 2.0))
    go_on.set()
    thread.join()


def test_reset_forgets():
    fast = compiled(lambda x: x + 1)
    for _ in range(4):
        fast(torch.ones(2))
    assert runs(fast)
    torch.compiler.reset()
    assert not fast._programs
    same(fast(torch.ones(2)), torch.full((2,), 2.0))


def test_a_method_and_options():
    class Owner:
        @torch.compile(mode="now", backend="evaluate")
        def step(self, x):
            return F.relu(x) * 2

    owner = Owner()
    for _ in range(4):
        same(owner.step(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.compile(F.relu, backend="eager") is F.relu


def test_a_name_that_is_used_and_changes_keeps_the_step_s_python():
    """What it is for, a branch for instance, would be frozen in a program."""
    settings = {"every": 0}

    def step(x):
        if len(str(settings["every"])) == 2:
            return x * 100
        return x + 1

    fast = compiled(step)
    for i in range(12):
        settings["every"] = i
        same(fast(torch.ones(2)), step(torch.ones(2)))
    line = step.__code__.co_firstlineno + 1
    assert f"it reads a value that changes with each call ({__file__}:{line})" in fast.explain()


class Settings:
    scale = 1.0

    def __init__(self):
        self.factor, self.parts, self.inner = 1.0, [1.0], {"deep": types.SimpleNamespace(value=1.0)}

    def apply(self, x):
        return x * self.factor


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings, self.table = Settings(), {"a": 1.0}

    def forward(self, x):
        return self.settings.apply(x) * self.table["a"]


SETTINGS = Settings()


@pytest.mark.parametrize(("use", "change"), [
    (lambda x: x * SETTINGS.parts[0], lambda: SETTINGS.parts.__setitem__(0, 2.0)),
    (lambda x: SETTINGS.apply(x), lambda: setattr(SETTINGS, "factor", 2.0)),
    (lambda x: x * Settings.scale, lambda: setattr(Settings, "scale", 2.0)),
    (lambda x: x * SETTINGS.inner["deep"].value,
     lambda: setattr(SETTINGS.inner["deep"], "value", 2.0)),
    (lambda x: x * len(SETTINGS.parts), lambda: SETTINGS.parts.append(0.0)),
    (lambda x: sum((x * k for k in SETTINGS.parts), x), lambda: SETTINGS.parts.append(3.0)),
])
def test_values_inside_of_objects_are_guarded(use, change):
    fast = compiled(use)
    x = torch.ones(2)
    for _ in range(4):
        same(fast(x), use(x))
    assert runs(fast) >= 1
    before = use(x)
    change()
    for _ in range(4):
        same(fast(x), use(x))
    assert not torch.equal(use(x), before)
    assert runs(fast) >= 1


def test_values_inside_of_what_a_module_holds_are_guarded():
    net = Scaled()
    fast = torch.compile(net, mode="now")
    x = torch.ones(2)
    for _ in range(4):
        same(fast(x), x)
    net.settings.factor = 2.0
    same(fast(x), x * 2)
    net.table["a"] = 3.0
    same(fast(x), x * 6)


def test_hooks_on_parameters_and_modules_come_and_go():
    def trained():
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        return net, torch.optim.SGD(net.parameters(), lr=0.01)

    def make(net, optimizer):
        def step(x):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()

        return step

    (net, optimizer), (other, plain) = trained(), trained()
    fast, step = compiled(make(net, optimizer)), make(other, plain)
    x = torch.ones(2, 3)

    def both():
        for _ in range(4):
            fast(x), step(x)
            same(net.weight, other.weight, 1e-4)

    both()
    assert runs(fast) >= 1
    hooks = [layer.weight.register_hook(lambda g: g * 0.5) for layer in (net, other)]
    both()

    def clear(parameter):
        parameter.grad.zero_()

    late = [layer.bias.register_post_accumulate_grad_hook(clear) for layer in (net, other)]
    both()
    outer = [layer.register_forward_hook(lambda module, args, y: y * 2) for layer in (net, other)]
    both()
    for handles in (hooks, late, outer):
        for handle in handles:
            handle.remove()
        both()


def test_arguments_that_share_memory_are_calls_of_another_kind():
    def step(x, y):
        x.add_(1)
        return x * y

    fast = compiled(step)
    for i in range(16):
        results = []
        for run in (step, fast):
            base = torch.arange(8.0)
            x, y = ((base, base), (base, torch.ones(8)), (base[:4], base[4:]))[i % 3]
            results.append((run(x, y), base))
        same(*results)
    assert len(fast._programs) == 3
    assert runs(fast) >= 6


@pytest.mark.parametrize("change", [
    lambda state, p: state.clear(),
    lambda state, p: state.pop(p),
    lambda state, p: state[p].update(exp_avg=torch.ones_like(p)),
    lambda state, p: state[p]["exp_avg"].fill_(2.0),
])
def test_an_optimizers_state_that_somebody_changed_is_seen(change):
    def make():
        torch.manual_seed(0)
        net = nn.Linear(8, 4)
        optimizer = torch.optim.Adam(net.parameters(), 0.1)
        return net, optimizer, trainer(net, optimizer, classify)

    (net, optimizer, step), (twin, other, wrapped) = make(), make()
    fast = compiled(wrapped)
    for i in range(12):
        batch = _batch()
        if i == 6:
            change(optimizer.state, net.weight)
            change(other.state, twin.weight)
        same(fast(*batch), step(*batch), 1e-4)
        same(list(twin.parameters()), list(net.parameters()), 1e-4)
    assert runs(fast) >= 3


@pytest.mark.parametrize("wrap", [torch.from_numpy, torch.as_tensor, torch.asarray, torch.tensor])
def test_batches_of_numpy_are_wrapped_inside_of_the_step(wrap):
    net = nn.Linear(3, 2)
    fast = compiled(lambda x: (net(wrap(x)).detach(), wrap(x).add_(1).sum()))
    for i in range(6):
        x = np.full((4, 3), i, np.float32)
        same(fast(x)[0], net(torch.tensor(x if wrap is torch.tensor else x - 1)).detach())
        assert x[0, 0] == i + (wrap is not torch.tensor)
    assert runs(fast) >= 3


@pytest.mark.parametrize("change", ["k0", "k99", "t0", "t99"])
@pytest.mark.parametrize("passed", [False, True])
def test_attributes_with_names_of_the_generated_source(change, passed):
    class Config:
        k0 = k99 = t0 = t99 = 1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.k0 = self.k99 = self.t0 = self.t99 = 1

    for settings in (Config(), Net()):
        vars(settings).update(k0=1, k99=1, t0=1, t99=1)

        def step(x, passed=None, settings=settings):
            config = settings if passed is None else passed
            x = x * 2 if config.k0 % 3 > config.k99 % 2 else x + 2
            return x * 3 if config.t0 % 3 > config.t99 % 2 else x + 3

        fast = compiled(step)
        arguments = (settings,) if passed else ()
        for i in range(12):
            if i == 6:
                setattr(settings, change, 2)
            x = torch.full((2,), float(i))
            same(fast(x, *arguments), step(x, *arguments))
        assert runs(fast) >= 3 or passed
