"""Find the modules that a function refers to by name. Their training flags are part of call keys.

Missing a module may waste a program but never gives wrong results, because guards cover modules.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from ..trace.plain_values import PLAIN, computes_class, get_instance_dict

_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, Module)
_LEFT_OUT = (types.ModuleType, type, types.BuiltinFunctionType, Tensor, *PLAIN)


def find_named_modules(function: Any) -> list[Module]:
    """Return the modules among the globals and closure variables of a function and of the functions
    it names, and among the attributes of plain objects there."""
    walk = _Walk()
    walk.visit(function)
    for value in list(walk.values):
        walk.look_into(value)
    return walk.modules


class _Walk:
    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.values: list[Any] = []  # values of names
        self._seen: set[int] = set()
        self._owners: set[int] = set()  # ids of objects whose methods were visited
        self._wrappers: set[int] = set()  # ids of functions that wrap another, or themselves
        self._names: set[str] = set()

    def visit(self, function: Any) -> None:
        """Note a module, or walk the names that a function uses."""
        if computes_class(type(function)):
            return
        if isinstance(function, functools.partial):
            self.visit(function.func)
            return
        if isinstance(function, Module):
            if id(function) not in self._seen:
                self._seen.add(id(function))
                self.modules.append(function)
                for module in function.modules():
                    self.visit(type(module).forward)
            return
        bound = isinstance(function, (types.MethodType, types.BuiltinMethodType))
        owner = function.__self__ if bound else None
        if isinstance(owner, Module):
            self.visit(owner)
        elif owner is not None and id(owner) not in self._owners:
            self._owners.add(id(owner))  # it may hold its own bound methods
            self.look_into(owner, takes_all=True)
        function = getattr(function, "__func__", function)
        if hasattr(function, "__wrapped__") and id(function) not in self._wrappers:
            self._wrappers.add(id(function))
            self.visit(function.__wrapped__)
        if not isinstance(function, types.FunctionType) or id(function) in self._seen \
                or (function.__module__ or "").split(".")[0] == "flambeau":
            return
        self._seen.add(id(function))
        for value in self._iterate_named(function):
            if not issubclass(type(value), _LEFT_OUT):
                self.values.append(value)
                if issubclass(type(value), _FUNCTIONS):
                    self.visit(value)

    def look_into(self, x: Any, takes_all: bool = False) -> None:
        """Visit a plain object's attributes: those that the code names, or all if `takes_all`."""
        kind = type(x)
        if computes_class(kind) or issubclass(kind, (*_LEFT_OUT, *_FUNCTIONS)) \
                or "__dict__" not in dir(kind) or kind.__module__.split(".")[0] == "flambeau":
            return
        for name, value in list(get_instance_dict(x).items()):
            if (takes_all or name in self._names) and issubclass(type(value), _FUNCTIONS):
                self.visit(value)

    def _iterate_named(self, function: types.FunctionType) -> Iterator[Any]:
        """Yield the values of a function's closure variables and globals."""
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # the cell is empty
                continue
        names: set[str] = set()
        stack = [function.__code__]
        while stack:
            code = stack.pop()
            self._names.update(code.co_names)
            names.update(i.argval for i in dis.get_instructions(code)
                         if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
            stack += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        space = function.__globals__
        yield from (space[name] for name in sorted(names) if name in space)
