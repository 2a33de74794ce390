"""Subclasses of Tensor are constructed as in Python: their `__new__`, then their `__init__`."""

from __future__ import annotations

import pytest

import flambeau as torch


class Tagged(torch.Tensor):
    def __init__(self, data: list[float], tag: str = "none") -> None:
        self.tag = tag


class Named(torch.Tensor):
    def __new__(cls, data, name):
        made = super().__new__(cls, data)
        made.label = name
        return made


class Inherits(Named):
    def __init__(self, data, name):
        self.upper = name.upper()


def test_init_runs_after_the_values_are_there():
    x = Tagged([1.0, 2.0])
    assert type(x) is Tagged
    assert (x.tolist(), x.tag) == ([1.0, 2.0], "none")


def test_new_is_inherited():
    x = Inherits([1.0], "a")
    assert type(x) is Inherits
    assert (x.tolist(), x.label, x.upper) == ([1.0], "a", "A")


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError):
        torch.Tensor([1.0], name="a")
