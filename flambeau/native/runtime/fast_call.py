"""Kernel calls from Python at the cost of a built-in function, a tenth of a ctypes call's.

`FastCalls.call` and the function behind `call_on_threads` are built-in functions compiled from
LLVM IR. They take NumPy arrays and integers, and pass the kernel an array of 64-bit cells: the
arrays' addresses and the integers. If CPython's object layout is unknown, ctypes is used instead.
"""

from __future__ import annotations

import ctypes
import string
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..target.eager_costs import MAX_SINGLE_THREAD_ELEMENTS
from . import thread_pool_ir
from .thread_pool import POOL
from .thread_pool import run as run_cells

# %self is the ndarray class. Every argument that is not an array must be an integer.
_IR_TEMPLATE = string.Template("""
@PyLong_Type = external global i8
@_Py_NoneStruct = external global i8
@PyExc_TypeError = external global ptr
@message = private constant [52 x i8] c"A kernel takes arrays and 64-bit integers, not a %s\\00"
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)

define internal i1 @pack(ptr %arrays, ptr %args, i64 %count, ptr %cells) alwaysinline {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %one, label %good
one:
  %i = phi i64 [0, %entry], [%i_next, %keep]
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at
  %class_at = getelementptr i8, ptr %arg, i64 $class_offset
  %class = load ptr, ptr %class_at
  %is_array = icmp eq ptr %class, %arrays
  br i1 %is_array, label %array, label %other
array:
  %data_at = getelementptr i8, ptr %arg, i64 $data_offset
  %data = load i64, ptr %data_at
  br label %keep
other:
  %is_number = icmp eq ptr %class, @PyLong_Type
  br i1 %is_number, label %number, label %wrong
wrong:
  %name_at = getelementptr i8, ptr %class, i64 $name_offset
  %name = load ptr, ptr %name_at
  %error = load ptr, ptr @PyExc_TypeError
  %null = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %error, ptr @message, ptr %name)
  br label %bad
number:
  %value = call i64 @PyLong_AsLongLong(ptr %arg)
  %odd = icmp eq i64 %value, -1
  br i1 %odd, label %look, label %keep
look:
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %keep, label %bad
keep:
  %cell = phi i64 [%data, %array], [%value, %number], [-1, %look]
  %cell_at = getelementptr i64, ptr %cells, i64 %i
  store i64 %cell, ptr %cell_at
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %one, label %good
good:
  ret i1 true
bad:
  ret i1 false
}

define ptr @call_on_this_thread(ptr %self, ptr %args, i64 %count) {
  %cells = alloca i64, i64 %count
  %good = call i1 @pack(ptr %self, ptr %args, i64 %count, ptr %cells)
  br i1 %good, label %run, label %bad
run:
  %function = load ptr, ptr %cells
  %own = getelementptr i64, ptr %cells, i64 1
  call void %function(i64 0, i64 1, ptr %own)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
bad:
  ret ptr null
}

define ptr @write_cells(ptr %self, ptr %args, i64 %count) {
  %first = alloca i64, i64 1
  %more = icmp sgt i64 %count, 0
  %one = zext i1 %more to i64
  %known = call i1 @pack(ptr %self, ptr %args, i64 %one, ptr %first)
  br i1 %known, label %fill, label %bad
fill:
  %target = load ptr, ptr %first
  %rest = getelementptr ptr, ptr %args, i64 1
  %left = sub i64 %count, 1
  %good = call i1 @pack(ptr %self, ptr %rest, i64 %left, ptr %target)
  br i1 %good, label %done, label %bad
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
bad:
  ret ptr null
}

define ptr @call_on_pool(ptr %self, ptr %args, i64 %count) {
  %cells = alloca i64, i64 %count
  %good = call i1 @pack(ptr %self, ptr %args, i64 %count, ptr %cells)
  br i1 %good, label %run, label %bad
run:
  %state = load ptr, ptr %cells
  %launch_at = getelementptr i64, ptr %cells, i64 1
  %launch = load ptr, ptr %launch_at
  %function_at = getelementptr i64, ptr %cells, i64 2
  %function = load ptr, ptr %function_at
  %own = getelementptr i64, ptr %cells, i64 3
  %last = sub i64 %count, 1
  %threads_at = getelementptr i64, ptr %cells, i64 %last
  %threads = load i64, ptr %threads_at
  %lock = call ptr @PyEval_SaveThread()
  call void %launch(ptr %state, ptr %function, ptr %own, i64 %threads)
  call void @PyEval_RestoreThread(ptr %lock)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
bad:
  ret ptr null
}
""")
_FASTCALL = 0x80  # METH_FASTCALL
_SYMBOLS = ("PyLong_Type", "_Py_NoneStruct", "PyExc_TypeError")


