"""torch.nn.parallel without a GPU: its modules import, what holds no tensor is repeated, and
tensors are refused."""

import importlib
from collections import namedtuple

import pytest


@pytest.mark.parametrize("module, names", [
    ("parallel_apply", ["parallel_apply"]),
    ("replicate", ["replicate"]),
    ("scatter_gather", ["scatter", "gather", "scatter_kwargs"]),
    ("data_parallel", ["DataParallel", "data_parallel"]),
])
def test_submodules_import(torch, module, names):
    loaded = importlib.import_module(f"{torch.__name__}.nn.parallel.{module}")
    assert all(callable(getattr(loaded, name)) for name in names)


def test_scatter_repeats_values(torch):
    Pair = namedtuple("Pair", "a b")
    scatter = torch.nn.parallel.scatter
    assert scatter((1, ["x", None], {"k": 2.0}), [0, 1]) == [(1, ["x", None], {"k": 2.0})] * 2
    assert scatter(Pair(1, ()), [0, 1, 2]) == [Pair(1, ())] * 3


def test_scatter_kwargs_fills_the_shorter(torch):
    load = importlib.import_module(f"{torch.__name__}.nn.parallel.scatter_gather")
    assert load.scatter_kwargs((), {"k": 2}, [0, 1]) == (((), ()), ({"k": 2},) * 2)
    assert load.scatter_kwargs((3,), {}, [0, 1]) == (((3,), (3,)), ({},) * 2)


def test_gather_walks_containers(torch):
    gather = torch.nn.parallel.gather
    assert gather([{"a": None, "b": [None]}] * 2, "cpu") == {"a": None, "b": [None]}
    with pytest.raises(ValueError, match="same number of keys"):
        gather([{"a": None}, {}], "cpu")
    with pytest.raises(AssertionError, match="Gather function not implemented for CPU tensors"):
        gather([(torch.ones(2),)] * 2, "cpu")


def test_devices_are_refused(torch):
    module, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is"):
        torch.nn.parallel.parallel_apply([module] * 2, [x] * 2)
    with pytest.raises(AssertionError, match="modules 2 is not equal to the number of inputs 1"):
        torch.nn.parallel.parallel_apply([module] * 2, [x])
    with pytest.raises(AssertionError, match="Broadcast function not implemented for CPU"):
        torch.nn.parallel.replicate(module, [0, 1])
