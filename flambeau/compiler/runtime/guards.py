"""Guards on modules and on the names that a step's code uses.

Modules are compared again only after some module, anywhere, changed. Names (closure variables,
globals, attributes of plain objects) are compared when a recorded call is judged.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable
from typing import Any

from ...autograd.handle import HANDLES
from ...nn import global_hooks
from ...nn.module import Module
from ...nn.parameter import is_lazy
from ...nn.registration import CHANGES
from ...optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from ...tensor.ambient import AMBIENT
from ...tensor.storage import owner_of
from ...tensor.tensor import Tensor
from ..capture.side_effects import Inside
from ..trace.operands import tensors_in
from ..trace.plain_values import PLAIN, instance_dict, plain_key, same_plain
from ..trace.trace import UPDATE, Effect, Trace

_UNGUARDED = (types.ModuleType, type, types.BuiltinFunctionType)
_MISSING = object()


class Modules:
    """A snapshot of the modules that a step reaches."""

    def __init__(self, trace: Trace, environment: Environment) -> None:
        called = [item() for item in trace.modules]
        declared = () if trace.proof is None else trace.proof.modules
        roots = [m for m in (*called, *environment.modules, *declared) if m is not None]
        result: dict[int, Module] = {}
        for root in roots:
            for module in root.modules():
                result[id(module)] = module
        self.reachable = list(result.values())
        self.ignored: set[tuple[int, str]] = set()
        self.names = environment.inside.names  # that the user's code has in it
        self.before = [_describe_module(module) for module in self.reachable]
        self.tensors = list(trace.externals.values())
        self.states = [(t, t._array, t._requires_grad) for t in self.tensors]
        events = [event.kwargs for event in trace.events if event.kind == UPDATE]
        self.optimizers = list({id(e["optimiser"]): e["optimiser"] for e in events}.values())
        self.hooks = self._hooks()
        self.counts = change_counts()

    def changed(self) -> list[tuple[int, str]]:
        """(index of the module, attribute) for each change since the snapshot."""
        result = []
        for i, (module, before) in enumerate(zip(self.reachable, self.before, strict=True)):
            now = _describe_module(module)
            if now != before:
                keys = before.keys() | now.keys()
                result += [(i, k) for k in keys if now.get(k, _MISSING) != before.get(k, _MISSING)]
        return [change for change in result if change not in self.ignored and self._used(*change)]

    def _used(self, i: int, name: str) -> bool:
        """Whether the step's code or a method of the module mentions an attribute."""
        if name in self.names or name == "__class__":
            return True
        kind: Any = type(self.reachable[i])
        return name in _names_in_methods(kind)

    def is_unchanged(self) -> bool:
        """Whether nothing changed since the snapshot, hooks included."""
        return not self.changed() and self._hooks() == self.hooks

    def _hooks(self) -> list[tuple]:
        """The ids of all hooks that run inside the step."""
        places: list[Any] = [
            global_hooks.forward_pre, global_hooks.forward, global_hooks.backward_pre,
            global_hooks.backward, _global_optimizer_pre_hooks, _global_optimizer_post_hooks,
        ]
        for optimizer in self.optimizers:
            places += [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
        for tensor in self.tensors:
            own = tensor.__dict__
            places += [own.get("_backward_hooks"), own.get("_post_accumulate_grad_hooks")]
        return [tuple(place or ()) for place in places]

    def ignore(self, effects: list[Effect]) -> None:
        """Ignore attributes that every call sets to another tensor."""
        places = {(id(effect.place), effect.key) for effect in effects}
        self.ignored |= {(i, key) for i, module in enumerate(self.reachable)
                         for key in vars(module) if (id(vars(module)), key) in places}


def change_counts() -> tuple[int, int, int]:
    """Process-wide change counts of modules, hooks and ambient settings."""
    return CHANGES.count, HANDLES.count, AMBIENT.changes


def reachable_memory(environment: Environment, modules: Modules) -> set[int]:
    """Ids of the memory that a step reaches other than through its arguments.

    An argument on such memory has two roles. A program that treated it as an argument only would
    read and write the wrong memory in a call where the two differ.
    """
    values = [value for _, _, _, value in environment.entries.values()]
    values += [holder.before for holder in environment.inside.holders]
    tensors = tensors_in(values)
    for module in modules.reachable:
        own = (*module._parameters.values(), *module._buffers.values())
        tensors += [tensor for tensor in own if tensor is not None]
    tensors += modules.tensors
    return {id(owner_of(tensor._array)) for tensor in tensors if not is_lazy(tensor)}


@functools.cache
def _names_in_methods(kind: type) -> frozenset[str]:
    """The names that the methods of a class and its bases mention."""
    methods = [f for base in kind.__mro__ for f in vars(base).values()]
    codes = [f.__code__ for f in methods if hasattr(f, "__code__")]
    return frozenset(name for code in codes for name in code.co_names)


def _describe_module(module: Module) -> dict[str, Any]:
    """A module's plain attributes, and the identities of its parameters, buffers and modules."""
    own = module.__dict__
    shown: dict[str, Any] = {"__class__": type(module)}
    for name, value in own.items():
        if value.__class__ in PLAIN:
            shown[name] = plain_key(value)
        elif name in ("_parameters", "_buffers", "_modules"):
            shown[name] = tuple((key, id(single)) for key, single in value.items())
        elif name.endswith("_hooks") and value:
            shown[name] = tuple(value)
        elif not isinstance(value, dict):
            shown[name] = id(value)
    return shown


class Environment:
    """A snapshot of the values that a step's code names; `inside`: of what these contain."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.ignored: set[str] = set()
        self.entries: dict[str, tuple[str, Any, Any, Any]] = {}  # how, where, key, value
        self.modules: list[Module] = []  # among the values, and among what plain objects hold
        self._seen: set[int] = set()
        self._codes: set[str] = set()
        self._visit(function)
        for _, _, _, value in list(self.entries.values()):
            self._object(value)
        self.inside = Inside(function)

    def ignore(self, effects: list[Effect]) -> None:
        """Ignore places where every call stores another tensor."""
        places = {(id(effect.place), effect.key) for effect in effects}
        cells = {id(effect.place) for effect in effects if isinstance(effect.place, types.CellType)}
        self.inside.ignore(effects)
        self.ignored |= {entry for entry, (_, place, key, _) in self.entries.items()
                         if (id(place), key) in places or id(place) in cells}

    def changed(self) -> list[str]:
        """The names whose value changed, for messages."""
        result = set()
        for entry, (how, place, name, value) in self.entries.items():
            now = _read_entry(how, place, name)
            if not same_plain(now, value):
                result.add(entry)
        shown = (entry.replace(":", ".").split(".", 1)[-1] for entry in result - self.ignored)
        return [*sorted(shown), *self.inside.changed()]

    # -------------------------------------------------------------------------- looking

    def _visit(self, function: Any) -> None:
        if isinstance(function, functools.partial):
            self._visit(function.func)
            return
        if isinstance(function, Module):
            if id(function) in self._seen:
                return
            self._seen.add(id(function))
            self.modules.append(function)
            for module in function.modules():
                self._visit(type(module).forward)
            return
        bound = isinstance(function, (types.MethodType, types.BuiltinMethodType))
        owner = function.__self__ if bound else None
        if isinstance(owner, Module):
            self._visit(owner)
        elif owner is not None and not isinstance(owner, types.ModuleType):
            self._object(owner, every=True)
        function = getattr(function, "__func__", function)
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._visit(wrapped)
        if not isinstance(function, types.FunctionType) or id(function) in self._seen:
            return
        if function.__module__ and function.__module__.split(".")[0] == "flambeau":
            return
        self._seen.add(id(function))
        self._closure(function)
        self._globals(function)

    def _closure(self, function: types.FunctionType) -> None:
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self._add(f"{function.__qualname__}:{name}", "cell", cell, None, value)

    def _globals(self, function: types.FunctionType) -> None:
        names: set[str] = set()
        stack = [function.__code__]
        while stack:
            code = stack.pop()
            self._codes.update(code.co_names)
            names.update(i.argval for i in dis.get_instructions(code)
                         if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
            stack += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        space = function.__globals__
        for name in sorted(names):
            if name in space:
                self._add(f"{space.get('__name__')}:{name}", "dict", space, name, space[name])

    def _add(self, entry: str, how: str, place: Any, key: Any, value: Any) -> None:
        if isinstance(value, _UNGUARDED) or entry in self.entries:
            return
        self.entries[entry] = (how, place, key, value)
        self._follow(value)

    def _follow(self, value: Any) -> None:
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial, Module)):
            self._visit(value)

    def _object(self, x: Any, every: bool = False) -> None:
        """Visit the attributes of a plain object that the code names, or all of them."""
        if isinstance(x, (Tensor, Module, types.FunctionType, types.MethodType, *PLAIN)):
            return
        kind = type(x)
        if kind.__module__.split(".")[0] == "flambeau" or "__dict__" not in dir(kind):
            return
        for name, value in list(instance_dict(x).items()):
            if every or name in self._codes:
                self._follow(value)


def _read_entry(how: str, place: Any, key: Any) -> Any:
    if how == "cell":
        try:
            return place.cell_contents
        except ValueError:
            return _MISSING
    return place.get(key, _MISSING)
