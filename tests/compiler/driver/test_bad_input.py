"""Calls that no program was made for, and what happens when a step is cut short."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.driver import compiled_function, pipeline
from flambeau.ops.core.operator import OPERATORS

from ..step_comparison import left_by, runs, same, trainer


def native(function, **options):
    return torch.compile(function, mode="now", **options)


def settled(step, *args):
    """Calls a step until its program serves it."""
    for _ in range(4):
        step(*args)
    assert runs(step), "no program was made"


def test_another_dtype_gets_another_program():
    step = native(lambda x: x * 2 + 1)
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        x = torch.ones(3, 5).to(dtype)
        for _ in range(5):
            same(step(x), x * 2 + 1)
    assert len(step._programs) == 4


def test_another_device_runs_as_it_is():
    step = native(lambda x: x * 2)
    settled(step, torch.ones(3))
    assert step(torch.ones(3, device="meta")).is_meta
    same(step(torch.ones(3)), torch.full((3,), 2.0))


def test_a_wrong_shape_raises_what_eager_code_raises():
    w = torch.randn(4, 5)
    step = native(lambda x: x @ w)
    settled(step, torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="cannot be multiplied|size|shape"):
        step(torch.ones(2, 3))
    same(step(torch.ones(2, 4)), torch.ones(2, 4) @ w)


def test_a_tensor_whose_memory_was_taken_away_is_seen():
    step = native(lambda x: x * 2)
    x = torch.ones(6)
    settled(step, x)
    x.data = torch.empty(0)
    assert step(x).shape == (0,)
    weight = nn.Parameter(torch.ones(6))
    other = native(lambda x: x * weight.detach()[:])
    settled(other, torch.ones(6))
    weight.data = torch.full((6,), 3.0)
    for _ in range(4):
        same(other(torch.ones(6)), torch.full((6,), 3.0))


def test_a_compiled_step_inside_another():
    inner = native(lambda x: torch.tanh(x) * 2)
    settled(inner, torch.ones(4))
    outer = native(lambda x: inner(x) + 1)
    for _ in range(6):
        same(outer(torch.ones(4)), torch.tanh(torch.ones(4)) * 2 + 1)
    assert runs(outer)


# ------------------------------------------------------------------------- cut short


def training():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    left = left_by(net, optimizer)
    return net, optimizer, {"left": left}


def batch(i=0):
    torch.manual_seed(i)
    return torch.randn(8, 12), torch.randint(0, 4, (8,))


def copied(left):
    return {key: value.clone() if isinstance(value, torch.Tensor) else value
            for key, value in left().items()}


def test_an_eager_call_that_raises_changes_nothing():
    net, optimizer, parts = training()
    broken = [False]

    def loss(net, x, y):
        y_hat = net(x)
        values, _ = torch.sort(y_hat, dim=1)  # called by the program as it is
        return F.cross_entropy(y_hat, y) + values.sum() * 0.01

    step = native(trainer(net, optimizer, loss))
    settled(step, *batch())
    (program,) = step._programs
    calls = [part for part in program.step.parts if hasattr(part, "node")]
    assert calls, "the program calls nothing"
    node = calls[-1].node
    function = node.function

    def failing(*arrays):
        if broken[0]:
            raise OSError("the disk is full")
        return function(*arrays)

    for call in calls:
        if call.node.function is function:
            call.node.attributes["function"] = failing
    before = copied(parts["left"])
    broken[0] = True
    with pytest.raises(OSError, match="disk"):
        step(*batch())
    same(copied(parts["left"]), before)
    broken[0] = False
    count = program.calls
    step(*batch())
    assert program.calls == count + 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_interrupts_leave_a_step_done_or_undone():
    """A program is deterministic: after n steps its weights are those of n steps undisturbed."""
    x, y = batch()
    steps = []
    for _ in range(2):
        net, optimizer, parts = training()
        step = native(trainer(net, optimizer, lambda net, x, y: F.cross_entropy(net(x), y)))
        settled(step, x, y)
        steps.append((step, parts["left"]))
    (step, left), (other, other_left) = steps
    interrupts = 0
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    deadline = time.perf_counter() + 1.0
    try:
        while time.perf_counter() < deadline:
            try:
                signal.setitimer(signal.ITIMER_REAL, 20e-6 + 80e-6 * np.random.rand())
                for _ in range(50):
                    step(x, y)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert interrupts > 10
    for _ in range(int(left()["0.step"]) - 4):
        other(x, y)
    actual, wanted = left(), other_left()
    for key in wanted:
        np.testing.assert_array_equal(actual[key].detach(), wanted[key].detach(), err_msg=key)


# ------------------------------------------------------------------------- cannot be built


def test_no_memory_for_the_arena_names_the_size(monkeypatch):
    from flambeau.compiler.schedule import arena as module

    real = np.empty

    def empty(shape, dtype=float):
        if dtype is np.uint8:
            raise MemoryError
        return real(shape, dtype)

    class Numpy:
        def __getattr__(self, name):
            return getattr(np, name)

    numpy = Numpy()
    numpy.empty = empty
    monkeypatch.setattr(module, "np", numpy)
    with pytest.raises(MemoryError, match=r"1048576 bytes|1,048,576 bytes"):
        module.Arena(1 << 20)


def test_a_pass_that_raises_leaves_the_step_eager_and_is_named(monkeypatch):
    def simplify(graph):
        raise ZeroDivisionError("a mistake")

    passes = [simplify if pass_.__name__ == "simplify" else pass_ for pass_ in pipeline.PASSES]
    monkeypatch.setattr(pipeline, "PASSES", passes)
    step = native(lambda x: x * 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(6):
            same(step(torch.ones(3)), torch.full((3,), 2.0))
    told = [str(w.message) for w in seen]
    assert len(told) == 1
    assert "failed in simplify: ZeroDivisionError: a mistake" in told[0]


def test_a_kernel_that_cannot_be_emitted_is_named(monkeypatch):
    from flambeau.native.jit import kernel_function as module

    def compile_all(*_, **__):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(module, "compile_all", compile_all)
    step = native(lambda x: x * 3.28125)  # no other test's kernel, which may be on disk
    with pytest.warns(UserWarning, match="failed in emit: RuntimeError: no such instruction"):
        for _ in range(4):
            same(step(torch.ones(3)), torch.full((3,), 3.28125))


def test_a_step_is_called_from_several_threads():
    step = native(lambda x: (x * 2).sum())
    settled(step, torch.ones(500))
    wrong = []

    def work(k):
        for _ in range(100):
            if step(torch.full((500,), float(k))).item() != 1000.0 * k:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_thread_count_set_afterwards_is_heeded():
    net, optimizer, parts = training()
    step = native(trainer(net, optimizer, lambda net, x, y: F.cross_entropy(net(x), y)))
    settled(step, *batch())
    other, other_optimizer, other_parts = training()
    plain = trainer(other, other_optimizer, lambda net, x, y: F.cross_entropy(net(x), y))
    for _ in range(4):
        plain(*batch())
    before = torch.get_num_threads()
    step._programs[0].step.threads = 0  # it is too small to be shared out by itself
    try:
        for count in (1, 3, 2):
            torch.set_num_threads(count)
            same(step(*batch()), plain(*batch()), 1e-4)
    finally:
        torch.set_num_threads(before)
    same(copied(parts["left"]), copied(other_parts["left"]), 1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_goes_on_with_its_own_copy():
    net, optimizer, parts = training()
    step = native(trainer(net, optimizer, lambda net, x, y: F.cross_entropy(net(x), y)))
    settled(step, *batch())
    before, calls = copied(parts["left"]), runs(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            losses = [float(step(*batch())) for _ in range(5)]
            os._exit(0 if losses[-1] < losses[0] and runs(step) == calls + 5 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    same(copied(parts["left"]), before)
    step(*batch())
    assert runs(step) == calls + 1


def test_an_interrupt_while_a_program_is_checked_leaves_the_recorded_call(monkeypatch):
    """The check runs on the real memory: what it put there is taken back."""
    from flambeau.compiler.validation import self_check

    x, y = batch()
    net, optimizer, parts = training()
    step = native(trainer(net, optimizer, lambda net, x, y: F.cross_entropy(net(x), y)))
    other, other_optimizer, other_parts = training()
    plain = trainer(other, other_optimizer, lambda net, x, y: F.cross_entropy(net(x), y))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(self_check, "_find_first_mismatch", interrupted)
    interrupts = 0
    for _ in range(3):
        try:
            step(x, y)
        except KeyboardInterrupt:
            interrupts += 1
        plain(x, y)
    assert interrupts == 3
    same(copied(parts["left"]), copied(other_parts["left"]), 1e-6)
    monkeypatch.undo()
    for _ in range(4):
        same(step(x, y), plain(x, y), 1e-4)


@pytest.mark.parametrize("call", [0, 1])
def test_an_interrupt_while_a_program_is_made_is_raised(monkeypatch, call):
    def interrupted(graph):
        raise KeyboardInterrupt

    net, optimizer, parts = training()
    step = native(trainer(net, optimizer, lambda net, x, y: F.cross_entropy(net(x), y)))
    for _ in range(call):
        step(*batch())
    step.forget()
    monkeypatch.setattr(pipeline, "PASSES", [interrupted])
    with pytest.raises(KeyboardInterrupt):
        for _ in range(3):
            step(*batch())
    monkeypatch.undo()
    settled(step, *batch())


def test_a_first_call_that_is_cut_short_is_not_the_first():
    """The next one makes the optimizer's state, which later ones do not."""
    torch.manual_seed(0)
    net = nn.Linear(12, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    short = [True]

    def loss(net, x, y):
        if short[0]:
            raise KeyboardInterrupt
        return F.cross_entropy(net(x), y)

    for mode in ("now", "default"):
        short[0] = True
        step = torch.compile(trainer(net, optimizer, loss), mode=mode)
        optimizer.state.clear()
        with pytest.raises(KeyboardInterrupt):
            step(*batch())
        short[0] = False
        deadline = time.perf_counter() + 60
        while not runs(step):
            assert time.perf_counter() < deadline, step.explain()
            step(*batch())


def test_an_interrupt_while_functions_are_swapped_leaves_none_swapped(monkeypatch):
    monkeypatch.setattr(compiled_function, "is_watched", lambda: False)  # the test itself traces

    def swapped():
        return [name for name, operator in OPERATORS.items()
                if operator.function.__code__.co_filename == "<flambeau capture>"]

    def interrupted(at):
        step = native(lambda x: x * 2)
        left = at

        def trace(frame, event, _):
            nonlocal left
            if not frame.f_code.co_filename.endswith(("patch_targets.py", "code_patching.py")):
                return None
            left -= event == "line"
            if left == 0:
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        try:
            sys.settrace(trace)
            with contextlib.suppress(KeyboardInterrupt):
                step(torch.ones(3))
        finally:
            sys.settrace(before)
        return step, at - left

    routed = swapped()  # by an earlier test's subclass
    _, lines = interrupted(1 << 30)
    for at in range(7, lines, lines // 10):
        step, _ = interrupted(at)
        assert swapped() == routed
        settled(step, torch.ones(3))


def test_programs_made_beside_the_training_take_over_unnoticed():
    x, y = batch()
    net, optimizer, parts = training()
    step = torch.compile(trainer(net, optimizer, lambda net, x, y: F.cross_entropy(net(x), y)))
    other, other_optimizer, other_parts = training()
    plain = trainer(other, other_optimizer, lambda net, x, y: F.cross_entropy(net(x), y))
    deadline = time.perf_counter() + 60
    while runs(step) < 3:
        assert time.perf_counter() < deadline, step.explain()
        torch.manual_seed(runs(step))
        inputs = torch.randn(8, 12), y
        same(step(*inputs), plain(*inputs), 1e-4)
        time.sleep(0.005)
    same(copied(parts["left"]), copied(other_parts["left"]), 1e-3)


def test_where_no_thread_can_be_started_the_call_makes_the_program(monkeypatch):
    step = torch.compile(lambda x: torch.tanh(x) * 2)

    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    for _ in range(6):
        same(step(torch.ones(3)), torch.tanh(torch.ones(3)) * 2)
    assert runs(step)


def test_a_mistake_in_the_recorder_leaves_the_step_eager_and_is_told(monkeypatch):
    from flambeau.compiler.driver import program_builder

    def broken(*_):
        raise KeyError("a mistake")

    monkeypatch.setattr(program_builder, "trace_to_graph", broken)
    step = native(lambda x: x * 2)
    told = "stays eager: compiling failed in trace_to_graph: KeyError: 'a mistake'"
    with pytest.warns(UserWarning, match=told):
        for _ in range(4):
            same(step(torch.ones(3)), torch.full((3,), 2.0))
    step = torch.compile(lambda x: x * 2, mode="now", fullgraph=True)
    with pytest.raises(RuntimeError, match="a mistake"):
        for _ in range(4):
            step(torch.ones(3))


def test_modes_and_backends_that_there_are_not():
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default, "):
        torch.compile(lambda x: x, mode="fast")
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        torch.compile(lambda x: x, options={"mode": "fast"})
    with pytest.raises(RuntimeError, match="Invalid backend: 'inducktor'"):
        torch.compile(nn.Linear(2, 2), backend="inducktor")
