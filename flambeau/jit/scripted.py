"""Results of `torch.jit.script`: Python modules and functions, compiled when saved.

Calls run the original Python on arguments that boundary.py checks and converts.
`code` and `save` generate TorchScript from the source; an unsupported line raises
NotImplementedError.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import io
from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from ..native.foundation.public_names import class_name
from ..nn.module import Module
from ..nn.parameter import is_lazy
from .boundary import Entry
from .checking.init_annotations import warn_about_annotations
from .checking.interfaces import COMPILED, explain_mismatch
from .checking.program import Program, read_hints
from .checking.source import is_library
from .checking.types import Kind
from .script_containers import ScriptDict, ScriptList
from .torchscript.script_module import (
    LoadedModule, RecursiveScriptModule, ScriptMethod, ScriptModule,
)
from .torchscript.writing.annotations import SCRIPTED_CLASSES, is_written_class
from .torchscript.writing.scripted_module import Script

__all__ = ["ScriptFunction", "save_module", "script"]


_CLASSES: WeakKeyDictionary[Any, type[ScriptedModule]] = WeakKeyDictionary()


class ScriptFunction:
    """A function that can be converted to TorchScript.

    >>> def double(x):
    ...     return x * 2
    >>> type(torch.jit.script(double)).__name__
    'ScriptFunction'
    """

    def __init__(self, function: FunctionType, returns: Kind | None = None) -> None:
        functools.update_wrapper(self, function)
        self._flambeau_function, self._entry = function, Entry(function, returns=returns)
        self._graph: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._entry(self._flambeau_function, args, kwargs)

    def _flambeau_build_script(self) -> Script:
        """Wrap the function as a module's forward, the way archives store functions."""
        function = self._flambeau_function
        holder = type("PlaceholderModule", (Module,), {})()
        holder.__dict__["_flambeau_forward"] = function
        return Script(holder, function=function)

    @property
    def name(self) -> str:
        """The function's name."""
        return self._flambeau_function.__name__

    @property
    def qualified_name(self) -> str:
        """The function's name in archives, which starts with `__torch__`."""
        function = self._flambeau_function
        return f"__torch__.{function.__module__}.{function.__name__}"

    @property
    def schema(self) -> str:
        """The function's signature as PyTorch's schemas show it."""
        return self._entry.schema

    @property
    def code(self) -> str:
        """The function in TorchScript."""
        return self._flambeau_build_script().write_functions

    @property
    def graph(self) -> Any:
        """The function as a graph of TorchScript's nodes, which passes may change."""
        if self._graph is None:
            self._graph = self._flambeau_build_script().build_graph()
        return self._graph

    @property
    def inlined_graph(self) -> Any:
        """The same with the nodes of called functions in the place of calls."""
        return self._flambeau_build_script().build_graph(inlines=True)

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the graph, which no executor optimizes for the arguments."""
        return self.inlined_graph

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive of a module with the function as its forward."""
        self._flambeau_build_script().save(f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return the archive as bytes."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()

    def __deepcopy__(self, memo: Any) -> ScriptFunction:
        return self

    def __reduce__(self) -> str:
        return self._flambeau_function.__qualname__

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self._flambeau_function.__qualname__}>"


class ScriptedModule(RecursiveScriptModule):
    """A Python module whose class derives from this one and the module's original class."""

    def __setattr__(self, name: str, value: Any) -> None:
        current = self.__dict__.get("_modules", {}).get(name)
        if current is not None and COMPILED in self.__dict__:
            _check_replacement(self, name, current, value)
        super().__setattr__(name, value)

    def _flambeau_build_script(self) -> Script:
        return Script(self, tuple(self._flambeau_list_exported()))

    def _flambeau_list_exported(self) -> list[str]:
        return [name for name, value in inspect.getmembers(type(self), inspect.isfunction)
                if getattr(value, "_torchscript_modifier", "") == "export"]

    def _flambeau_method_names(self) -> list[str]:
        has_forward = type(self).forward is not Module.forward
        return [*(["forward"] if has_forward else []), *self._flambeau_list_exported()]

    @property
    def code(self) -> str:
        """`forward` in TorchScript."""
        return self._flambeau_build_script().code

    @property
    def graph(self) -> Any:
        """`forward` as a graph of TorchScript's nodes, which passes may change."""
        return self._flambeau_describe("forward", "graph")

    @property
    def inlined_graph(self) -> Any:
        """The same with the nodes of called functions in the place of calls."""
        return self._flambeau_describe("forward", "inlined_graph")

    def _flambeau_describe(self, method: str, what: str) -> Any:
        """Return the graph, inlined graph or code of a method."""
        known = self.__dict__.setdefault("_flambeau_graphs", {})
        if what == "graph" and method in known:
            return known[method]
        script = self._flambeau_build_script()
        if what == "code":
            return script.write_method(method)
        graph = script.build_graph(what == "inlined_graph", method)
        if what == "graph":
            known[method] = graph
        return graph

    def _flambeau_compile(self, preserved: tuple[str, ...] = ()) -> LoadedModule:
        names = tuple(self._flambeau_list_exported())
        result: LoadedModule = Script(self, names, preserved=preserved).instantiate()
        return result

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive that PyTorch can read too.

        Raises NotImplementedError, before writing anything, for an unsupported source line.
        """
        self._flambeau_save_as(f, _extra_files, is_frozen=False)

    def _flambeau_save_as(
        self, f: Any, extra_files: dict[str, Any] | None, is_frozen: bool
    ) -> None:
        self._flambeau_build_script().save(f, extra_files, is_frozen)


def _find_scripted_class(kind: type[Module]) -> type[ScriptedModule]:
    """Return the scripted subclass of a module class, creating it once per class."""
    known = _CLASSES.get(kind)
    if known is not None:
        return known
    names: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__,
             "original_name": kind.__name__}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        is_exported = getattr(method, "_torchscript_modifier", "") == "export"
        if (name == "forward" or is_exported) and not is_library(method):
            names[name] = _enter_method(method, kind)
    result = _CLASSES[kind] = type(kind.__name__, (ScriptedModule, kind), names)
    return result


class _Method:
    """A method of a scripted class; on an instance, it knows its graph and code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self.function
        name = self.function.__name__
        return ScriptMethod(self.function, owner, name,
                            functools.partial(owner._flambeau_describe, name))


