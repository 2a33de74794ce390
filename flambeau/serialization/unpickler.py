"""The restricted unpickler behind `load(weights_only=True)`: an interpreter of pickle's opcodes.

It knows plain data, storages and an allow-list of names; everything else is an UnpicklingError.
Nothing is imported, nothing outside the list is called, and no size in the file is believed
before that many bytes are there.
"""

from __future__ import annotations

import io
import pickle
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

from flambeau.tensor import Tensor

from . import rebuild, safe_globals

_LONGEST_LINE = 1 << 16
_LONGEST_NUMBER = 4096  # digits or bytes: reading a decimal number takes quadratic time

Operation = Callable[["WeightsUnpickler"], Any]
_OPERATIONS: dict[int, Operation] = {}


class _Stop(Exception):
    """The end of the pickle, with its value."""


class _StorageFailed(Exception):
    """What went wrong with a storage: not the pickle's fault, so it is raised as it is."""


def _opcode(*codes: bytes) -> Callable[[Operation], Operation]:
    def declare(operation: Operation) -> Operation:
        for code in codes:
            _OPERATIONS[code[0]] = operation
        return operation

    return declare


def refuse_persistent(reference: Any) -> Any:
    """A pickle outside a checkpoint has no storages to refer to."""
    raise UnpicklingError("unsupported persistent id encountered")


class WeightsUnpickler:
    """Reads one pickle from where the file stands; `encoding` is that of Python 2's strings."""

    def __init__(
        self, file: IO[bytes], persistent_load: Callable[[Any], Any] = refuse_persistent,
        encoding: str = "utf-8",
    ) -> None:  # fmt: skip
        self._file, self.persistent_load, self.encoding = file, persistent_load, encoding
        start = file.tell()
        self._left = file.seek(0, io.SEEK_END) - start
        file.seek(start)

    def load(self) -> Any:
        """The object. UnpicklingError for anything that is not allowed or not a pickle."""
        self.memo: dict[int, Any] = {}
        self.marks: list[list[Any]] = []
        self.stack: list[Any] = []
        self.allowed: dict[int, Any] = {}
        self.user = safe_globals.user_globals()
        try:
            self._run()
        except _Stop as stop:
            return stop.args[0]
        except _StorageFailed as failure:
            raise failure.args[0] from None
        except (UnpicklingError, EOFError, NotImplementedError, MemoryError):
            raise
        except Exception as error:  # damage shows itself as almost any exception
            what = f"{type(error).__name__}: {str(error)[:300]}"
            raise UnpicklingError(f"the pickle is damaged or not one of weights: {what}") from error

    def _run(self) -> None:
        read, operations = self._file.read, _OPERATIONS
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
        """Exactly `size` bytes."""
        if size > self._left:
            raise UnpicklingError(f"pickle data was truncated: {size} bytes wanted")
        self._left -= size
        return self._file.read(size)

    def line(self) -> bytes:
        """The bytes up to the next end of line."""
        line = self._file.readline(_LONGEST_LINE)
        self._left -= len(line)
        if not line.endswith(b"\n"):
            raise UnpicklingError("pickle data was truncated: a line has no end")
        return line[:-1]

    def number(self, form: str) -> int:
        """A number in `struct`'s form."""
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def find(self, module: str, name: str) -> None:
        """Pushes the allowed object of that name."""
        try:
            found = safe_globals.find(module, name, self.user)
        except LookupError as error:
            raise UnpicklingError(str(error)) from None
        self.allowed[id(found)] = found
        self.stack.append(found)

    def must_be_allowed(self, function: Any) -> None:
        """Only what the pickle got by an allowed name may be called."""
        if id(function) not in self.allowed:
            raise UnpicklingError(
                f"Trying to call reduce for unrecognized function of type {type(function)}"
            )


# ----------------------------------------------------------------------------- constants

_CONSTANTS: dict[bytes, Callable[[], Any]] = {
    pickle.NONE: lambda: None, pickle.NEWTRUE: lambda: True, pickle.NEWFALSE: lambda: False,
    pickle.EMPTY_TUPLE: tuple, pickle.EMPTY_LIST: list, pickle.EMPTY_DICT: dict,
    pickle.EMPTY_SET: set,
}  # fmt: skip
_NUMBERS = {
    pickle.BININT: "<i", pickle.BININT1: "<B", pickle.BININT2: "<H", pickle.BINFLOAT: ">d",
}  # fmt: skip
_TEXTS = {
    pickle.BINUNICODE: "<I", pickle.SHORT_BINUNICODE: "<B", pickle.BINUNICODE8: "<Q",
}  # fmt: skip
_BYTES = {
    pickle.BINBYTES: ("<I", bytes), pickle.SHORT_BINBYTES: ("<B", bytes),
    pickle.BINBYTES8: ("<Q", bytes), pickle.BYTEARRAY8: ("<Q", bytearray),
}  # fmt: skip


