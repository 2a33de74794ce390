"""Unpickle an archive: the opcodes of weight files, plus objects of the archive's classes."""

from __future__ import annotations

import io
import pickle
from pickle import UnpicklingError
from typing import Any

from ...serialization.opcodes import OPERATIONS, last
from ...serialization.unpickler import WeightsUnpickler
from . import packed_objects
from .definitions import ClassType
from .objects import ScriptObject
from .program import Program
from .script_module import LoadedModule

__all__ = ["ScriptUnpickler"]

_FIRST = ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist",
          "restore_type_tag")


class _FirstArgument:
    """A function of `torch.jit._pickle` that tags its first argument with a type."""


class _PackedClass:
    """Marks a class of packed weights on the stack, for NEWOBJ to instantiate."""

    def __init__(self, kind: type) -> None:
        self.kind = kind


class ScriptUnpickler(WeightsUnpickler):
    """Reads `data.pkl` and `constants.pkl`."""

    def __init__(self, data: bytes, refer: Any, program: Program) -> None:
        super().__init__(io.BytesIO(data), refer)
        self.program = program
        self.operations = _OPERATIONS
        self.unfilled: list[Any] = []  # packed weights that await their state

    def find(self, module: str, name: str) -> None:
        """Push a class of the archive or another allowed global."""
        if module.startswith("__torch__.torch.classes."):
            self.stack.append(_PackedClass(packed_objects.start(f"{module}.{name}")))
        elif module == "__torch__" or module.startswith("__torch__."):
            self.stack.append(self.program.find(f"{module}.{name}"))
        elif module == "torch.jit._pickle" and name in _FIRST:
            self.stack.append(_FirstArgument())
        else:
            super().find(module, name)


def _reduce(u: Any) -> None:
    function, args = u.stack[-2:]
    if isinstance(function, _FirstArgument) and type(args) is tuple and args:
        last(u, 2)
        u.stack.append(args[0])
    elif isinstance(function, ClassType) and function.kind == "enum":  # not in a tuple
        last(u, 2)
        u.stack.append(function.python(args))
    elif isinstance(function, ClassType) and function.python is not None and type(args) is tuple:
        last(u, 2)
        u.stack.append(function.python(*args))
    else:
        OPERATIONS[pickle.REDUCE[0]](u)


def _create_object(u: Any) -> None:
    kind, args = u.stack[-2:]
    if isinstance(kind, _PackedClass):
        last(u, 2)
        u.unfilled.append(object.__new__(kind.kind))
        u.stack.append(u.unfilled[-1])
    elif isinstance(kind, ClassType):
        last(u, 2)
        u.stack.append(kind.new() if args == () else kind.python(*args))
    else:
        OPERATIONS[pickle.NEWOBJ[0]](u)


def _build(u: Any) -> None:
    owner = u.stack[-2]
    if any(owner is target for target in u.unfilled):
        u.unfilled = [target for target in u.unfilled if target is not owner]
        packed_objects.restore(owner, u.stack.pop())
        return
    if not isinstance(owner, (ScriptObject, LoadedModule)):
        OPERATIONS[pickle.BUILD[0]](u)
        return
    state = u.stack.pop()
    restore = owner._flambeau_type.methods.get("__setstate__")
    if restore is not None:
        restore(owner, state)
        return
    if not isinstance(state, dict):
        raise UnpicklingError("the state of an object is no dict")
    for name, value in state.items():
        owner._flambeau_set(name, value)


_OPERATIONS = {**OPERATIONS, pickle.REDUCE[0]: _reduce, pickle.NEWOBJ[0]: _create_object,
               pickle.BUILD[0]: _build}
