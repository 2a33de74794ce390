"""Steps whose Python may not be skipped, with the line that says why."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import random
import sys
import threading
import time
import warnings
import weakref
from collections import deque

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ops.interception.torch_function import ROUTES

from .watched_steps import Config, parts, trainer, watch

STEPS = {}


def refused(make):
    STEPS[make.__name__] = make
    return make


LOG = logging.getLogger("step")
COUNT = 0


@functools.lru_cache
def cached(n):
    return n + 1


def refusal(name):
    """A step that calls `action(loss)` within; its line is where `action` says "here"."""
    def register(action):
        STEPS[name] = lambda: trainer(within=action)
        return action
    return register


_it, _ring, _list = iter(range(99)), deque(maxlen=3), []
_local, _values = threading.local(), np.zeros(4096)
_local.rate = 1.0
_sink = open(os.devnull, "w")  # noqa: SIM115
_target = Config()
_reference = weakref.ref(_target)
_table = {}


class Sly:
    count = 0

    @property
    def rate(self):
        _list.insert(0, 1)  # here
        return 1.0

    def __getattr__(self, name):
        _ring.append(name)  # here
        return 2.0


class Sink:
    def write(self, text):
        return len(text)


SLY, SINK = Sly(), Sink()

refusal("print")(lambda loss: print("x", file=SINK))  # here
refusal("logging.info")(lambda loss: logging.info("x"))  # here
refusal("logger.info")(lambda loss: LOG.info("x"))  # here
refusal("file write")(lambda loss: _sink.write("x"))  # here
refusal("next(it)")(lambda loss: next(_it))  # here
refusal("for over an iterator")(lambda loss: [0 for _ in _it])  # here
refusal("time.time")(lambda loss: time.time())  # here
refusal("random.random")(lambda loss: random.random())  # here
refusal("random.choice")(lambda loss: random.choice([1, 2]))  # here
refusal("np.random")(lambda loss: np.random.rand())  # here
refusal("large array")(lambda loss: _values[1] + 1)  # here
refusal("deque.append")(lambda loss: _ring.append(1))  # here
refusal("weakref")(lambda loss: _reference())  # here
refusal("property")(lambda loss: SLY.rate)  # here
refusal("__getattr__")(lambda loss: SLY.anything)  # here
refusal("warnings.warn")(lambda loss: warnings.warn("x"))  # here  # noqa: B028
refusal("threading.local")(lambda loss: _local.rate)  # here
refusal("lru_cache")(lambda loss: cached(3))  # here
refusal("if on a loss")(lambda loss: 1 if loss.item() > 0.5 else 2)  # here
refusal("if on a tensor")(lambda loss: 1 if loss > 0.5 else 2)  # here
refusal("a loss, printed")(lambda loss: print(loss))  # here
refusal("a table of objects made")(lambda loss: _table.update(a=1))  # here
refusal("globals()")(lambda loss: globals()["COUNT"])  # here
refusal("id")(lambda loss: id(loss) % 2)  # here
refusal("exec")(lambda loss: exec("pass"))  # here
refusal("train()")(lambda loss: NET.train())  # here
refusal("an import")(lambda loss: __import__("this_is_odd"[:4] and "math"))  # here
NET, *_ = parts()


@refusal("counter that decides")
def counting(loss):
    global COUNT
    COUNT += 1
    if COUNT**2 % 2 == 0:  # here
        return 1


@refusal("exchange of a hook")
def hooking(loss):
    NET.register_forward_hook(print)  # here


@refusal("number of a loss into an operator")
def feeding(loss):
    return torch.ones(2) * loss.item()  # here


@refusal("numbers of a loss as a list")
def listing(loss):
    return [v for v in loss.view(1).tolist() if v > 0]  # here


@refusal("default argument that grows")
def growing(loss, seen=[]):  # noqa: B006
    seen.insert(0, 1)  # here


@refusal("a counter on a class")
def on_class(loss):
    Sly.count += 1  # here


class Odd:
    def __bool__(self):
        _list.insert(0, 1)  # here
        return True


ODD = Odd()


@refusal("truth with side effects")
def odd(loss):
    return 1 if ODD else 2


LOCK = threading.Lock()


@refusal("a lock")
def locking(loss):
    with LOCK:  # here
        pass


@refusal("del of an attribute")
def deleting(loss):
    _table["x"] = 1
    del _table["x"]  # here


@refusal("a generator of losses")
def generating(loss):
    for v in (item.item() for item in (loss, loss)):
        if v > 0.5:  # here
            break


@refusal("a generator of losses, by map and zip")
def mapping(loss):
    numbers = map(torch.Tensor.item, [loss])
    return [1 for v, _ in zip(numbers, [1], strict=True) if v > 0.5]  # here


class Best:
    def __init__(self, loss):
        self.loss = loss

    def __bool__(self):
        return self.loss.item() > 0.5

    def __lt__(self, other):
        return self.loss.item() < 0.5


@refusal("truth of a loss in an object")
def truth(loss):
    return 1 if Best(loss) else 2  # here


@refusal("order by losses")
def order(loss):
    first = sorted([Best(loss), Best(loss * 2)])[0]  # here
    return 1 if first.loss is loss else 2


@refusal("a list of threads")
def thread(loss):
    threading.Thread(target=list).start()  # here


@refusal("sorted with a key that writes")
def keyed(loss):
    sorted([3, 1], key=lambda v: _list.insert(0, v) or v)  # here


@refusal("vars")
def variables(loss):
    return vars(SLY).get("x")  # here


@refusal("the bool of a max")
def largest(loss):
    larger = max(loss, loss * 2)  # here
    return 1 if larger is loss else 2


@refusal("a C function called by map")
def by_map(loss):
    list(map(_list.append, [1, 2]))  # here


@refusal("a C function as a key")
def by_key(loss):
    sorted([1], key=_list.append)  # here


@refusal("iter of a C function")
def by_iter(loss):
    next(iter(time.time, 0))  # here


@refusal("write through __dict__")
def aliased(loss):
    before = _target.scale
    _target.__dict__["scale"] = 1.5
    return 1 if _target.scale > before else 2  # here


@refusal("write through vars of a class")
def toggled(loss):
    object.__setattr__(_target, "clip", 2.0)  # here


@refusal("whether a gradient is there, which it changes")
def gradients(loss):
    missing = NET.head[2].bias.grad is None  # here
    NET.head[2].bias.sum().backward()
    return missing


SPACE = {"__name__": "__main__", "nn": nn, "print": print}
exec("""
class Typed(nn.Module):
    def forward(self, x):
        print(x.shape)
        return x