def _declare_constants() -> None:
    for code, make in _CONSTANTS.items():
        _opcode(code)(lambda u, make=make: u.stack.append(make()))
    for code, form in _NUMBERS.items():
        _opcode(code)(lambda u, form=form: u.stack.append(u.number(form)))
    for code, form in _TEXTS.items():
        _opcode(code)(
            lambda u, form=form: u.stack.append(
                str(u.read(u.number(form)), "utf-8", "surrogatepass")
            )
        )
    for code, (form, kind) in _BYTES.items():
        _opcode(code)(
            lambda u, form=form, kind=kind: u.stack.append(kind(u.read(u.number(form))))
        )


_declare_constants()


def _python2_string(u: WeightsUnpickler, form: str) -> None:
    data = u.read(u.number(form))
    u.stack.append(data if u.encoding == "bytes" else data.decode(u.encoding))


_opcode(pickle.SHORT_BINSTRING)(lambda u: _python2_string(u, "<B"))
_opcode(pickle.BINSTRING)(lambda u: _python2_string(u, "<I"))


@_opcode(pickle.LONG1)
def _long1(u: WeightsUnpickler) -> None:
    u.stack.append(pickle.decode_long(u.read(u.number("<B"))))


@_opcode(pickle.LONG4)
def _long4(u: WeightsUnpickler) -> None:
    size = u.number("<I")
    if size > _LONGEST_NUMBER:
        raise UnpicklingError(f"an integer of {size} bytes")
    u.stack.append(pickle.decode_long(u.read(size)))


@_opcode(pickle.INT)
def _int(u: WeightsUnpickler) -> None:
    line = u.line()
    u.stack.append(line == b"01" if line in (b"00", b"01") else _integer(line))


@_opcode(pickle.LONG)
def _long(u: WeightsUnpickler) -> None:
    u.stack.append(_integer(u.line().removesuffix(b"L")))


def _integer(digits: bytes) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise UnpicklingError(f"an integer of {len(digits)} digits")
    return int(digits)


@_opcode(pickle.FLOAT)
def _float(u: WeightsUnpickler) -> None:
    u.stack.append(float(u.line()))


@_opcode(pickle.UNICODE)
def _unicode(u: WeightsUnpickler) -> None:
    u.stack.append(str(u.line(), "raw-unicode-escape"))


# ---------------------------------------------------------------------------- containers


@_opcode(pickle.MARK)
def _mark(u: WeightsUnpickler) -> None:
    u.marks.append(u.stack)
    u.stack = []


@_opcode(pickle.POP)
def _pop(u: WeightsUnpickler) -> None:
    if u.stack:
        u.stack.pop()
    else:
        u.since_mark()


@_opcode(pickle.POP_MARK)
def _pop_mark(u: WeightsUnpickler) -> None:
    u.since_mark()


@_opcode(pickle.DUP)
def _dup(u: WeightsUnpickler) -> None:
    u.stack.append(u.stack[-1])


@_opcode(pickle.TUPLE)
def _tuple(u: WeightsUnpickler) -> None:
    items = u.since_mark()
    u.stack.append(tuple(items))


def _last(u: WeightsUnpickler, count: int) -> list[Any]:
    if len(u.stack) < count:
        raise UnpicklingError("unexpected empty stack")
    items = u.stack[-count:]
    del u.stack[-count:]
    return items


for _count, _code in enumerate((pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3), 1):
    _opcode(_code)(lambda u, count=_count: u.stack.append(tuple(_last(u, count))))


@_opcode(pickle.LIST)
def _list(u: WeightsUnpickler) -> None:
    items = u.since_mark()
    u.stack.append(items)


@_opcode(pickle.DICT)
def _dict(u: WeightsUnpickler) -> None:
    items, made = u.since_mark(), {}
    _set_items(made, items)
    u.stack.append(made)


@_opcode(pickle.FROZENSET)
def _frozen(u: WeightsUnpickler) -> None:
    items = u.since_mark()
    u.stack.append(safe_globals._frozenset(items))


@_opcode(pickle.APPEND)
def _append(u: WeightsUnpickler) -> None:
    _extend(u, [u.stack.pop()])


@_opcode(pickle.APPENDS)
def _appends(u: WeightsUnpickler) -> None:
    _extend(u, u.since_mark())


def _extend(u: WeightsUnpickler, items: list[Any]) -> None:
    target = u.stack[-1]
    if type(target) is not list:
        raise UnpicklingError(f"Can only append to lists, but got {type(target)}")
    target.extend(items)


@_opcode(pickle.ADDITEMS)
def _add_items(u: WeightsUnpickler) -> None:
    items, target = u.since_mark(), u.stack[-1]
    if type(target) is not set:
        raise UnpicklingError(f"Can only add to sets, but got {type(target)}")
    target.update(safe_globals._check_keys(items))


