"""Names that PyTorch has and flambeau does not have yet: importing one works, using it says so.

A program that imports torch.onnx or torch.fx for something that this run of it does not do, runs. A
`from torch... import name` within `try` fails, as where PyTorch is too old: the program has a way
without.
Modules that are absent as a whole are made when they are imported; what flambeau has under another
name is found in them.
"""

from __future__ import annotations

import importlib
import opcode
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn, Union

__all__ = ["Lacking", "answer_for_absent", "give_absent_methods", "install_finders", "lacking"]

_PACKAGE = __name__.partition(".")[0]
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


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


class Lacking:
    """A function or class that is not there yet: NotImplementedError when called or derived from.

    >>> torch.package.PackageExporter("file")
    Traceback (most recent call last):
    NotImplementedError: torch.package.PackageExporter is not implemented in flambeau
    """

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.__module__ = name.rpartition(".")[0]
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self._name} is not implemented in flambeau")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        self()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Lacking(f"{self._name}.{name}")

    def __getitem__(self, item: Any) -> Any:
        return self  # Class[T], in annotations

    def __instancecheck__(self, instance: Any) -> bool:
        return False  # nothing can be one

    def __subclasscheck__(self, subclass: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007  # whose `|` this is

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return f"<{self._name}, which is not implemented in flambeau>"


def lacking(module: str, names: Iterable[str] = ()) -> Callable[[str], Any]:
    """A module's `__getattr__`, for names that PyTorch's module has: the same object where flambeau
    has it under another name, else a Lacking. AttributeError for all other names.

    `names`: further ones, which PyTorch's module has only once it is imported by itself.
    """
    known = frozenset(names)
    torch_name = "torch" + module.removeprefix(_PACKAGE).removeprefix("torch")

    def __getattr__(name: str) -> Any:
        if not name.startswith("__"):
            if name in known:
                return Lacking(f"{torch_name}.{name}")
            if is_torch_module(f"{torch_name}.{name}"):
                return importlib.import_module(f"{module}.{name}")
            home = names_of(torch_name).get(name)
            if home is not None:
                result = _resolve(home) if home else Lacking(f"{torch_name}.{name}")
                if result.__class__ is not Lacking or not _is_optional_import():
                    return result
        raise AttributeError(f"module '{torch_name}' has no attribute '{name}'")

    return __getattr__


def _is_optional_import() -> bool:
    """Whether the code that asks for a name is a `from ... import` within `try`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None or frame.f_code.co_code[frame.f_lasti] != _IMPORT_FROM:
        return False
    import dis

    handlers = getattr(dis.Bytecode(frame.f_code), "exception_entries", ())
    return any(entry.start <= frame.f_lasti < entry.end for entry in handlers)


_resolving: set[str] = set()  # the paths that are being looked up


def _resolve(path: str) -> Any:
    """The object at a path below `torch`, or a Lacking of that name.

    Modules that name each other as a name's home lead back here: then nobody has it.
    """
    if path in _resolving:
        return Lacking(f"torch.{path}")
    _resolving.add(path)
    try:
        return _walk(path)
    finally:
        _resolving.discard(path)


def _walk(path: str) -> Any:
    result: Any = sys.modules[_PACKAGE]
    for i, part in enumerate(parts := path.split(".")):
        try:
            result = getattr(result, part)
        except AttributeError:
            return Lacking("torch." + ".".join(parts[: i + 1]))
    return result


class _Loader(SourceFileLoader):
    """Loads a module of flambeau's, and has it answer for the names that it lacks."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        super().exec_module(module)
        answer_for_absent(module)


def answer_for_absent(module: ModuleType) -> None:
    """Give a module that has none the `__getattr__` for absent names.

    Namespaces in one file are packages in PyTorch: submodules of theirs can be asked for.
    """
    if module.__name__.count(".") == 1:
        module.__dict__.setdefault("__path__", [])
    module.__dict__.setdefault("__getattr__", lacking(module.__name__))


class _Finder:
    """Finds flambeau's modules."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """The spec of a module of flambeau's, which its own loader loads."""
        if path is None or not fullname.startswith(_PACKAGE + "."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader.__class__ is SourceFileLoader:
            loader: Any = spec.loader
            spec.loader = _Loader(loader.name, loader.path)
        return spec


class _AbsentLoader:
    """Makes a module of which flambeau has no file."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """None: an ordinary module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Set what it answers with; it may have submodules, as absent as itself."""
        torch_name = "torch" + module.__name__.removeprefix(_PACKAGE)
        module.__doc__ = f"{torch_name}, most of which is not implemented in flambeau."
        module.__path__ = []
        module.__all__ = list(names_of(torch_name))  # type: ignore[attr-defined]
        answer_for_absent(module)


class _AbsentFinder:
    """Finds PyTorch's modules of which flambeau has no file; asked after all other finders."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """The spec of an empty module, for names of modules that PyTorch has."""
        inside = fullname.startswith(_PACKAGE + ".")
        if not inside or not is_torch_module("torch" + fullname.removeprefix(_PACKAGE)):
            return None
        loader: Any = _AbsentLoader()
        return ModuleSpec(fullname, loader, is_package=True)


def give_absent_methods(cls: type, names: Iterable[str]) -> None:
    """Give a class a method for each name that it has not: calling one says that it is absent."""
    for name in names:
        if not hasattr(cls, name):
            setattr(cls, name, _refusing(f"torch.{cls.__name__}.{name}"))


def _refusing(path: str) -> Callable[..., NoReturn]:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{path} is not implemented in flambeau")

    method.__name__ = path.rpartition(".")[2]
    method.__qualname__ = path.removeprefix("torch.")
    method.__doc__ = "NotImplementedError: flambeau does not have it yet."
    return method


def install_finders() -> None:
    """Has every module of flambeau's, present or not, answer for names that PyTorch has there."""
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_AbsentFinder())
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE + "."):
            answer_for_absent(module)
