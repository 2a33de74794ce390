"""The names that PyTorch has, read when somebody asks for one that flambeau lacks."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def _lines() -> dict[str, str]:
    text = (Path(__file__).parent / "torch_names.txt").read_text("utf-8")
    rows = (line.partition(" ") for line in text.splitlines())
    return {head[:-1] if head.endswith(":") else head: names for head, _, names in rows}


def is_torch_module(module: str) -> bool:
    """Whether PyTorch has a module of this name that `import torch` makes reachable."""
    return module in _lines()


@cache
def names_of(module: str) -> dict[str, str]:
    """The public names of one of PyTorch's modules; each with its shortest path below `torch`, or
    "" where it has no shorter one."""
    items = (item.partition("=") for item in _lines().get(module, "").split())
    return {name: home for name, _, home in items}


def methods_of(cls: str) -> list[str]:
    """The public attributes of one of PyTorch's classes, by the class's path."""
    return _lines().get(f"{cls}.", "").split()
