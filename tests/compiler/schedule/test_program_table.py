"""Planned programs on disk: the next process finds them, and plans anew where it must."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.driver import pipeline
from flambeau.compiler.schedule import program_table
from flambeau.native.foundation import disk_cache
from flambeau.native.jit import kernel_function, compile

from ..step_comparison import left_by, runs, same, trainer


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, in which every program is kept."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pipeline, "MIN_CACHED_PLAN_SECONDS", 0.0)
    return tmp_path


@pytest.fixture
def planned(monkeypatch):
    """How often something was planned."""
    calls, real = [], pipeline.plan

    def counted(graph):
        calls.append(graph)
        return real(graph)

    monkeypatch.setattr(pipeline, "plan", counted)
    return calls


def trained(calls=6, width=16):
    """A small network after some compiled steps: the step, and what it left."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, width), nn.Tanh(), nn.Dropout(0.1), nn.Linear(width, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    step = torch.compile(trainer(net, optimizer, lambda net, x, y: F.cross_entropy(net(x), y)),
                         mode="now")
    x, y = torch.randn(8, 12), torch.randint(0, 4, (8,))
    for _ in range(calls):
        step(x, y)
    assert runs(step), "no program was made"
    return step, left_by(net, optimizer)()


def test_a_program_that_was_made_before_is_not_planned_again(folder, planned):
    _, first = trained()
    assert len(planned) == 1
    step, second = trained()
    assert len(planned) == 1
    same(second, first, 0.0)
    assert "kernels" in step.explain(4)  # plans it, to say what it is made of
    assert len(planned) == 2
    assert len(step._programs[0].step.tasks) == len(step._programs[0].step.addresses)


def test_another_width_or_thread_count_is_planned(folder, planned):
    trained()
    trained(width=17)
    assert len(planned) == 2
    count = torch.get_num_threads()
    torch.set_num_threads(count + 1)
    try:
        trained()
    finally:
        torch.set_num_threads(count)
    assert len(planned) == 3


@pytest.mark.parametrize("what", ("damaged", "half", "no kernels"))
def test_what_is_wrong_on_disk_is_made_anew(folder, planned, what, monkeypatch):
    monkeypatch.setattr(compile, "find_loaded", lambda *_: None)  # as in a new process
    monkeypatch.setattr(kernel_function, "_functions", {})
    _, first = trained()
    for path in folder.iterdir():
        data = path.read_bytes()
        is_table = b'"ARENA"' in data or b'"SOURCE"' in data
        if what == "no kernels" and not is_table:
            path.unlink()
        elif what != "no kernels" and is_table:
            middle = len(data) // 2
            path.write_bytes(data[:middle] + (b"" if what == "half" else b"?" + data[middle + 1 :]))
    kernel_function._functions.clear()
    _, second = trained()
    assert len(planned) == 2
    same(second, first, 0.0)
    trained()
    assert len(planned) == 2


def test_changed_sources_are_another_key(folder, planned, monkeypatch):
    trained()
    monkeypatch.setattr(program_table, "hash_compiler_sources", lambda: "others")
    trained()
    assert len(planned) == 2
    # Without sources nothing is stored.
    monkeypatch.setattr(program_table, "hash_compiler_sources", lambda: None)
    trained()
    trained()
    assert len(planned) == 4


def test_programs_that_call_eager_functions_are_not_kept(folder, planned):
    for _ in range(2):
        step = torch.compile(lambda x: torch.linalg.eigh(x @ x.T)[0] + 1, mode="now")
        for _ in range(5):
            step(torch.eye(3))
        assert runs(step)
    assert len(planned) == 2


def test_constants_are_kept(folder, planned):
    numbers = torch.arange(7, dtype=torch.float32)[[3, 1, 0, 6]]
    for _ in range(2):
        step = torch.compile(lambda x: x * torch.tensor([5.0, 1.0, 2.5, 9.0]), mode="now")
        for _ in range(5):
            actual = step(numbers)
        assert runs(step)
        np.testing.assert_array_equal(actual.numpy(), [15, 1, 0, 54])
    assert len(planned) == 1


def test_nothing_is_kept_where_nothing_may_be(folder, planned, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    assert disk_cache.limit_bytes() == 0
    trained()
    trained()
    assert len(planned) == 2


def test_dynamic_allows_more_programs_and_says_how_many(folder):
    step = torch.compile(lambda x: x * 2 + 1, mode="now", dynamic=True)
    for size in range(1, 10):
        for _ in range(4):
            same(step(torch.ones(size)), torch.full((size,), 3.0))
    assert len(step._programs) == 9
    assert "9 of at most 32" in step.explain()
