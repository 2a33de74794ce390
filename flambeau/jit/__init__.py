"""torch.jit: run TorchScript archives with `load`; make modules to save with `trace` and `script`.

traced.py records graphs, scripted.py wraps Python, torchscript/ reads and writes archives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from typing import Any, Final

from ..tensor.absent import make_absent_getattr
from .tracer_warning import TracerWarning

__all__ = [
    "Attribute", "Final", "TracerWarning", "annotate", "enable_onednn_fusion", "export", "fork",
    "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "run_frozen_optimizations", "save", "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait",
]

_isinstance = isinstance


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a scripted, traced or loaded module. Raise NotImplementedError for others."""
    _traced().save(m, f, _extra_files)


def load(f: Any, map_location: Any = None, _extra_files: Any = None,
         _restore_shapes: bool = False) -> Any:
    """Load a module without running Python from the file."""
    return _traced().load(f, map_location, _extra_files, _restore_shapes)


def _traced() -> Any:
    return import_module(f"{__name__}.traced")


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
           example_inputs: Any = None) -> Any:
    """Wrap a module or function: calls run its Python code, `save` writes it as TorchScript.

    A module becomes a RecursiveScriptModule that shares its tensors, a function a ScriptFunction;
    other objects are returned unchanged. Compilation happens only for `code` or `save`.

    >>> @torch.jit.script
    ... def shift(x, by: float = 1.0):
    ...     return torch.relu(x) + by
    >>> shift(torch.ones(2))
    tensor([2., 2.])
    >>> print(shift.code, end="")
    def shift(x: Tensor, by: float=1.0):
      return torch.relu(x) + by
    """
    return import_module(f"{__name__}.scripted").script(obj)


def script_method(fn: Any) -> Any:
    """Return the method unchanged."""
    return fn


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Record the operators that a module or function calls on example inputs as a graph.

    Raises RuntimeError, with the line and a fix, if that is not possible.
    """
    return _traced().trace(func, example_inputs, *args, **kwargs)


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Record several methods of a module, each on the example inputs that `inputs` has for it."""
    return _traced().trace_module(mod, inputs, *args, **kwargs)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return a copy of a scripted module in eval mode, with its state hidden in the program.

    Only `forward` and the preserved attributes and methods stay accessible. Batch norms are folded
    into the layers before them unless `optimize_numerics` is false; dropout is left out, and what
    depends on parameters only is computed once, if the program can be traced without inputs.
    Raises RuntimeError if the module is not scripted, is in training mode, or lacks an attribute
    to preserve.

    >>> frozen = torch.jit.freeze(torch.jit.script(nn.Linear(2, 1)).eval())
    >>> frozen(torch.ones(3, 2)).shape, len(frozen.state_dict())
    (torch.Size([3, 1]), 0)
    """
    return import_module(f"{__name__}.frozen").freeze(
        mod, preserved_attrs, optimize_numerics)


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True,
                             preserved_methods: Any = None) -> None:
    """Leave out dropout and fold batch norms and arithmetic into layers, in a frozen module."""
    import_module(f"{__name__}.frozen").run_frozen_optimizations(
        mod, optimize_numerics, preserved_methods)


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Switch the module to eval mode and freeze it, preserving `other_methods`.

    Raises RuntimeError for a module that is not scripted.
    """
    if not _isinstance(mod, __getattr__("ScriptModule")):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script "
            "or torch.jit.trace to script your 'nn.Module'.")
    return freeze(mod.eval(), other_methods) if hasattr(mod, "training") else mod


