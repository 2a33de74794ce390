"""The first call with an object that is no tensor, but whose class overrides, is dispatched: what
enables the dispatch is that the call fails. Each call runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

NAMES = """
where clamp einsum pad cross_entropy interpolate mse_loss conv2d one_hot zeros_like full_like
flatten reshape squeeze split std var_mean tile mm numel bernoulli normalize expand_as gather stack
""".split()

PROGRAM = """
import json, os, sys
import flambeau as torch
from flambeau.ops.interception import torch_function

F, x = torch.nn.functional, torch.arange(9.).reshape(3, 3)

class Wrapper:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        rest = [a for a in args[1:] if isinstance(a, (int, str))]
        return func.__name__, rest, {k: str(v) for k, v in kwargs.items()}

w = Wrapper()
calls = {
    "where": lambda: torch.where(x > 0, w, x), "clamp": lambda: torch.clamp(w, 0),
    "einsum": lambda: torch.einsum("ij->i", w), "pad": lambda: F.pad(w, (1, 1)),
    "cross_entropy": lambda: F.cross_entropy(w, torch.tensor([0, 1, 2])),
    "interpolate": lambda: F.interpolate(w, 2), "mse_loss": lambda: F.mse_loss(x, w),
    "conv2d": lambda: F.conv2d(w, x[None, None]), "one_hot": lambda: F.one_hot(w),
    "zeros_like": lambda: torch.zeros_like(w, dtype=torch.int64),
    "full_like": lambda: torch.full_like(w, 1), "flatten": lambda: torch.flatten(w, 1, 2),
    "reshape": lambda: torch.reshape(w, (9,)), "squeeze": lambda: torch.squeeze(w),
    "split": lambda: torch.split(w, 1), "std": lambda: torch.std(w),
    "var_mean": lambda: torch.var_mean(w), "tile": lambda: torch.tile(w, (2,)),
    "mm": lambda: torch.mm(x, w), "numel": lambda: torch.numel(w),
    "bernoulli": lambda: torch.bernoulli(w), "normalize": lambda: F.normalize(w),
    "expand_as": lambda: x.expand_as(w), "stack": lambda: torch.stack([w]),
    "gather": lambda: torch.gather(w, dim=0, index=torch.tensor([0])),
}
try:
    F.mse_loss(x, object())
except TypeError as error:
    print(json.dumps({"refused": str(error), "permanent": torch_function.ROUTES.permanent}))
sys.stdout.flush()
for name, call in calls.items():
    if os.fork() == 0:
        try:
            answer = call()
        except Exception as error:
            answer = repr(error)
        print(json.dumps({name: answer}))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def answers() -> dict:
    if not hasattr(os, "fork"):
        pytest.skip("processes are forked")
    printed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                             check=True).stdout
    return {k: v for line in printed.splitlines() for k, v in json.loads(line).items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_first_call_is_dispatched(answers, name):
    assert answers[name][0] == name


def test_arguments_arrive_without_defaults_and_names(answers):
    assert answers["gather"][1:] == [[0], {}]
    assert answers["zeros_like"][1:] == [[], {"dtype": "torch.int64"}]
    assert answers["flatten"][1:] == [[1, 2], {}]


def test_classes_that_do_not_override_are_refused_as_before(answers):
    assert answers["refused"] == "mse_loss(): argument 'target' (position 2) must be Tensor, not " \
        "object"
    assert answers["permanent"] is False
