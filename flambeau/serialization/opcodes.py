"""Pickle opcodes that build plain data: constants, containers, and the memo.

Each is a function of the interpreter (see unpickler.py) that updates its stack.
"""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from .safe_globals import _frozenset, check_key, check_keys

if TYPE_CHECKING:
    from .unpickler import WeightsUnpickler

_LONGEST_NUMBER = 4096  # digits or bytes: parsing a decimal number takes quadratic time

Operation = Callable[["WeightsUnpickler"], Any]
OPERATIONS: dict[int, Operation] = {}


def opcode(*codes: bytes) -> Callable[[Operation], Operation]:
    """Register the interpreter's operation for these opcodes."""

    def declare(operation: Operation) -> Operation:
        for code in codes:
            OPERATIONS[code[0]] = operation
        return operation

    return declare


# ----------------------------------------------------------------------------- constants

_CONSTANTS: dict[bytes, Callable[[], Any]] = {
    pickle.NONE: lambda: None, pickle.NEWTRUE: lambda: True, pickle.NEWFALSE: lambda: False,
    pickle.EMPTY_TUPLE: tuple, pickle.EMPTY_LIST: list, pickle.EMPTY_DICT: dict,
    pickle.EMPTY_SET: set,
}
_NUMBERS = {
    pickle.BININT: "<i", pickle.BININT1: "<B", pickle.BININT2: "<H", pickle.BINFLOAT: ">d",
}
_TEXTS = {
    pickle.BINUNICODE: "<I", pickle.SHORT_BINUNICODE: "<B", pickle.BINUNICODE8: "<Q",
}
_BYTES = {
    pickle.BINBYTES: ("<I", bytes), pickle.SHORT_BINBYTES: ("<B", bytes),
    pickle.BINBYTES8: ("<Q", bytes), pickle.BYTEARRAY8: ("<Q", bytearray),
}


def _push_constant(create: Callable[[], Any]) -> Operation:
    return lambda u: u.stack.append(create())


def _push_number(struct_format: str) -> Operation:
    return lambda u: u.stack.append(u.number(struct_format))


def _push_text(struct_format: str) -> Operation:
    return lambda u: u.stack.append(str(u.read(u.number(struct_format)), "utf-8", "surrogatepass"))


def _push_bytes(struct_format: str, convert: Callable[[bytes], Any]) -> Operation:
    return lambda u: u.stack.append(convert(u.read(u.number(struct_format))))


def _declare_constants() -> None:
    for code, create in _CONSTANTS.items():
        opcode(code)(_push_constant(create))
    for code, struct_format in _NUMBERS.items():
        opcode(code)(_push_number(struct_format))
    for code, struct_format in _TEXTS.items():
        opcode(code)(_push_text(struct_format))
    for code, (struct_format, convert) in _BYTES.items():
        opcode(code)(_push_bytes(struct_format, convert))


_declare_constants()


def _push_python2_string(u: WeightsUnpickler, struct_format: str) -> None:
    data = u.read(u.number(struct_format))
    u.stack.append(data if u.encoding == "bytes" else data.decode(u.encoding))


opcode(pickle.SHORT_BINSTRING)(lambda u: _push_python2_string(u, "<B"))
opcode(pickle.BINSTRING)(lambda u: _push_python2_string(u, "<I"))


@opcode(pickle.LONG1)
def _long1(u: WeightsUnpickler) -> None:
    u.stack.append(pickle.decode_long(u.read(u.number("<B"))))


@opcode(pickle.LONG4)
def _long4(u: WeightsUnpickler) -> None:
    size = u.number("<I")
    if size > _LONGEST_NUMBER:
        raise UnpicklingError(f"an integer of {size} bytes")
    u.stack.append(pickle.decode_long(u.read(size)))


@opcode(pickle.INT)
def _int(u: WeightsUnpickler) -> None:
    line = u.line()
    u.stack.append(line == b"01" if line in (b"00", b"01") else _parse_integer(line))


@opcode(pickle.LONG)
def _long(u: WeightsUnpickler) -> None:
    u.stack.append(_parse_integer(u.line().removesuffix(b"L")))


def _parse_integer(digits: bytes) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise UnpicklingError(f"an integer of {len(digits)} digits")
    return int(digits)