def fork(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call the function synchronously, as PyTorch does outside scripts; return a Future.

    >>> torch.jit.wait(torch.jit.fork(max, 1, 2))
    2
    """
    from ..futures import Future

    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """Wait for a Future and return its value.

    >>> torch.jit.wait(torch.jit.fork(torch.add, torch.ones(2), 1))
    tensor([2., 2.])
    """
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()


def interface(obj: Any) -> Any:
    """Mark a class as an interface: an annotation for modules or objects with its methods."""
    rest = [kind for kind in obj.__mro__[1:] if kind.__module__.partition(".")[0] != "flambeau"]
    if rest != [object] or obj.__mro__[1].__name__ not in ("object", "Module"):
        raise RuntimeError("TorchScript interface does not support inheritance yet. Please "
                           "directly inherit from 'object' or 'nn.Module'.")
    obj._torchscript_interface = obj
    return obj


_fork, _wait = fork, wait


def _awaitable(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """Delay a call until its result is read. Keyword arguments are not supported.

    >>> torch.jit._awaitable_wait(torch.jit._awaitable(max, 1, 2))
    2
    """
    return _await_class()(func, args)


def _awaitable_wait(aw: Any) -> Any:
    """Return the result of a delayed call, running it if needed."""
    return aw.wait()


def _awaitable_nowait(o: Any) -> Any:
    """Wrap a value as the result of a delayed call."""
    return _await_class()(None, (), o)


def _await_class() -> Any:
    return import_module("flambeau._awaits")._Await


def set_fusion_strategy(strategy: Any) -> list[tuple[str, int]]:
    """Ignore the strategy, since there is no fuser; return PyTorch's defaults."""
    return [("STATIC", 2), ("DYNAMIC", 10)]


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing."""


def onednn_fusion_enabled() -> bool:
    """Return False."""
    return False


def optimized_execution(should_optimize: bool) -> AbstractContextManager[None]:
    """Return a no-op context."""
    return nullcontext()


def fuser(name: str) -> AbstractContextManager[None]:
    """Return a no-op context."""
    return nullcontext()


class strict_fusion(nullcontext[None]):
    """A no-op context."""


def _overload(func: Any) -> Any:
    """Note that a function of this name accepts several signatures; return it unchanged."""
    from .checking.program import OVERLOADED

    OVERLOADED.add((func.__module__, func.__qualname__))
    return func


_overload_method = _overload


def is_scripting() -> bool:
    """Return whether the caller runs as scripted code.

    >>> @torch.jit.script
    ... def where() -> str:
    ...     return "script" if torch.jit.is_scripting() else "Python"
    >>> where(), torch.jit.is_scripting()
    ('script', False)
    """
    boundary = sys.modules.get(f"{__name__}.boundary")
    return boundary is not None and boundary.is_in_script()


def is_tracing() -> bool:
    """Return whether `trace` is recording.

    >>> torch.jit.is_tracing()
    False
    """
    active = sys.modules.get("flambeau._higher_order_ops.active_export")
    return active is not None and active.is_jit_tracing()


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function as Python-only: it cannot be saved. With arguments, return a decorator."""
    return _mark(drop, "ignore") if callable(drop) else lambda fn: _mark(fn, "ignore")


def _mark(fn: Any, modifier: str) -> Any:
    """Record how a function is saved. Skips objects that take no attributes."""
    with suppress(AttributeError, TypeError):
        fn._torchscript_modifier = modifier
    if modifier in ("ignore", "unused"):
        import_module(f"{__name__}.python_code").leave_script(fn)
    return fn


def unused(fn: Any) -> Any:
    """Mark a function as Python-only: it cannot be saved."""
    return _mark(fn, "unused")


def export(fn: Any) -> Any:
    """Mark a method to save in addition to `forward`."""
    return _mark(fn, "export")


_drop = unused  # PyTorch keeps what it marks out of archives


def _unwrap_optional(x: Any) -> Any:
    """Return a value. Raise AssertionError for None.

    >>> torch.jit._unwrap_optional(1)
    1
    """
    assert x is not None, "Unwrapping null optional"
    return x


def script_if_tracing(fn: Any) -> Any:
    """Return the function unchanged: nothing is traced."""
    return fn


_script_if_tracing = script_if_tracing  # the name that libraries wrap for older releases


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value unchanged."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether a value has one of several types, which may be List[int] etc.

    Raises RuntimeError for `List` etc. without the type of their elements.

    >>> from typing import Dict, List
    >>> torch.jit.isinstance([1, 2], List[int]), torch.jit.isinstance([1, 2], (List[str], Dict))
    Traceback (most recent call last):
    RuntimeError: Attempted to use Dict without contained types. Please add contained type, e.g. \
Dict[int, int]
    >>> torch.jit.isinstance({"a": 1}, (List[int], Dict[str, int]))
    True
    """
    return bool(import_module(f"{__name__}.instances").has_type(obj, target_type))


class Attribute:
    """A value and its TorchScript type."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


def __getattr__(name: str) -> Any:
    if name in ("TracedModule", "TopLevelTracedModule"):
        return _traced().TracedModule
    if name in ("ScriptModule", "RecursiveScriptModule"):
        return getattr(import_module(f"{__name__}.torchscript.script_module"), name)
    if name == "TracingCheckError":
        return import_module(f"{__name__}.trace_checking").TracingCheckError
    if name == "_Await":
        return _await_class()
    if name == "Future":
        return import_module("flambeau.futures").Future
    if name == "CompilationUnit":
        return import_module(f"{__name__}.compilation_unit").CompilationUnit
    if name == "ScriptFunction":
        return import_module(f"{__name__}.scripted").ScriptFunction
    if name == "_get_trace_graph":
        return import_module(f"{__name__}.trace_graph").get_trace_graph
    if name == "Error":
        return import_module(f"{__name__}.torchscript.runtime").ScriptError
    return _lacking(name)


globals()["annotations"] = import_module(f"{__name__}.annotations")  # not the __future__ feature
_lacking = make_absent_getattr(__name__, (
    "fork", "wait",
))
