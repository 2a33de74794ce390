"""Python state: the objects that a step reaches through its names and arguments.

A walk from the step's code visits globals, closures, attributes, containers and classes, but
nothing of installed libraries. Their contents are copied, for side_effects.py to compare with.
"""

from __future__ import annotations

import collections
import dis
import functools
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...nn import global_hooks
from ...nn.module import Module
from ...optim import Optimizer
from ...optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from ...optim.lr_scheduler import LRScheduler
from ...tensor.tensor import Tensor
from ..trace.plain_values import PLAIN, instance_dict

_NAMES = ("flambeau", "torch")  # under the alias the package has the second
_LIBRARIES = frozenset((*sys.stdlib_module_names, *_NAMES, "numpy", "scipy", "llvmlite"))
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OWN = frozenset((*vars(Module()), "__weakref__"))  # attributes that every module has
_METHODS = (types.MethodType, types.BuiltinMethodType)
_DRAWING = (random.Random, np.random.RandomState, np.random.Generator)
_MOST = 20_000  # objects looked at
_LONG = 1_000  # entries of a container that are looked into


@dataclass
class Holder:
    """An object with named values; `read` copies them as a dict, or as a tuple for a list.

    place: the dict, cell or list in which a program repeats the effect; None if it does not.
    form: formats a key.
    """

    path: str
    read: Callable[[], Any]
    place: Any = None
    form: str = "{path}.{key}"
    inner: bool = True  # part of an object or container, not what a name stands for
    before: Any = None
    ignored: set[Any] = field(default_factory=set)  # keys

    def named(self, key: Any) -> str:
        return self.form.format(path=self.path, key=key)


def _global_hooks() -> list[Any]:
    """Hooks that run for every module and optimizer."""
    places = (
        global_hooks.forward_pre, global_hooks.forward, global_hooks.backward_pre,
        global_hooks.backward, _global_optimizer_pre_hooks, _global_optimizer_post_hooks,
    )
    return [hook for place in places for hook in place.values()]


