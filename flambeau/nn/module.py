"""Module: the base of all layers and models. A tree of modules that own tensors, and a call.

Its parts are in separate files: registration.py keeps its members, tree.py walks it, conversion.py
changes dtypes and devices, state_dict.py saves and loads, hooks.py runs hooks.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FunctionType
from typing import Any

from ..autograd.traces.recorder import Details, Recorder
from ..autograd.traces.tensor_records import ModuleRecord
from ..ops.interception import operator_timing
from .conversion import Conversion
from .error_path import locate
from .hooks import Hooks
from .registration import CALL_HOOKS, HOOK_TABLES, Registration
from .state_dict import StateDict
from .tree import Tree

__all__ = ["Module"]


def _forward_unimplemented(self: Module, *input: Any) -> None:
    """Compute the module's output; every subclass defines it. Call the module, not this."""
    raise NotImplementedError(
        f'Module [{self._get_name()}] is missing the required "forward" function'
    )


class Module(Registration, Tree, Conversion, StateDict, Hooks):
    """Base class of layers and models. A subclass creates its members in `__init__`, after
    `super().__init__()`, and computes in `forward`.

    >>> class Classifier(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(784, 128)
    ...         self.output = nn.Linear(128, 10)
    ...     def forward(self, x):
    ...         return self.output(F.relu(self.hidden(x)))
    >>> Classifier()(torch.zeros(2, 784)).shape
    torch.Size([2, 10])
    """

    dump_patches: bool = False
    call_super_init: bool = False
    training: bool
    _compiled_call_impl: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make operators that are class attributes static: PyTorch's are built-in functions, which
        do not become methods.
        """
        super().__init_subclass__(**kwargs)
        for name, value in list(vars(cls).items()):
            if value.__class__ is FunctionType \
                    and str(value.__module__).startswith("flambeau.ops.") \
                    and not cls.__module__.startswith("flambeau."):
                setattr(cls, name, staticmethod(value))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{self._get_name()}.__init__() got an unexpected keyword argument "
                    f"'{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{self._get_name()}.__init__() takes 1 positional argument but "
                    f"{len(args) + 1} were given"
                )
        # Write to the dictionary: __setattr__ would look for members that do not exist yet.
        attributes = self.__dict__
        attributes["training"] = True
        attributes["_parameters"] = {}
        attributes["_buffers"] = {}
        attributes["_non_persistent_buffers_set"] = set()
        attributes["_is_full_backward_hook"] = None
        attributes["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # A field, so that type checkers let subclasses choose their arguments.
    forward: Callable[..., Any] = _forward_unimplemented

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, with any hooks; run the compiled call after `compile()`."""
        if self._flambeau_is_hooked:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._flambeau_call_with_hooks(args, kwargs)
        try:
            return self.forward(*args, **kwargs)
        except Exception as error:
            locate(error, self)
            raise

    _wrapped_call_impl = __call__

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call without compilation."""
        if self._flambeau_is_hooked:
            return self._flambeau_call_with_hooks(args, kwargs)
        try:
            return self.forward(*args, **kwargs)
        except Exception as error:
            locate(error, self)
            raise

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the module's call in place; the arguments go to `torch.compile`.

        The module's state, type and pickled form do not change, and copies of it are not compiled.

        >>> model = nn.Linear(3, 2)
        >>> model.compile()
        >>> model(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
        """
        compiler = import_module("flambeau.compiler")  # a layer above nn, imported on demand
        self._compiled_call_impl = compiler.compile(self._call_impl, *args, **kwargs)
        self.__dict__["_flambeau_is_hooked"] = True  # so that __call__ tests one flag

    # ---------------------------------------------------------------- pickling

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        state.pop("_flambeau_is_hooked", None)
        # PyTorch must be able to load this pickle: it expects every dictionary to exist.
        for name in HOOK_TABLES:
            state.setdefault(name, OrderedDict())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = self.__dict__
        attributes.update(state)
        attributes.setdefault("_non_persistent_buffers_set", set())
        attributes.setdefault("_is_full_backward_hook", None)
        for name in HOOK_TABLES:
            if not attributes.get(name, True):
                del attributes[name]
            elif name in attributes and name in CALL_HOOKS:
                attributes["_flambeau_is_hooked"] = True

    def _replicate_for_data_parallel(self) -> Any:
        """Return a copy that shares buffers and submodules, with no parameters yet."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica

    # ---------------------------------------------------------------- printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The settings a layer prints between its parentheses, in one line or several."""
        return ""

    def __repr__(self) -> str:
        settings = self.extra_repr()
        lines = settings.split("\n") if settings else []
        children = [
            f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()
        ]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        body = "".join(f"\n  {line}" for line in lines + children)
        return f"{self._get_name()}({body}\n)" if body else f"{self._get_name()}()"


def _addindent(string: str, spaces: int) -> str:
    """Indent all lines after the first, except blank ones."""
    first, *lines = string.split("\n")
    return "\n".join([first, *(" " * spaces + line if line.strip() else "" for line in lines)])


# PyTorch unpickles modules by the path at which it has the class.
Module.__module__ = "flambeau.nn.modules.module"


def _timed_calls(recorder: Recorder) -> Iterator[tuple[Any, Callable]]:
    """For profiles: time module calls as events named after the class and a count."""
    names: dict[Module, str] = {}
    records: dict[Module, ModuleRecord] = {}
    counts: dict[str, int] = {}

    def name(module: Module, *args: Any) -> str:
        if module not in names:
            class_name = type(module).__name__
            counts[class_name] = counts.get(class_name, -1) + 1
            names[module] = f"nn.Module: {class_name}_{counts[class_name]}"
        return names[module]

    def describe(module: Module, *args: Any) -> Details:
        """Note the module's own parameters, at its first call; nothing in a thread whose Python is
        not recorded."""
        if recorder.python is None or not recorder.python.is_recorded(threading.get_ident()):
            return Details()
        if module not in records:
            numbers = recorder.numbers
            records[module] = ModuleRecord(module, tuple(
                (key, numbers.record(p), numbers.record_any(p.grad))
                for key, p in module._parameters.items() if p is not None))
        return Details(subject=records[module])

    if recorder.modules:
        yield Module.__call__, operator_timing.time_as(
            recorder, name, remarks=describe if recorder.stack else None)
        yield Module.zero_grad, operator_timing.time_as(
            recorder, lambda module, *_: f"{type(module).__name__}.zero_grad")


operator_timing.TIMED.append(_timed_calls)
