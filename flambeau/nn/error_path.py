"""Notes on errors that name the module they arose in: `In fc2: Linear(in_features=4, ...)`.

Runs only while an exception leaves `Module.__call__`, one level at a time. Errors raised by user
code are left alone.
"""

from __future__ import annotations

from typing import Any

_ERRORS = (RuntimeError, ValueError, IndexError, TypeError)


class _Place:
    """The module in which an error arose, its path from `root`, and the current note."""

    __slots__ = ("module", "note", "path", "root")

    def __init__(self, module: Any) -> None:
        self.module = self.root = module
        self.path = self.note = ""


def locate(error: Exception, module: Any) -> None:
    """Note the path, relative to `module`, of the module that failed."""
    if error.__class__ not in _ERRORS or len(error.args) != 1:
        return
    location = error.__dict__.get("_flambeau_place")
    if location is None:
        if isinstance(error.args[0], str) and _is_raised_by_flambeau(error):
            error.__dict__["_flambeau_place"] = _Place(module)
        return
    if location.root is module:
        return
    for name, child in module.named_modules():
        if child is location.root:
            location.path = f"{name}.{location.path}" if location.path else name
            location.root = module
            notes = error.__dict__.setdefault("__notes__", [])
            if location.note in notes:
                notes.remove(location.note)
            location.note = f"In {location.path}: {_describe_module(location.module)}"
            notes.insert(0, location.note)
            return


def _is_raised_by_flambeau(error: Exception) -> bool:
    traceback = error.__traceback__
    assert traceback is not None  # a raised error has one
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_globals.get("__name__", "").startswith("flambeau.")


def _describe_module(module: Any) -> str:
    """The repr of a layer, or the class name of a module with children."""
    if module._modules:
        return module._get_name()
    try:
        return repr(module)
    except Exception:  # a broken repr must not hide the original error
        return module._get_name()