""", SPACE)
TYPED = SPACE["Typed"]()


@refusal("a module that was typed at a prompt")
def typed(loss):
    return TYPED(loss)  # here


@refusal("+= of a list outside")
def extending(loss):
    ring = _list
    ring += [1]  # here


@refusal("|= of a set outside")
def joining(loss, chosen={1}):  # noqa: B006
    chosen |= {2}  # here


@refusal("+= of numbers to a list made here")
def gathering(loss):
    numbers = []
    numbers += [loss.item()]
    return 1 if numbers[0] > 0.5 else 2  # here


@refusal("numbers that are the same")
def same(loss):
    return 1 if len({loss.item(), 2.0}) == 1 else 2  # here


@pytest.fixture(scope="module")
def stubs():
    """Stubs stand in for all public functions, as from an overriding class's first object on."""
    ROUTES.modes += 1
    ROUTES.update()
    yield
    ROUTES.modes -= 1
    ROUTES.update()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_refused_with_its_line(name):
    step, *args = STEPS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proof, mismatches = watch(step, *args)
    assert not proof.holds
    assert mismatches == 0
    file, line, why = proof.refusals[0]
    assert file == __file__, (file, line, why)
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    assert "# here" in lines[line - 1], (line, why)


READS = (
    "if on a loss", "if on a tensor", "number of a loss into an operator", "the bool of a max",
    "numbers of a loss as a list", "a generator of losses", "a generator of losses, by map and zip",
    "+= of numbers to a list made here", "numbers that are the same",
)


@pytest.mark.parametrize("name", READS)
def test_a_step_is_refused_where_stubs_stand_in_for_functions(stubs, name):
    test_a_step_is_refused_with_its_line(name)