class Surroundings:
    """The objects that a function reaches through its names and arguments, with their contents."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        self._seen: dict[int, Any] = {}  # held, so that the ids stay theirs
        self.names: set[str] = set()  # in the code of the functions, strings too
        self._codes: list[types.CodeType] = []
        self.namespaces: list[types.ModuleType] = []
        self._stack: list[tuple[Any, str]] = [(kwargs, ""), (args, ""), (function, "")]
        self._stack += [(hook, "a global hook") for hook in _global_hooks()]
        self.holders: list[Holder] = []
        self.groups: list[Holder] = []  # of optimisers: schedulers may change them
        self.given = set(map(id, _containers((args, kwargs))))  # another one at each call
        self._numpy = False  # whether the step's names reach NumPy
        self._walk()
        if self._numpy and "random" in self.names:
            self._draws(np.random.mtrand._rand)
        for holder in (*self.holders, *self.groups):
            holder.before = holder.read()

    def refresh(self) -> None:
        """Refresh the optimizers' hyperparameters after a scheduler set them."""
        for holder in self.groups:
            holder.before = holder.read()

    def looks_at(self, name: str, code: types.CodeType) -> bool:
        """Whether any function that the code may call, judged by names, mentions a name."""
        known: set[str] = set()
        left, result = [element for element in self._codes if element is not code], [code]
        while result:
            for item in result:
                strings = (x for x in item.co_consts if isinstance(x, str))
                known |= {*item.co_names, *item.co_freevars, *strings}
            result = [element for element in left if _may_run(element, known)]
            left = [element for element in left if element not in result]
            if any(
                name in (*element.co_names, *element.co_freevars, *element.co_consts)
                for element in result
            ):
                return True
        return False

    def line_of(self, key: Any) -> str:
        """The line where the code stores to a name; "" if unknown."""
        for code in self._codes:
            line = code.co_firstlineno
            for instruction in dis.get_instructions(code):
                line = (
                    instruction.starts_line
                    if isinstance(instruction.starts_line, int)
                    and not isinstance(instruction.starts_line, bool)
                    else line
                )
                if instruction.opname.startswith("STORE") and instruction.argval == key:
                    return f"{code.co_filename}:{line}"
        return ""

    # --------------------------------------------------------------------------- looking

    def _walk(self) -> None:
        while True:
            while self._stack and len(self._seen) < _MOST:
                x, path = self._stack.pop()
                if isinstance(x, Tensor) and x.__dict__:
                    self._tensor_hooks(x, path)
                if isinstance(x, (*PLAIN, Tensor, np.ndarray, np.generic)) or id(x) in self._seen:
                    continue
                self._seen[id(x)] = x
                self._look(x, path)
            more = [
                (item, name)
                for item in self.namespaces
                for name in self.names & set(vars(item))
                if id(vars(item)[name]) not in self._seen
            ]
            more = [(vars(single)[name], f"{single.__name__}.{name}") for single, name in more
                    if not isinstance(vars(single)[name], (*PLAIN, Tensor, np.ndarray, np.generic))]
            if not more or len(self._seen) >= _MOST:
                break
            self._stack = more
        for namespace in self.namespaces:
            self._hold(
                namespace.__name__,
                functools.partial(_named, vars(namespace), self.names),
                vars(namespace),
            )

    def _look(self, x: Any, path: str) -> None:
        if isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self._push((x.__self__, "self"), (x.__func__, path))
        elif isinstance(x, functools.partial):
            self._push((x.func, path), (x.args, path), (x.keywords, path))
        elif isinstance(x, types.ModuleType):
            self._numpy |= x is np
            if x is random:
                self._draws(random._inst)
            elif not _installed(x.__name__):
                self.namespaces.append(x)
        elif isinstance(x, type):
            if not _installed(x.__module__):
                self._class(x, path)
        elif isinstance(x, Module):
            self._module(x, path)
        elif isinstance(x, (dict, list, set, tuple, frozenset, collections.deque)):
            self._container(x, path)
        elif isinstance(x, _DRAWING):
            self._draws(x)
        elif isinstance(x, _METHODS) and isinstance(x.__self__, _DRAWING):
            self._draws(x.__self__)
        elif isinstance(x, LRScheduler):
            self._push((getattr(x, "optimizer", None), path))
        elif isinstance(x, Optimizer) and _of_library(type(x).__module__):
            for i, group in enumerate(x.param_groups):
                read = functools.partial(_plain, group)
                self.groups.append(Holder(f"{path}.param_groups[{i}]", read, None,
                                           "{path}[{key!r}]"))
            for hooks in (x._optimizer_step_pre_hooks, x._optimizer_step_post_hooks):
                self._push(*((hook, f"a hook of {path}") for hook in hooks.values()))
        else:
            self._object(x, path)

    def _push(self, *result: tuple[Any, str]) -> None:
        self._stack.extend(result)

    def _hold(
        self, path: str, read: Callable, place: Any, form: str = "{path}.{key}", inner: bool = True
    ) -> None:
        self.holders.append(Holder(path, read, place, form, inner))

    def _draws(self, generator: Any) -> None:
        """A generator of Python's or NumPy's: who draws from it does something else each time."""
        self._hold(f"the state of {type(generator).__module__.removesuffix('.mtrand')}",
                   functools.partial(_drawn, generator), None, "{path}", False)

    def _function(self, function: types.FunctionType) -> None:
        if _installed(function.__module__):
            return
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            self._hold("", functools.partial(_content, cell, name), cell, "{key}", False)
            self._push(*((value, name) for value in _content(cell, name).values()))
        names: set[str] = set()
        for item in _nested(code):
            self._codes.append(item)
            strings = (x for x in item.co_consts if isinstance(x, str))
            self.names.update(x for x in (*item.co_names, *strings)
                              if not x.startswith(("__", "@")))
            names.update(i.argval for i in dis.get_instructions(item)
                         if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")
                         and i.argval in self.names)
        space = function.__globals__
        self._hold("", functools.partial(_named, space, names), space, "{key}", False)
        self._push(*((space[name], name) for name in names if name in space))
        if vars(function):
            self._container(vars(function), function.__name__, "{path}.{key}")
        self._push((function.__defaults__, ""), (function.__kwdefaults__, ""))

    def _class(self, kind: type, path: str) -> None:
        for base in kind.__mro__:
            if not _installed(base.__module__):
                self._hold(base.__name__, functools.partial(_shown, base), None)
                for name, value in list(vars(base).items()):
                    inner = getattr(value, "__func__", getattr(value, "fget", value))
                    self._push((inner, f"{base.__name__}.{name}"))

    def _module(self, module: Module, path: str) -> None:
        space = module.__dict__
        self._hold(path, functools.partial(_besides, space, _OWN), space, inner=False)
        self._hold(path, functools.partial(dict, module._buffers), None, inner=False)
        self._hold(path, functools.partial(_only, space, "training"), None, inner=False)
        self._push(*((value, f"{path}.{name}") for name, value in space.items()
                     if name not in _OWN))
        self._push(*((value, f"{path}.{name}") for name, value in module._modules.items()))
        self._push(*((value, f"{path}.{name}") for name, value in module._parameters.items()))
        self._push((type(module), path))

    def _tensor_hooks(self, tensor: Tensor, path: str) -> None:
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            hooks = tensor.__dict__.get(name) or {}
            self._push(*((hook, f"a hook of {path}") for hook in hooks.values()))

    def _container(self, x: Any, path: str, form: str = "{path}[{key!r}]") -> None:
        if isinstance(x, dict):
            self._hold(path, functools.partial(dict, x), x, form)
        elif isinstance(x, (list, collections.deque)):
            self._hold(path, functools.partial(tuple, x), x if isinstance(x, list) else None,
                       "{path}")
        elif isinstance(x, set):
            self._hold(path, functools.partial(_as_dict, x), None, "{path}")
        if len(x) <= _LONG:
            items = list(x.items() if isinstance(x, dict) else enumerate(x))
            form = form if isinstance(x, dict) else "{path}[{key}]"
            self._push(*((value, form.format(path=path, key=key) if path else str(key))
                         for key, value in items))
        if type(x).__module__ != "builtins":
            self._object(x, path)

    def _object(self, x: Any, path: str) -> None:
        kind = type(x)
        if _of_library(kind.__module__) and kind is not types.SimpleNamespace:
            return
        self._push((kind, path))
        if "__dict__" in dir(kind):  # hasattr would run a __getattr__ of the user's
            self._container(instance_dict(x), path, "{path}.{key}")
        slots = [name for base in kind.__mro__ for name in _slots(base)]
        if slots:
            self._hold(path, functools.partial(_attributes, x, tuple(slots)), None)
            self._push(*((value, f"{path}.{name}")
                         for name, value in _attributes(x, tuple(slots)).items()))


