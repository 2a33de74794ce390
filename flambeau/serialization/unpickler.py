"""The restricted unpickler behind `load(weights_only=True)`: an interpreter of pickle opcodes.

It supports plain data, storages and an allow-list of names; everything else raises UnpicklingError.
Nothing is imported, nothing outside the list is called, and sizes are checked before memory is
allocated.
"""

from __future__ import annotations

import io
import pickle
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

from ..tensor import Tensor
from . import rebuild
from .opcodes import OPERATIONS, last, opcode
from .safe_globals import call as call_allowed, find as find_allowed, get_user_globals

_LONGEST_LINE = 1 << 16


class _Stop(Exception):
    """The end of the pickle, with its value."""


class _StorageFailed(Exception):
    """An error of a storage, raised unchanged because the pickle is not at fault."""


def refuse_persistent(reference: Any) -> Any:
    """Raise UnpicklingError: a pickle outside a checkpoint has no storages."""
    raise UnpicklingError("unsupported persistent id encountered")


class WeightsUnpickler:
    """Reads one pickle from the file's position. `encoding` is that of Python 2 strings."""

    def __init__(
        self, file: IO[bytes], persistent_load: Callable[[Any], Any] = refuse_persistent,
        encoding: str = "utf-8",
    ) -> None:
        self._file, self.persistent_load, self.encoding = file, persistent_load, encoding
        self.operations = OPERATIONS
        start = file.tell()
        self._left = file.seek(0, io.SEEK_END) - start
        file.seek(start)

    def load(self) -> Any:
        """Return the object. Raises UnpicklingError for disallowed or malformed data."""
        self.memo: dict[int, Any] = {}
        self.marks: list[list[Any]] = []
        self.stack: list[Any] = []
        self.allowed: dict[int, Any] = {}
        self.user = get_user_globals()
        try:
            self._run()
        except _Stop as stop:
            return stop.args[0]
        except _StorageFailed as failure:
            raise failure.args[0] from None
        except (UnpicklingError, EOFError, NotImplementedError, MemoryError):
            raise
        except Exception as error:  # damage can cause almost any exception
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            raise UnpicklingError(
                f"the pickle is damaged or not one of weights: {reason}") from error

    def _run(self) -> None:
        read, operations = self._file.read, self.operations
        while True:
            code = read(1)
            if not code:
                raise EOFError("Ran out of input: the pickle ends in the middle")
            self._left -= 1
            operation = operations.get(code[0])
            if operation is None:
                raise UnpicklingError(f"Unsupported operand {code[0]}")
            operation(self)

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes."""
        if size > self._left:
            raise UnpicklingError(f"pickle data was truncated: {size} bytes wanted")
        self._left -= size
        return self._file.read(size)

    def line(self) -> bytes:
        """Return the bytes up to the next newline."""
        line = self._file.readline(_LONGEST_LINE)
        self._left -= len(line)
        if not line.endswith(b"\n"):
            raise UnpicklingError("pickle data was truncated: a line has no end")
        return line[:-1]

    def number(self, form: str) -> int:
        """Return a number in a `struct` format."""
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def since_mark(self) -> list[Any]:
        """Return and remove the items pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def find(self, module: str, name: str) -> None:
        """Push the allowed object of that name."""
        try:
            result = find_allowed(module, name, self.user)
        except LookupError as error:
            raise UnpicklingError(str(error)) from None
        self.allowed[id(result)] = result
        self.stack.append(result)

    def must_be_allowed(self, function: Any) -> None:
        """Raise UnpicklingError unless the pickle got the function by an allowed name."""
        if id(function) not in self.allowed:
            raise UnpicklingError(
                f"Trying to call reduce for unrecognized function of type {type(function)}"
            )


# ----------------------------------------------------------- names, objects and storages


@opcode(pickle.GLOBAL)
def _global(u: WeightsUnpickler) -> None:
    module, name = u.line().decode(), u.line().decode()
    u.find(*modernize_name(module, name))


