"""PyTorch names that flambeau lacks: importing one works, using it raises NotImplementedError.

So a program that imports torch.onnx or torch.fx runs as long as it does not use them. A
`from torch... import name` inside `try` fails, as with an older PyTorch, so that the program takes
its fallback. Missing modules are created when imported, and resolve names that flambeau has
elsewhere.
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

__all__ = ["Lacking", "answer_for_absent", "give_absent_methods", "install_finders",
           "make_absent_getattr"]

_PACKAGE = __name__.partition(".")[0]
_MOVED = ("torch.nn.intrinsic", "torch.nn.qat", "torch.nn.quantizable", "torch.nn.quantized",
          "torch.quantization")  # to the same names below torch.ao
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


@cache
def _read_lines() -> dict[str, str]:
    text = (Path(__file__).parent / "torch_names.txt").read_text("utf-8")
    rows = (line.partition(" ") for line in text.splitlines())
    return {head[:-1] if head.endswith(":") else head: names for head, _, names in rows}


@cache
def _list_packages() -> frozenset[str]:
    """Return flambeau's names of the modules that have submodules in PyTorch."""
    return frozenset(_PACKAGE + name.rpartition(".")[0].removeprefix("torch")
                     for name in _read_lines())


def is_torch_module(module: str) -> bool:
    """Return whether PyTorch has a module of this name that `import torch` makes reachable."""
    return module in _read_lines()


@cache
def list_names(module: str) -> dict[str, str]:
    """Return the public names of a PyTorch module, each with its shortest path below `torch`, or
    "" if there is no shorter one."""
    items = (item.partition("=") for item in _read_lines().get(module, "").split())
    return {name: home for name, _, home in items}


def list_methods(cls: str) -> list[str]:
    """Return the public attributes of a PyTorch class, given by its path."""
    return _read_lines().get(f"{cls}.", "").split()


class Lacking:
    """A missing function or class: raises NotImplementedError when called or subclassed.

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
        return False  # it has no instances

    def __subclasscheck__(self, subclass: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007  # whose `|` this is

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return f"<{self._name}, which is not implemented in flambeau>"


def make_absent_getattr(module: str, names: Iterable[str] = ()) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names of PyTorch's module: the object if flambeau has it
    under another name, else a Lacking. AttributeError for all other names.

    `names`: additional names, which PyTorch's module has only if imported explicitly.
    """
    known = frozenset(names)
    torch_name = "torch" + module.removeprefix(_PACKAGE).removeprefix("torch")

    def __getattr__(name: str) -> Any:
        if not name.startswith("__"):
            if name in known:
                return Lacking(f"{torch_name}.{name}")
            if is_torch_module(f"{torch_name}.{name}"):
                return importlib.import_module(f"{module}.{name}")
            home = list_names(torch_name).get(name)
            if home is not None:
                home = home or _find_new_path(torch_name, name)
                result = _resolve(home) if home else Lacking(f"{torch_name}.{name}")
                if result.__class__ is not Lacking or not _is_optional_import():
                    return result
            elif _is_moved(torch_name):
                return getattr(sys.modules[f"{_PACKAGE}.{_find_new_module(torch_name)}"], name)
        raise AttributeError(f"module '{torch_name}' has no attribute '{name}'")

    return __getattr__


def _find_new_path(module: str, name: str) -> str:
    """Return the path below `torch` of a name in a package that PyTorch moved, or ""."""
    moved = _find_new_module(module)
    return f"{moved}.{name}" if moved else ""


def _find_new_module(module: str) -> str:
    """Return the path below `torch` of a module in a package that PyTorch moved, or ""."""
    if any(module == old or module.startswith(f"{old}.") for old in _MOVED):
        return "ao." + module.removeprefix("torch.")
    return ""


def _is_moved(module: str) -> bool:
    """Return whether flambeau has a module that PyTorch has at an older name too."""
    path = _find_new_module(module)
    if not path:
        return False
    try:
        importlib.import_module(f"{_PACKAGE}.{path}")
    except ModuleNotFoundError:
        return False
    return True


def _is_optional_import() -> bool:
    """Return whether the calling program code is a `from ... import` inside `try`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None or frame.f_code.co_code[frame.f_lasti] != _IMPORT_FROM:
        return False
    import dis

    handlers = getattr(dis.Bytecode(frame.f_code), "exception_entries", ())
    return any(entry.start <= frame.f_lasti < entry.end for entry in handlers)


_resolving: set[str] = set()  # paths being looked up, to detect cycles


def _resolve(path: str) -> Any:
    """Return the object at a path below `torch`, or a Lacking of that name.

    Modules that refer to each other for a name recurse here; then it is missing.
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
    """Loads a module of flambeau and adds `__getattr__` for the names it lacks."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        super().exec_module(module)
        answer_for_absent(module)


def answer_for_absent(module: ModuleType) -> None:
    """Add the `__getattr__` for absent names to a module that has none.

    Modules in one file that are packages in PyTorch also get a `__path__`, as programs import
    their submodules.
    """
    if module.__name__.count(".") == 1 or module.__name__ in _list_packages():
        module.__dict__.setdefault("__path__", [])
    module.__dict__.setdefault("__getattr__", make_absent_getattr(module.__name__))


class _Finder:
    """Finds flambeau's modules."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return the spec of a flambeau module with `_Loader` as its loader."""
        if path is None or not fullname.startswith(_PACKAGE + "."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader.__class__ is SourceFileLoader:
            loader: Any = spec.loader
            spec.loader = _Loader(loader.name, loader.path)
        return spec


class _AbsentLoader:
    """Creates a module for which flambeau has no file."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Return None, for an ordinary module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Set the module's attributes; it is a package, so submodules can be imported too."""
        torch_name = "torch" + module.__name__.removeprefix(_PACKAGE)
        module.__doc__ = f"{torch_name}, most of which is not implemented in flambeau."
        module.__path__ = []
        module.__all__ = list(list_names(torch_name))  # type: ignore[attr-defined]
        answer_for_absent(module)


class _AbsentFinder:
    """Finds PyTorch modules for which flambeau has no file; runs after all other finders."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return the spec of an empty module if PyTorch has a module of this name."""
        torch_name = "torch" + fullname.removeprefix(_PACKAGE)
        inside = fullname.startswith(_PACKAGE + ".")
        if not inside or not (is_torch_module(torch_name) or _is_moved(torch_name)):
            return None
        loader: Any = _AbsentLoader()
        return ModuleSpec(fullname, loader, is_package=True)


def give_absent_methods(cls: type, names: Iterable[str]) -> None:
    """Add a method for each name that a class lacks, which raises NotImplementedError."""
    for name in names:
        if not hasattr(cls, name):
            setattr(cls, name, _create_refusal(f"torch.{cls.__name__}.{name}"))


def _create_refusal(path: str) -> Callable[..., NoReturn]:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{path} is not implemented in flambeau")

    method.__name__ = path.rpartition(".")[2]
    method.__qualname__ = path.removeprefix("torch.")
    method.__doc__ = "NotImplementedError: flambeau does not have it yet."
    return method


def install_finders() -> None:
    """Make every module of flambeau, existing or not, resolve the names of its PyTorch module."""
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_AbsentFinder())
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE + "."):
            answer_for_absent(module)
