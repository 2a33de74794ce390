"""Programs as users script them compute the same in Python, in an archive, and in PyTorch."""

from __future__ import annotations

import io
from typing import Any

import pytest

import flambeau

from . import user_programs

NAMES = tuple(user_programs.programs(flambeau))
BEYOND = tuple(user_programs.programs_beyond_pytorch(flambeau))


def leaves(value: Any) -> list[Any]:
    """Results as lists and numbers."""
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value.tolist() if hasattr(value, "tolist") else value]


def archive_of(torch: Any, module: Any) -> io.BytesIO:
    """The archive of a scripted module."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    file.seek(0)
    return file


def twice(module: Any, inputs: tuple) -> list[Any]:
    """Results of two calls: the first may change the module."""
    return [leaves(module(*inputs)) for _ in range(2)]


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_computes_what_the_program_does(torch: Any, name: str) -> None:
    build, inputs = user_programs.programs(torch)[name]
    loaded = torch.jit.load(archive_of(torch, build()))
    assert twice(loaded, inputs) == twice(build(), inputs)


@pytest.mark.parametrize("name", BEYOND)
def test_an_archive_holds_what_pytorch_refuses(name: str) -> None:
    build, inputs = user_programs.programs_beyond_pytorch(flambeau)[name]
    loaded = flambeau.jit.load(archive_of(flambeau, build()))
    assert twice(loaded, inputs) == twice(build(), inputs)


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES + BEYOND)
def test_pytorch_computes_the_same_from_the_archive(name: str) -> None:
    pytorch = pytest.importorskip("torch")
    programs = user_programs.programs if name in NAMES else user_programs.programs_beyond_pytorch
    build, inputs = programs(flambeau)[name]
    loaded = pytorch.jit.load(archive_of(flambeau, build()))
    assert twice(loaded, programs(pytorch)[name][1]) == twice(build(), inputs)