class MethodDefinition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def _probe_array_layout() -> tuple[int, int] | None:
    """Return the offsets of an array's class and data pointer, or None if they are not found."""
    head, probe = object.__basicsize__, np.zeros(3)
    for place in range(0, head, 8):
        if ctypes.c_void_p.from_address(id(probe) + place).value == id(np.ndarray):
            data = ctypes.c_void_p.from_address(id(probe) + head).value
            return (place, head) if data == probe.ctypes.data else None
    return None


_ARRAY_LAYOUT = _probe_array_layout()


def data_address(array: np.ndarray) -> int:
    """Return the address of an array's first element, ten times faster than NumPy's accessors."""
    if _ARRAY_LAYOUT is None:
        return int(array.ctypes.data)
    return ctypes.c_void_p.from_address(id(array) + _ARRAY_LAYOUT[1]).value or 0


def _write_ir() -> str | None:
    """Return the LLVM IR for this interpreter, or None if its object layout is unknown."""
    if sys.implementation.name != "cpython":
        return None
    try:
        for name in _SYMBOLS:
            ctypes.c_char.in_dll(ctypes.pythonapi, name)
    except (AttributeError, ValueError):
        return None
    layout = _probe_array_layout()
    if layout is None:
        return None
    name_offset = object.__basicsize__ + 8  # tp_name follows the object head and ob_size
    return _IR_TEMPLATE.substitute(
        class_offset=layout[0], data_offset=layout[1], name_offset=name_offset)


_owners: list[Any] = []  # keeps each definition alive as long as its function


def _make_builtin(name: bytes, address: int) -> Callable[..., None]:
    definition = MethodDefinition(name, address, _FASTCALL, None)
    _owners.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(definition), np.ndarray, None)


class _Builtins(NamedTuple):
    """The built-in functions, or their replacements by ctypes."""

    call_on_this_thread: Callable[..., None]
    call_on_pool: Callable[..., None] | None  # None with ctypes
    write_cells: Callable[..., None]


@cache
def _load_builtins() -> _Builtins:
    from ..jit.elf_loader import load

    by_ctypes = _Builtins(_call_with_ctypes, None, _write_with_ctypes)
    text = _write_ir()
    if text is None:
        return by_ctypes
    try:
        addresses = load(text, _Builtins._fields)
    except RuntimeError:
        return by_ctypes
    return _Builtins(*[_make_builtin(name.encode(), addresses[name]) for name in _Builtins._fields])


class FastCalls:
    """`FastCalls.call(kernel, *arguments)` calls a kernel by address on this thread.

    It holds the interpreter lock, so use it for a few microseconds of work.
    `FastCalls.write_cells(address, *arguments)` only writes the cells to an address. Raises
    TypeError for an argument that is neither an integer nor an ndarray (subclasses are refused).
    """

    @staticmethod
    def call(kernel: int, *arguments: Any) -> None:
        """Load the built-in function, which replaces this one, and call it."""
        FastCalls.call = _load_builtins().call_on_this_thread
        FastCalls.call(kernel, *arguments)

    @staticmethod
    def write_cells(address: int, *arguments: Any) -> None:
        """Load the built-in function, which replaces this one, and call it."""
        FastCalls.write_cells = _load_builtins().write_cells
        FastCalls.write_cells(address, *arguments)


def call_on_threads(kernel: int, *arguments: Any, threads: int = 0) -> None:
    """Call a kernel on `threads` threads (0: the whole pool), releasing the interpreter lock."""
    call = _load_builtins().call_on_pool
    count = threads or POOL.threads()
    if call is None:
        _call_with_ctypes(kernel, *arguments, threads=count)
        return
    start = thread_pool_ir.load_runtime()["launch"]
    if count == 1:
        call(0, start, kernel, *arguments, 1)
    else:
        POOL.call(call, count, start, kernel, *arguments)


def call_kernel(kernel: int, work: int, *arguments: Any) -> None:
    """Call a kernel: on this thread up to MAX_SINGLE_THREAD_ELEMENTS of work, else on the pool."""
    if work > MAX_SINGLE_THREAD_ELEMENTS:
        call_on_threads(kernel, *arguments)
    else:
        FastCalls.call(kernel, *arguments)


def _pack_arguments(arguments: tuple) -> ctypes.Array:
    values = [a.__array_interface__["data"][0] if a.__class__ is np.ndarray else a
              for a in arguments]
    if any(v.__class__ is not int for v in values):
        raise TypeError("A kernel takes arrays and 64-bit integers")
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def _call_with_ctypes(kernel: int, *arguments: Any, threads: int = 1) -> None:
    cells = _pack_arguments(arguments)
    run_cells(kernel, ctypes.addressof(cells), threads)


def _write_with_ctypes(address: int, *arguments: Any) -> None:
    ctypes.memmove(address, _pack_arguments(arguments), 8 * len(arguments))
