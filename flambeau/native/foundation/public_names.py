"""Class names as PyTorch's errors print them: modules begin with torch."""

from __future__ import annotations

from typing import Any


def class_name(kind: Any) -> str:
    """Return a class's module and name; only the name for builtins."""
    module = getattr(kind, "__module__", None) or ""
    if module.partition(".")[0] == "flambeau":
        module = "torch" + module.removeprefix("flambeau")
        module = "torch" if module.startswith("torch.tensor.") else module
    name: str = kind.__qualname__
    return name if module in ("", "builtins") else f"{module}.{name}"


def c_class_name(value: Any) -> str:
    """Return what C code calls an object's class: with its module if it is written in C, as in
    `numpy.ndarray`."""
    kind = type(value)
    is_written_in_python = kind.__flags__ >> 9 & 1  # Py_TPFLAGS_HEAPTYPE
    return kind.__name__ if is_written_in_python else class_name(kind)


def class_of(value: Any) -> str:
    """Return `<class 'torch.nn.modules.linear.Linear'>`: what `type(thing)` prints in PyTorch."""
    return f"<class '{class_name(type(value))}'>"
