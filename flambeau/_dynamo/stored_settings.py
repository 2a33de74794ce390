"""Modules of settings that are remembered and have no effect, with PyTorch's defaults.

Scripts set them (`torch._inductor.config.triton.unique_kernel_names = True`), read them
(`max(64, torch._dynamo.config.cache_size_limit)`) and patch them for a while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


def defaults(on: str = "", off: str = "", **values: Any) -> dict[str, Any]:
    """Return settings by name: words of `on` are True, of `off` False, and `values` as they are."""
    return {**dict.fromkeys(on.split(), True), **dict.fromkeys(off.split(), False), **values}


class Group(SimpleNamespace):
    """Settings below one name, such as `triton`: any name is taken, and None until it is set."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class SettingsModule(ModuleType):
    """A module whose attributes are settings: any name is taken, and None until it is set."""

    _aliases: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        target = self._aliases.get(name)
        return None if target is None else getattr(self, target)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(self._aliases.get(name, name), value)

    @contextmanager
    def patch(self, name: Any = None, value: Any = None, **changes: Any) -> Iterator[None]:
        """Context manager or decorator that changes settings: a name and its value, a dictionary,
        or keywords. A name may have dots: "triton.cudagraphs".
        """
        changes |= name if isinstance(name, dict) else {} if name is None else {name: value}
        before = {key: self._read(key) for key in changes}
        self._write(changes)
        try:
            yield
        finally:
            self._write(before)

    def _read(self, key: str) -> Any:
        group, _, name = key.rpartition(".")
        return getattr(getattr(self, group) if group else self, name)

    def _write(self, changes: Mapping[str, Any]) -> None:
        for key, value in changes.items():
            group, _, name = key.rpartition(".")
            setattr(getattr(self, group) if group else self, name, value)


def store_settings(
    module: str, settings: Mapping[str, Any], aliases: Mapping[str, str] | None = None
) -> None:
    """Make the module of this name one of settings; `aliases` are second names of some."""
    config = sys.modules[module]
    config.__dict__.update(settings, _aliases=aliases or {})
    config.__class__ = SettingsModule
