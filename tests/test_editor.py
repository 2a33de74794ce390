"""What editors and notebooks show: the source behind `??`, signatures, and completion."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn


def test_source_of_an_operator_is_its_body_and_its_vjp() -> None:
    source = inspect.getsource(torch.softmax)
    assert "def softmax(input: Array, dim: int, dtype: Dtype | None = None)" in source
    assert "@softmax.vjp" in source
    assert "_stub" not in source
    assert "ops/activation/softmax.py:" in source.replace("\\", "/")


@pytest.mark.parametrize("before", [True, False], ids=["before a call", "after a call"])
def test_source_stays_the_same_once_a_function_is_written(before: bool) -> None:
    if not before:
        torch.ones(3).cumsum(0)
    assert "def cumsum(" in inspect.getsource(torch.Tensor.cumsum)


def test_source_of_an_in_place_method_is_the_operators() -> None:
    assert "def exp(" in inspect.getsource(torch.Tensor.exp_)


def test_signatures_are_pytorchs() -> None:
    assert str(inspect.signature(torch.softmax)) == "(input, dim, dtype=None, *, out=None)"
    assert str(inspect.signature(torch.exp)) == "(input, *, out=None)"
    clamp_ = inspect.signature(torch.Tensor.clamp_).parameters.values()
    assert [(p.name, p.default) for p in clamp_][1:] == [("min", None), ("max", None)]


def test_completion_of_the_namespace_shows_names_of_pytorch() -> None:
    names = dir(torch)
    assert {"nn", "optim", "compile", "tensor", "softmax", "Tensor", "float32"} <= set(names)
    assert not {"_PUBLIC", "_sys", "_dtypes", "native", "command", "_namespace"} & set(names)


def test_completion_of_tensors_and_modules_shows_names_of_pytorch() -> None:
    x, layer = torch.ones(2), nn.Linear(2, 2)
    x.note = 1
    layer.note = 1
    assert {"sum", "grad", "note", "_version"} <= set(dir(x))
    assert not {"_array", "_tracked", "_stamp", "_node"} & set(dir(x))
    assert {"weight", "forward", "note"} <= set(dir(layer))
    assert not [name for name in dir(layer) if name.startswith("_flambeau")]


@pytest.mark.slow
def test_pyright_accepts_the_users_programs_and_reports_their_mistakes() -> None:
    """mypy's verdict is `make lint`'s; both read the same `type: ignore` comments."""
    pytest.importorskip("pyright")
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 errors" in done.stdout