def _enter_method(method: Any, kind: type[Module]) -> _Method:
    """Return a method that checks and converts what Python passes to it."""
    entry = Entry(method, is_method=True, owner=f"__torch__.{kind.__qualname__}")

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return entry(functools.partial(method, self), args, kwargs)

    return _Method(call)


def _check_replacement(owner: Module, name: str, current: Module, value: Any) -> None:
    """Refuse to replace a submodule by one that is not scripted or that has another type."""
    if not isinstance(value, ScriptModule):
        raise RuntimeError("Cannot re-assign modules in a ScriptModule with non-scripted module, "
                           f"tried to replace existing module '{name}': {value}")
    interface: Any = read_hints(type(owner)).get(name)
    if hasattr(interface, "_torchscript_interface"):
        if problem := explain_mismatch(value, interface):
            raise RuntimeError(problem)
    elif type(value) is not type(current):
        shown = [f"{_type_name(module)} (of Python compilation unit at: 0)"
                 for module in (current, value)]
        raise RuntimeError(f"Expected a value of type '{shown[0]}' for field '{name}', but found "
                           f"'{shown[1]}'")


def _type_name(module: Module) -> str:
    kind = type(module)
    return f"__torch__.{kind.__module__}.{kind.__name__}"


def script(obj: Any) -> Any:
    """Convert a module to a RecursiveScriptModule, a function to a ScriptFunction.

    Raises the errors of PyTorch's compiler (checking/).
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if hasattr(obj, "__prepare_scriptable__") and not isinstance(obj, type):
        obj = obj.__prepare_scriptable__()
    if isinstance(obj, Module):
        result = _convert_module(obj, {})
        Program().check_module(result)
        return result
    if isinstance(obj, dict):
        return obj if isinstance(obj, ScriptDict) else ScriptDict(obj)
    if isinstance(obj, list):
        return obj if isinstance(obj, ScriptList) else ScriptList(obj)
    if is_written_class(obj):
        _refuse_inheritance(obj)
        _refuse_factories(obj)
        SCRIPTED_CLASSES.add(obj)
        Program().check_class(obj)
    if not isinstance(obj, FunctionType):
        if is_written_class(type(obj)) and callable(obj):
            Program().check_class(type(obj))
        return obj
    return ScriptFunction(obj, Program().check(obj))


def _refuse_inheritance(kind: type) -> None:
    """Raise RuntimeError for a script class with a base class; archives inline those."""
    if kind.__mro__[1:] != (object,) and not issubclass(kind, enum.Enum) \
            and not hasattr(kind, "_torchscript_interface"):
        raise RuntimeError("TorchScript classes does not support inheritance yet. Please directly "
                           "inherit from 'object'.")


def _refuse_factories(kind: type) -> None:
    """Raise NotImplementedError for a dataclass whose fields are filled by calls."""
    if dataclasses.is_dataclass(kind) and any(
            field.default_factory is not dataclasses.MISSING for field in dataclasses.fields(kind)):
        raise NotImplementedError(
            "Default factory initializers are not supported in TorchScript dataclasses")


def _convert_module(module: Module, seen: dict[int, Module]) -> Module:
    """Return a module of the scripted class that shares tensors, recursively."""
    if isinstance(module, ScriptModule):
        return module
    if id(module) not in seen:
        if hasattr(module, "__prepare_scriptable__"):
            seen[id(module)] = _convert_module(module.__prepare_scriptable__(), seen)
            return seen[id(module)]
        _refuse_uninitialized(module)
        warn_about_annotations(type(module))
        result: Module = Module.__new__(_find_scripted_class(type(module)))
        seen[id(module)] = result
        attributes = dict(module.__dict__)
        for name in ("_parameters", "_buffers", "_modules"):
            attributes[name] = copy.copy(attributes[name])
        result.__dict__.update({k: _copy_container(v) if k[0] != "_" else v
                                for k, v in attributes.items()})
        for name, child in module._modules.items():
            if child is not None:
                result._modules[name] = _convert_module(child, seen)
    return seen[id(module)]


def _copy_container(value: Any) -> Any:
    """Return a copy of a list or dict, which the scripted module does not share with Python's."""
    if type(value) is list:
        return [_copy_container(part) for part in value]
    if type(value) is dict:
        return {key: _copy_container(part) for key, part in value.items()}
    return tuple(map(_copy_container, value)) if type(value) is tuple else value


def _refuse_uninitialized(module: Module) -> None:
    """Raise RuntimeError if a lazy module has not seen its first input."""
    if "_parameters" not in module.__dict__:
        raise RuntimeError(f"'{class_name(type(module))}' has not been initialized, did you forget "
                           "to call 'super()'?")
    for kind, members in (("parameters", module._parameters), ("buffers", module._buffers)):
        for name, tensor in members.items():
            if is_lazy(tensor):
                raise RuntimeError(
                    f"'{class_name(type(module))}' has uninitialized {kind} {name}. Did you forget "
                    "to run a forward pass?"
                )


def save_module(module: ScriptModule, f: Any, extra_files: dict[str, Any] | None) -> None:
    """Write a module of a user-defined subclass of ScriptModule."""
    Script(module).save(f, extra_files)
