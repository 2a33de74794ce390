"""A first call that does what a stored signature lists runs no operator; any other is eager."""

from __future__ import annotations

import importlib.util
from contextlib import nullcontext
from unittest import mock

import numpy as np
import pytest

import flambeau as torch
from flambeau.compiler.capture import capture
from flambeau.compiler.capture.lazy_call import Deferred, _Computation
from flambeau.native.runtime import page_prefault
from flambeau.native.runtime.page_prefault import PagePrefaulter
from flambeau.tensor.layout import find_owner

SOURCE = """
import flambeau as torch
from flambeau import nn
import flambeau.nn.functional as F

class Settings:
    stop = twice = shown = False

settings = Settings()

def training(random="generator"):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if settings.twice:
            loss = loss * 2
        if settings.shown:
            loss.item()
        if settings.stop:
            raise ValueError("stopped")
        optimizer.step()
        return loss
    return net, optimizer, step
"""  # noqa: E501


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("deferred")


@pytest.fixture(autouse=True)
def _no_signatures(folder, monkeypatch):
    """There are some here, in a cache of these tests' own."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(folder / "cache"))


@pytest.fixture
def steps(folder):
    """The module of the step, of which there is a signature."""
    path = folder / "steps.py"
    fresh = not path.exists()
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("steps", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if fresh:
        for random in ("generator", "counter"):
            _, _, step = module.training()
            step = torch.compile(step, options={"mode": "now", "random": random})
            for _ in range(2):
                step(*batch())
    return module


@pytest.fixture
def computed(monkeypatch):
    """After how many events values were computed after all."""
    counts, original = [], Deferred.compute

    def compute(self):
        if self.on:
            counts.append(len(self.trace.events))
        original(self)

    monkeypatch.setattr(Deferred, "compute", compute)
    return counts


def batch():
    return torch.linspace(0, 7, 20).cos().reshape(5, 4), torch.arange(5) % 3


def left(net, optimizer):
    """What a step leaves."""
    arrays = [t.numpy().copy() for t in net.state_dict().values()]
    arrays += [None if p.grad is None else p.grad.numpy().copy() for p in net.parameters()]
    arrays += [t.numpy().copy() for s in optimizer.state.values() for t in s.values()]
    return [*arrays, torch.get_rng_state().numpy().copy()]


def same(a, b, bound=0.0):
    assert len(a) == len(b)
    for first, second in zip(a, b, strict=True):
        assert (first is None) == (second is None)
        assert first is None or np.allclose(first, second, rtol=bound, atol=bound)


@pytest.mark.parametrize("random", ["generator", "counter"])
def test_the_first_call_runs_no_operator_and_has_the_bits_of_a_cold_one(
    steps, computed, monkeypatch, random
):
    outcomes = []
    for check in ("1", "0"):
        monkeypatch.setenv("FLAMBEAU_CHECK", check)
        net, optimizer, step = steps.training()
        step = torch.compile(step, options={"mode": "now", "random": random})
        results = []
        for _ in range(3):
            results += [step(*batch()).detach().numpy().copy(), *left(net, optimizer)]
        outcomes.append(results)
        assert len(step._programs) == 1
    assert not computed
    same(*outcomes)


@pytest.mark.parametrize("name", ["_find_holders", "_compare_states", "describe_returned"])
def test_an_interrupt_after_the_call_leaves_what_the_call_leaves(steps, computed, name):
    """Its Python has run, the optimizer's counts included, so its operators have to run too."""
    net, optimizer, step = steps.training()
    step(*batch())
    expected = left(net, optimizer)
    net, optimizer, step = steps.training()
    step = torch.compile(step, options={"mode": "now"})
    with mock.patch.object(capture, name, side_effect=KeyboardInterrupt), \
            pytest.raises(KeyboardInterrupt):
        step(*batch())
    assert computed
    same(left(net, optimizer), expected, 1e-5)


@pytest.mark.parametrize("change", ["twice", "shown"])
def test_a_call_that_takes_another_way_is_an_eager_one_from_its_start(steps, computed, change):
    setattr(steps.settings, change, True)
    outcomes = []
    for compiled in (False, True):
        net, optimizer, step = steps.training()
        step = torch.compile(step, mode="now") if compiled else step
        state = torch.get_rng_state()
        outcomes.append([step(*batch()).detach().numpy(), *left(net, optimizer)])
        assert torch.get_rng_state().ne(state).any()
    assert len(computed) == 1
    assert computed[0] > 10
    same(*outcomes, bound=1e-5)


def test_an_exception_of_the_step_leaves_what_the_eager_step_would(steps):
    steps.settings.stop = True
    outcomes = []
    for compiled in (False, True):
        net, optimizer, step = steps.training()
        step = torch.compile(step, mode="now") if compiled else step
        with pytest.raises(ValueError, match="stopped"):
            step(*batch())
        outcomes.append(left(net, optimizer))
    same(*outcomes, bound=1e-5)