@_opcode(pickle.SETITEM)
def _set_item(u: WeightsUnpickler) -> None:
    pair = _last(u, 2)
    _set_items(u.stack[-1], pair)


@_opcode(pickle.SETITEMS)
def _set_all(u: WeightsUnpickler) -> None:
    items = u.since_mark()
    _set_items(u.stack[-1], items)


def _set_items(target: Any, items: list[Any]) -> None:
    if type(target) not in (dict, OrderedDict, Counter):
        raise UnpicklingError(
            "Can only set items of dict, collections.OrderedDict, collections.Counter, but got "
            f"{type(target)}"
        )
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[key if type(key) in (str, int) else safe_globals.check_key(key)] = value


# ------------------------------------------------------------------------------ the memo


@_opcode(pickle.BINPUT)
def _put1(u: WeightsUnpickler) -> None:
    u.memo[u.number("<B")] = u.stack[-1]


@_opcode(pickle.LONG_BINPUT)
def _put4(u: WeightsUnpickler) -> None:
    u.memo[u.number("<I")] = u.stack[-1]


@_opcode(pickle.PUT)
def _put(u: WeightsUnpickler) -> None:
    u.memo[_integer(u.line())] = u.stack[-1]


@_opcode(pickle.MEMOIZE)
def _memoize(u: WeightsUnpickler) -> None:
    u.memo[len(u.memo)] = u.stack[-1]


@_opcode(pickle.BINGET)
def _get1(u: WeightsUnpickler) -> None:
    u.stack.append(u.memo[u.number("<B")])


@_opcode(pickle.LONG_BINGET)
def _get4(u: WeightsUnpickler) -> None:
    u.stack.append(u.memo[u.number("<I")])


@_opcode(pickle.GET)
def _get(u: WeightsUnpickler) -> None:
    u.stack.append(u.memo[_integer(u.line())])


# ----------------------------------------------------------- names, objects and storages


@_opcode(pickle.GLOBAL)
def _global(u: WeightsUnpickler) -> None:
    module, name = u.line().decode(), u.line().decode()
    u.find(*modern_name(module, name))


def modern_name(module: str, name: str) -> tuple[str, str]:
    """What Python 3 calls what a pickle of protocol 2 calls by Python 2's name."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


@_opcode(pickle.STACK_GLOBAL)
def _stack_global(u: WeightsUnpickler) -> None:
    module, name = _last(u, 2)
    if type(module) is not str or type(name) is not str:
        raise UnpicklingError("STACK_GLOBAL requires str")
    u.find(module, name)


@_opcode(pickle.REDUCE)
def _reduce(u: WeightsUnpickler) -> None:
    function, args = _last(u, 2)
    u.must_be_allowed(function)
    if type(args) is not tuple:
        raise UnpicklingError(f"arguments must be a tuple, got {type(args)}")
    u.stack.append(safe_globals.call(function, args, u.user))


@_opcode(pickle.NEWOBJ)
def _new_object(u: WeightsUnpickler) -> None:
    cls, args = _last(u, 2)
    _make_object(u, cls, args, {})


@_opcode(pickle.NEWOBJ_EX)
def _new_object_ex(u: WeightsUnpickler) -> None:
    cls, args, keywords = _last(u, 3)
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
        u.stack.append(safe_globals.call(cls, args, u.user))


@_opcode(pickle.BUILD)
def _build(u: WeightsUnpickler) -> None:
    state = u.stack.pop()
    made = u.stack[-1]
    if type(made) is OrderedDict:
        made.__dict__.update(state)
        return
    if isinstance(made, Tensor) and type(made) in (Tensor, rebuild.parameter_class()):
        raise UnpicklingError("BUILD on a Tensor: flambeau does not read that old form")
    if not any(type(made) is allowed for allowed in u.user.values()):
        raise UnpicklingError(
            "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
            f"`add_safe_globals`, but got {type(made)}"
        )
    _restore(made, state)


def _restore(made: Any, state: Any) -> None:
    """What pickle does with the state of an object of a class that the user allowed."""
    own = getattr(made, "__setstate__", None)
    if own is not None:
        own(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    made.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(made, name, value)


@_opcode(pickle.BINPERSID)
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


@_opcode(pickle.PROTO)
def _proto(u: WeightsUnpickler) -> None:
    protocol = u.number("<B")
    if protocol > pickle.HIGHEST_PROTOCOL:
        raise UnpicklingError(f"unsupported pickle protocol: {protocol}")


@_opcode(pickle.FRAME)
def _frame(u: WeightsUnpickler) -> None:
    u.number("<Q")  # a hint for buffering


@_opcode(pickle.STOP)
def _stop(u: WeightsUnpickler) -> None:
    raise _Stop(u.stack.pop())
