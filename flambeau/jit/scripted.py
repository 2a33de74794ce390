"""Results of `torch.jit.script`: Python modules and functions, compiled when saved.

Calls run the original Python, so behavior is unchanged except for error types (script_errors.py).
`code` and `save` generate TorchScript from the source; an unsupported line raises
NotImplementedError.
"""

from __future__ import annotations

import copy
import functools
import inspect
import io
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from ..native.foundation.public_names import class_name
from ..nn.module import Module
from ..nn.parameter import is_lazy
from .checking.program import Program
from .script_errors import convert_error
from .torchscript.script_module import RecursiveScriptModule, ScriptModule
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

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)
        self._flambeau_function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._flambeau_function(*args, **kwargs)
        except Exception as error:
            converted = convert_error(error)
            if converted is error:
                raise
            raise converted from error

    def _script(self) -> Script:
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
    def code(self) -> str:
        """The function in TorchScript."""
        return self._script().function_code

    @property
    def graph(self) -> Any:
        """Raise NotImplementedError: there is no TorchScript IR; `code` shows the function."""
        error = NotImplementedError("torch.jit.ScriptFunction.graph: there is no TorchScript IR")
        error.add_note("print(function.code) shows the program")
        raise error

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive of a module with the function as its forward."""
        self._script().save(f, _extra_files)

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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and hooks; convert the errors they raise (script_errors.py)."""
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            converted = convert_error(error)
            if converted is error:
                raise
            raise converted from error

    def _script(self) -> Script:
        exported = [name for name, value in inspect.getmembers(type(self), inspect.isfunction)
                    if getattr(value, "_torchscript_modifier", "") == "export"]
        return Script(self, tuple(exported))

    @property
    def _c(self) -> SimpleNamespace:
        """Stand-in for PyTorch's C++ object: only the class name used in archives."""
        return SimpleNamespace(qualified_name=f"__torch__.{type(self).__name__}")

    @property
    def code(self) -> str:
        """`forward` in TorchScript."""
        return self._script().code

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive that PyTorch can read too.

        Raises NotImplementedError, before writing anything, for an unsupported source line.
        """
        self._save_as(f, _extra_files, is_frozen=False)

    def _save_as(self, f: Any, extra_files: dict[str, Any] | None, is_frozen: bool) -> None:
        self._script().save(f, extra_files, is_frozen)


def _scripted_class(kind: type[Module]) -> type[ScriptedModule]:
    """Return the scripted subclass of a module class, creating it once per class."""
    known = _CLASSES.get(kind)
    if known is not None:
        return known
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__,
             "original_name": kind.__name__}
    result = _CLASSES[kind] = type(kind.__name__, (ScriptedModule, kind), names)
    return result


def script(obj: Any) -> Any:
    """Convert a module to a RecursiveScriptModule, a function to a ScriptFunction.

    Raises the errors of PyTorch's compiler (checking/).
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        result = _script_module(obj, {})
        Program().check_module(result)
        return result
    if is_written_class(obj):
        SCRIPTED_CLASSES.add(obj)
        Program().check_class(obj)
    if not isinstance(obj, FunctionType):
        return obj
    Program().check(obj)
    return ScriptFunction(obj)


def _script_module(module: Module, seen: dict[int, Module]) -> Module:
    """Return a module of the scripted class that shares tensors, recursively."""
    if isinstance(module, ScriptModule):
        return module
    if id(module) not in seen:
        _refuse_uninitialized(module)
        result: Module = Module.__new__(_scripted_class(type(module)))
        seen[id(module)] = result
        attributes = dict(module.__dict__)
        for name in ("_parameters", "_buffers", "_modules"):
            attributes[name] = copy.copy(attributes[name])
        result.__dict__.update(attributes)
        for name, child in module._modules.items():
            if child is not None:
                result._modules[name] = _script_module(child, seen)
    return seen[id(module)]


def _refuse_uninitialized(module: Module) -> None:
    """Raise RuntimeError if a lazy module has not seen its first input."""
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