def test_pages_of_what_the_program_writes_are_asked_for_beforehand(steps, monkeypatch):
    ask = mock.Mock()
    monkeypatch.setattr(PagePrefaulter, "ask", ask)
    net, optimizer, step = steps.training()
    step = torch.compile(step, mode="now")
    step(*batch())
    arena = step._programs[0].step.arena
    asked = [call.args[0] for call in ask.call_args_list]
    assert arena.nbytes > 64
    assert asked[0].ctypes.data == arena.ctypes.data
    assert asked[0].nbytes == arena.nbytes
    states = [t._array for s in optimizer.state.values() for t in s.values() if t.ndim]
    written = [find_owner(p.grad._array) for p in net.parameters()] + states
    assert {id(array) for array in written} <= set(map(id, asked))


@pytest.mark.parametrize("stop", [False, True])
def test_nobody_is_at_the_memory_when_values_are_computed(steps, monkeypatch, stop):
    prefaulters, alive = [], []
    monkeypatch.setattr(page_prefault, "MIN_PREFAULT_BYTES", 0)
    monkeypatch.setattr(page_prefault, "count_usable_processors", lambda: 2)
    original = PagePrefaulter.__init__
    monkeypatch.setattr(
        PagePrefaulter, "__init__", lambda self: (original(self), prefaulters.append(self))[0]
    )
    run = _Computation.run
    monkeypatch.setattr(_Computation, "run", lambda self: (
        alive.append((thread := prefaulters[0]._thread) is not None and thread.is_alive()),
        run(self))[1])
    steps.settings.stop, steps.settings.shown = stop, not stop
    _, _, step = steps.training()
    with pytest.raises(ValueError, match="stopped") if stop else nullcontext():
        torch.compile(step, mode="now")(*batch())
    assert alive == [False]
    assert prefaulters[0]._stop[0]


def test_an_interrupt_of_the_program_leaves_what_the_call_leaves(steps, monkeypatch):
    """The call's Python has run."""
    from flambeau.compiler.runtime.executable import Step

    net, optimizer, plain = steps.training()
    torch.manual_seed(3)
    plain(*batch())
    expected = left(net, optimizer)
    net, optimizer, step = steps.training()
    step = torch.compile(step, mode="now")
    torch.manual_seed(3)

    def interrupted(self, *_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Step, "_create_direct_run", lambda self: lambda values: interrupted(self))
        with pytest.raises(KeyboardInterrupt):
            step(*batch())
    same(left(net, optimizer), expected, 1e-5)
    torch.manual_seed(5)
    losses = [step(*batch()).item() for _ in range(3)]
    torch.manual_seed(5)
    assert losses == pytest.approx([plain(*batch()).item() for _ in range(3)], rel=1e-4)


def test_bad_labels_are_refused_as_ever(steps):
    _, _, step = steps.training()
    x, y = batch()
    with pytest.raises(IndexError):
        torch.compile(step, mode="now")(x, y + 7)


def test_an_optimizer_whose_first_step_is_another_goes_on(steps):
    net, _, _ = steps.training()
    other, _, _ = steps.training()
    nets = []
    for model, compiled in ((net, True), (other, False)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model[0](x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step = torch.compile(step, mode="now") if compiled else step
        for _ in range(5):
            step(batch()[0])
        assert not compiled or step._programs
        nets.append([p.detach().numpy() for p in model.parameters()])
    same(*nets, bound=1e-5)


@pytest.mark.parametrize("look", [
    lambda y: y.detach().clone().data_ptr() > 0 and y.detach().clone().storage()[0] > 0,
    lambda y: bytes(y.detach().clone().untyped_storage())[3] < 128,
    lambda y: torch.nn.functional.one_hot((y > 0).long()).shape[-1] > 1,
    lambda y: torch.equal(y > 0, torch.ones(4) > 0),
    lambda y: len((y > 0).nonzero()) > 2,
], ids=["storage", "bytes", "one_hot", "equal", "nonzero"])
def test_a_look_at_values_decides_at_each_call(look):
    def step(x):
        y = 2 * x
        return (y * 2 if look(y) else y * 3).sum()

    compiled = torch.compile(step, mode="now")
    inputs = [torch.full((4,), value) for value in (1.0, 1.0, -1.0, 1.0, -1.0)]
    assert [float(compiled(x)) for x in inputs] == [float(step(x)) for x in inputs]


def test_what_a_draw_refuses_is_looked_at():
    def step(x):
        return torch.bernoulli(torch.sigmoid(x)) + torch.normal(x, x.abs())

    compiled = torch.compile(step, mode="now")
    x = torch.full((200, 200), 3.0)
    for _ in range(4):
        torch.manual_seed(1)
        actual = compiled(x)
        torch.manual_seed(1)
        assert torch.allclose(actual, step(x), atol=1e-5)