# --------------------------------------------------------------------------------- reading


def _of_library(name: Any) -> bool:
    return not isinstance(name, str) or name.split(".")[0] in _LIBRARIES


@functools.cache
def _installed(name: Any) -> bool:
    """Whether a module is an installed library, which the walk does not enter."""
    if _of_library(name):
        return True
    top = sys.modules.get(name.split(".")[0])
    return any(part in str(getattr(top, "__file__", "")) for part in _INSTALLED)


def _may_run(code: types.CodeType, known: set[str]) -> bool:
    """Whether code that mentions these names may call a function."""
    if code.co_name == "__init__":
        return code.co_qualname.split(".")[-2:][0] in known
    return code.co_name in known or code.co_name.startswith(("__", "<")) or (
        code.co_name == "forward")


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _nested(const)


def _containers(x: Any) -> Iterator[Any]:
    if isinstance(x, (tuple, list, dict)):
        yield x
        for item in x.values() if isinstance(x, dict) else x:
            yield from _containers(item)


def _content(cell: Any, name: str) -> dict[str, Any]:
    try:
        return {name: cell.cell_contents}
    except ValueError:  # nothing yet
        return {}


def _named(space: dict, names: set[str]) -> dict[str, Any]:
    return {name: space[name] for name in names if name in space}


def _only(space: dict, name: str) -> dict[str, Any]:
    return {name: space[name]} if name in space else {}


def _besides(space: dict, names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in space.items() if name not in names}


def _plain(space: dict) -> dict[str, Any]:
    return {name: value for name, value in space.items() if value.__class__ in PLAIN}


def _shown(kind: type) -> dict[str, Any]:
    """A class's attributes without its methods."""
    return {name: value for name, value in vars(kind).items()
            if not (name.startswith("__") or callable(value) or hasattr(value, "__get__"))}


def _drawn(generator: Any) -> dict[str, int]:
    """A generator's state as a number."""
    if isinstance(generator, random.Random):
        return {"state": hash(generator.getstate())}
    state = (generator.get_state() if isinstance(generator, np.random.RandomState) else
             sorted(generator.bit_generator.state.items()))
    return {"state": hash(repr(state))}


def _as_dict(x: set) -> dict[Any, Any]:
    return dict.fromkeys(x)


def _slots(base: type) -> tuple[str, ...]:
    known = base.__dict__.get("__slots__", ())
    known = (known,) if isinstance(known, str) else tuple(known)
    return tuple(name for name in known if name not in ("__dict__", "__weakref__"))


def _attributes(x: Any, names: tuple[str, ...]) -> dict[str, Any]:
    read = object.__getattribute__  # runs no code of the class
    result = {}
    for name in names:
        with suppress(AttributeError):
            result[name] = read(x, name)
    return result
