"""Make fork safe while another thread imports a module.

A child has only the forking thread, so a module that another thread was importing would stay half
imported with its lock held, and the child would hang on it. The parent therefore waits a moment for
imports to finish, and the child discards unfinished ones.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from typing import Any

_LONGEST_WAIT_S = 2.0


def _list_foreign_locks() -> list[tuple[str, Any]]:
    """Return the modules that other threads are importing, with their locks."""
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    references: dict[str, Any] = dict(getattr(bootstrap, "_module_locks", {}))
    current = threading.get_ident()
    locks = [(name, reference()) for name, reference in references.items()]
    return [(name, lock) for name, lock in locks
            if getattr(lock, "owner", None) not in (None, current)]


def _wait_for_imports() -> None:
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while _list_foreign_locks() and time.monotonic() < deadline:
        time.sleep(0.0005)


def _forget_unfinished_imports() -> None:
    for name, _ in _list_foreign_locks():
        importlib._bootstrap._module_locks.pop(name, None)  # type: ignore[attr-defined]
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "_initializing", False):
            del sys.modules[name]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports, after_in_child=_forget_unfinished_imports)
