"""What `torch.jit.script` gives: a module or function in Python, compiled when it is saved.

Calls run the Python that was written, so everything works that works without `script`. `code` and
`save` write TorchScript out of its source; a line that is beyond that raises NotImplementedError.
"""

from __future__ import annotations

import copy
import functools
import inspect
import io
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from ..nn.module import Module
from .torchscript.script_module import RecursiveScriptModule, ScriptModule
from .torchscript.writing.scripted_module import Script

__all__ = ["ScriptFunction", "freeze", "save_module", "script"]


_CLASSES: WeakKeyDictionary[Any, type[ScriptedModule]] = WeakKeyDictionary()


class ScriptFunction:
    """A function with its code of TorchScript.

    >>> def double(x):
    ...     return x * 2
    >>> type(torch.jit.script(double)).__name__
    'ScriptFunction'
    """

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)
        self._flambeau_function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._flambeau_function(*args, **kwargs)

    def _script(self) -> Script:
        """The function as a module with a forward, which is how files hold functions."""
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
        """NotImplementedError: there is no TorchScript IR, `code` shows the function."""
        error = NotImplementedError("torch.jit.ScriptFunction.graph: there is no TorchScript IR")
        error.add_note("print(function.code) shows the program")
        raise error

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive, whose module computes the function."""
        self._script().save(f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """The archive as bytes."""
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
    """A module in Python, of a class that is this one and the module's own."""

    def _script(self) -> Script:
        exported = [name for name, value in inspect.getmembers(type(self), inspect.isfunction)
                    if getattr(value, "_torchscript_modifier", "") == "export"]
        return Script(self, tuple(exported))

    @property
    def _c(self) -> SimpleNamespace:
        """Of PyTorch's object in C++ the name of the class in archives."""
        return SimpleNamespace(qualified_name=f"__torch__.{type(self).__name__}")

    @property
    def code(self) -> str:
        """`forward` in TorchScript."""
        return self._script().code

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive, which PyTorch reads too. NotImplementedError, before anything is
        written, for a line of the source that is not TorchScript or not known here.
        """
        self._script().save(f, _extra_files)


def _scripted_class(kind: type[Module]) -> type[ScriptedModule]:
    """The class of a module's scripted copies, one for each class."""
    known = _CLASSES.get(kind)
    if known is not None:
        return known
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__,
             "original_name": kind.__name__}
    result = _CLASSES[kind] = type(kind.__name__, (ScriptedModule, kind), names)
    return result


def script(obj: Any) -> Any:
    """The module as a RecursiveScriptModule, the function as a ScriptFunction, else the object."""
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        return _script_module(obj, {})
    return ScriptFunction(obj) if isinstance(obj, FunctionType) else obj


def _script_module(module: Module, seen: dict[int, Module]) -> Module:
    """A module on the same tensors, of the scripted class; submodules likewise."""
    if isinstance(module, ScriptModule):
        return module
    if id(module) not in seen:
        result: Module = Module.__new__(_scripted_class(type(module)))
        seen[id(module)] = result
        own = dict(module.__dict__)
        for name in ("_parameters", "_buffers", "_modules"):
            own[name] = copy.copy(own[name])
        result.__dict__.update(own)
        for name, child in module._modules.items():
            if child is not None:
                result._modules[name] = _script_module(child, seen)
    return seen[id(module)]


def save_module(module: ScriptModule, f: Any, extra_files: dict[str, Any] | None) -> None:
    """Write a module of a class that the user derived from ScriptModule."""
    Script(module).save(f, extra_files)


def freeze(module: Any, preserved_attrs: Any = None) -> Any:
    """A copy whose tensors take no gradients. RuntimeError for what is not scripted or trains."""
    if not isinstance(module, ScriptModule):
        raise RuntimeError("Freezing expects a ScriptModule as input. Please use torch.jit.script "
                           "or torch.jit.trace to script your 'nn.Module'.")
    if module.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. "
                           "Please call .eval() on your module before freezing.")
    return copy.deepcopy(module).requires_grad_(False)