@opcode(pickle.FLOAT)
def _float(u: WeightsUnpickler) -> None:
    u.stack.append(float(u.line()))


@opcode(pickle.UNICODE)
def _unicode(u: WeightsUnpickler) -> None:
    u.stack.append(str(u.line(), "raw-unicode-escape"))


# ---------------------------------------------------------------------------- containers


@opcode(pickle.MARK)
def _mark(u: WeightsUnpickler) -> None:
    u.marks.append(u.stack)
    u.stack = []


@opcode(pickle.POP)
def _pop(u: WeightsUnpickler) -> None:
    if u.stack:
        u.stack.pop()
    else:
        u.since_mark()


@opcode(pickle.POP_MARK)
def _pop_mark(u: WeightsUnpickler) -> None:
    u.since_mark()


@opcode(pickle.DUP)
def _dup(u: WeightsUnpickler) -> None:
    u.stack.append(u.stack[-1])


@opcode(pickle.TUPLE)
def _tuple(u: WeightsUnpickler) -> None:
    items = u.since_mark()
    u.stack.append(tuple(items))


def last(u: WeightsUnpickler, count: int) -> list[Any]:
    """Pop the last `count` items."""
    if len(u.stack) < count:
        raise UnpicklingError("unexpected empty stack")
    items = u.stack[-count:]
    del u.stack[-count:]
    return items


def _push_tuple(count: int) -> Operation:
    return lambda u: u.stack.append(tuple(last(u, count)))


for _count, _code in enumerate((pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3), 1):
    opcode(_code)(_push_tuple(_count))


@opcode(pickle.LIST)
def _list(u: WeightsUnpickler) -> None:
    items = u.since_mark()
    u.stack.append(items)


@opcode(pickle.DICT)
def _dict(u: WeightsUnpickler) -> None:
    result: dict[Any, Any] = {}
    items = u.since_mark()
    _set_items(result, items)
    u.stack.append(result)


@opcode(pickle.FROZENSET)
def _frozen(u: WeightsUnpickler) -> None:
    items = u.since_mark()
    u.stack.append(_frozenset(items))


@opcode(pickle.APPEND)
def _append(u: WeightsUnpickler) -> None:
    _extend(u, [u.stack.pop()])


@opcode(pickle.APPENDS)
def _appends(u: WeightsUnpickler) -> None:
    _extend(u, u.since_mark())


def _extend(u: WeightsUnpickler, items: list[Any]) -> None:
    target = u.stack[-1]
    if type(target) is not list:
        raise UnpicklingError(f"Can only append to lists, but got {type(target)}")
    target.extend(items)


@opcode(pickle.ADDITEMS)
def _add_items(u: WeightsUnpickler) -> None:
    items, target = u.since_mark(), u.stack[-1]
    if type(target) is not set:
        raise UnpicklingError(f"Can only add to sets, but got {type(target)}")
    target.update(check_keys(items))


@opcode(pickle.SETITEM)
def _set_item(u: WeightsUnpickler) -> None:
    pair = last(u, 2)
    _set_items(u.stack[-1], pair)


@opcode(pickle.SETITEMS)
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
        target[key if type(key) in (str, int) else check_key(key)] = value


# ------------------------------------------------------------------------------ the memo


@opcode(pickle.BINPUT)
def _put1(u: WeightsUnpickler) -> None:
    u.memo[u.number("<B")] = u.stack[-1]


@opcode(pickle.LONG_BINPUT)
def _put4(u: WeightsUnpickler) -> None:
    u.memo[u.number("<I")] = u.stack[-1]


@opcode(pickle.PUT)
def _write_memo(u: WeightsUnpickler) -> None:
    u.memo[_parse_integer(u.line())] = u.stack[-1]


@opcode(pickle.MEMOIZE)
def _memoize(u: WeightsUnpickler) -> None:
    u.memo[len(u.memo)] = u.stack[-1]


@opcode(pickle.BINGET)
def _get1(u: WeightsUnpickler) -> None:
    u.stack.append(u.memo[u.number("<B")])


@opcode(pickle.LONG_BINGET)
def _get4(u: WeightsUnpickler) -> None:
    u.stack.append(u.memo[u.number("<I")])


@opcode(pickle.GET)
def _get(u: WeightsUnpickler) -> None:
    u.stack.append(u.memo[_parse_integer(u.line())])
