"""Stand-ins for names that PyTorch's test files import and flambeau lacks.

One missing name at the top of a file would lose all of its tests. A stand-in can be imported, named
in a list, used as a decorator; a test that calls it fails with NotImplementedError.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from typing import Any

_import = builtins.__import__


class _StandInType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return [] if name.endswith("_db") else StandIn

    def __iter__(cls) -> Any:
        return iter(())

    def __len__(cls) -> int:
        return 0


class StandIn(metaclass=_StandInType):
    """A class of which nothing can be made; as a decorator it changes nothing."""

    __all__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType):
            return args[0]
        raise NotImplementedError(f"flambeau lacks {cls.__name__}")


class StandInModule(types.ModuleType):
    """A module of stand-ins."""

    __all__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return named(f"{self.__name__.replace('flambeau', 'torch', 1)}.{name}")


def named(path: str) -> Any:
    """A stand-in whose error says `path`."""
    short = path.rpartition(".")[2]
    if short.endswith("_db"):
        return []  # a table of operators, which others are added to

    def refuse(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if "testing._internal." in path and len(args) == 1 and not kwargs \
                and isinstance(args[0], types.FunctionType):
            return args[0]  # a decorator of tests
        raise NotImplementedError(f"flambeau lacks {path}")

    return type(short, (StandIn,), {"__new__": refuse})


class Lenient:
    """A module as PyTorch's operator tables see it: what flambeau lacks raises when called."""

    def __init__(self, module: Any, name: str) -> None:
        self.__dict__.update(_module=module, _name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            return getattr(self._module, attribute)
        path = f"{self._name}.{attribute}"
        try:
            value = getattr(self._module, attribute)
        except (AttributeError, NotImplementedError):
            # The tables ask for these to find out whether they exist.
            if attribute.startswith("_foreach_") or attribute in ("zero", "copy"):
                raise AttributeError(attribute) from None
            return named(path)
        return Lenient(value, path) if isinstance(value, types.ModuleType) else value

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._module, attribute, value)


class _AnyDecorator:
    """A decorator, a list or a flag of another version of the harness."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plain = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if plain else (lambda function: function)

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False


class _OtherHarness(types.ModuleType):
    """A module that the installed harness does not have."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return False if name.isupper() else _AnyDecorator()


class _Names:
    """What `from torch.x import a` in a test file takes its names from."""

    def __init__(self, module: Any, name: str, on_flambeau: bool) -> None:
        self._module, self._name, self._on_flambeau = module, name, on_flambeau

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            return getattr(self._module, attribute)
        try:
            return getattr(self._module, attribute)
        except (AttributeError, NotImplementedError):
            pass
        try:
            return importlib.import_module(f"{self._name}.{attribute}")
        except Exception:
            pass
        if "testing._internal" in self._name:
            if attribute.isupper():
                return False
            if attribute.endswith("_and_refs"):
                return getattr(self._module, attribute.replace("ops_and_refs", "op_db")
                               .removesuffix("_and_refs"))
            return _AnyDecorator()
        if not self._on_flambeau:
            raise AttributeError(attribute)
        return named(f"{self._name}.{attribute}")


def import_leniently(folders: tuple[str, ...], on_flambeau: bool) -> None:
    """Lets the files whose paths start so import from torch what is not there."""

    def importer(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        file = str((globals or {}).get("__file__", ""))
        if level or name.partition(".")[0] != "torch" or not file.startswith(folders):
            return _import(name, globals, locals, fromlist, level)
        try:
            module = (importlib.import_module(name) if fromlist
                      else _import(name, globals, locals, (), 0))
        except (ImportError, AttributeError, NotImplementedError):
            if "testing._internal.npu_" in name and fromlist:
                return _OtherHarness(name)
            if not on_flambeau:
                raise
            return _stand_in_module(name, bool(fromlist))
        whole = fromlist and "*" not in fromlist
        return _Names(module, name, on_flambeau) if whole else module

    builtins.__import__ = importer


def _stand_in_module(name: str, is_from: bool) -> Any:
    """What an import of a module that is not there gives: the module, or the top one."""
    result = sys.modules[name] = StandInModule(name)
    result.__path__ = []
    top = importlib.import_module("torch")
    if is_from:
        return result
    parts, parent = name.split("."), top
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(parent, part):
            setattr(parent, part, sys.modules.get(".".join(parts[:i]), result))
        parent = getattr(parent, part)
    return top