def modernize_name(module: str, name: str) -> tuple[str, str]:
    """Return Python 3's names for Python 2's, which protocol 2 uses."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


@opcode(pickle.STACK_GLOBAL)
def _stack_global(u: WeightsUnpickler) -> None:
    module, name = last(u, 2)
    if type(module) is not str or type(name) is not str:
        raise UnpicklingError("STACK_GLOBAL requires str")
    u.find(module, name)


@opcode(pickle.REDUCE)
def _reduce(u: WeightsUnpickler) -> None:
    function, args = last(u, 2)
    u.must_be_allowed(function)
    if type(args) is not tuple:
        raise UnpicklingError(f"arguments must be a tuple, got {type(args)}")
    u.stack.append(call_allowed(function, args, u.user))


@opcode(pickle.NEWOBJ)
def _new_object(u: WeightsUnpickler) -> None:
    cls, args = last(u, 2)
    _make_object(u, cls, args, {})


@opcode(pickle.NEWOBJ_EX)
def _new_object_ex(u: WeightsUnpickler) -> None:
    cls, args, keywords = last(u, 3)
    _make_object(u, cls, args, keywords)


def _make_object(u: WeightsUnpickler, cls: Any, args: Any, keywords: Any) -> None:
    if id(cls) not in u.allowed or not isinstance(cls, type):
        raise UnpicklingError(
            "Can only create new object for nn.Parameter or classes allowlisted via "
            f"`add_safe_globals` but got {cls if isinstance(cls, type) else type(cls)}"
        )
    if any(cls is allowed for allowed in u.user.values()):
        u.stack.append(cls.__new__(cls, *args, **keywords))
    elif keywords:
        raise UnpicklingError(f"{cls} takes no keywords from a file")
    else:
        u.stack.append(call_allowed(cls, args, u.user))


@opcode(pickle.BUILD)
def _build(u: WeightsUnpickler) -> None:
    state = u.stack.pop()
    result = u.stack[-1]
    if type(result) is OrderedDict:
        result.__dict__.update(state)
        return
    if isinstance(result, Tensor) and type(result) in (Tensor, rebuild.get_parameter_class()):
        raise UnpicklingError("BUILD on a Tensor: flambeau does not read that old form")
    if not any(type(result) is allowed for allowed in u.user.values()):
        raise UnpicklingError(
            "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
            f"`add_safe_globals`, but got {type(result)}"
        )
    _restore(result, state)


def _restore(result: Any, state: Any) -> None:
    """Restore the state of an instance of a user-allowed class, as pickle does."""
    set_state = getattr(result, "__setstate__", None)
    if set_state is not None:
        set_state(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    result.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(result, name, value)


@opcode(pickle.BINPERSID)
def _persistent(u: WeightsUnpickler) -> None:
    reference = u.stack.pop()
    if type(reference) is not tuple or not reference:
        raise UnpicklingError(
            f"persistent_load id must be tuple or int, but got {type(reference)}"
        )
    if type(reference[0]) not in (str, bytes) or reference[0] not in ("storage", b"storage"):
        raise UnpicklingError(
            f"Only persistent_load of storage is allowed, but got {type(reference[0])}"
        )
    try:
        u.stack.append(u.persistent_load(reference))
    except Exception as error:
        raise _StorageFailed(error) from error


@opcode(pickle.PROTO)
def _proto(u: WeightsUnpickler) -> None:
    protocol = u.number("<B")
    if protocol > pickle.HIGHEST_PROTOCOL:
        raise UnpicklingError(f"unsupported pickle protocol: {protocol}")


@opcode(pickle.FRAME)
def _frame(u: WeightsUnpickler) -> None:
    u.number("<Q")  # a buffering hint


@opcode(pickle.STOP)
def _stop(u: WeightsUnpickler) -> None:
    raise _Stop(u.stack.pop())
