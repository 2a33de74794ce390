"""Frameless calls: a method in machine code that calls a function between steps of Python.

A function called from Python code has that code's frame as its caller's. A function called by a
class with `install` has the frame that calls the object: `sys._getframe(1)`, `stacklevel` and
tracebacks show what they would show had the function been called itself.

The object's `_flambeau_serve(args, kwargs)` returns the result, or DIRECT to have its
`_flambeau_function` called, or MISS. After MISS, `_flambeau_steps(args, kwargs)` returns a
generator: it yields calls as (function, args, kwargs), gets what they return, and returns the
result. What they raise arrives as a `StepError`, because a generator cannot pass on StopIteration.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from ..foundation.transparent_frames import skip_in_stacks
from .fast_call import MethodDefinition

MISS = object()  # nothing applied, and nothing ran
DIRECT = object()  # call the function itself, with nothing before or after it
Request = tuple[Callable[..., Any], tuple, dict[str, Any]]
Steps = Generator[Request, Any, Any]

# Parts: the three names, MISS, DIRECT and `_clean_up`.
_IR = """
@parts = global [6 x ptr] zeroinitializer
@_Py_NoneStruct = external global i8
declare ptr @PyDict_New()
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i32 @PyIter_Send(ptr, ptr, ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare ptr @PyException_GetTraceback(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

define void @set_part(i64 %place, ptr %part) {
  %at = getelementptr ptr, ptr @parts, i64 %place
  store ptr %part, ptr %at
  ret void
}

define internal ptr @part(i64 %place) alwaysinline {
  %at = getelementptr ptr, ptr @parts, i64 %place
  %part = load ptr, ptr %at
  ret ptr %part
}

; The error as an exception with its traceback; no error is set any more.
define internal ptr @take_error() {
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  call void @PyErr_NormalizeException(ptr %type, ptr %value, ptr %trace)
  %error = load ptr, ptr %value
  %lines = load ptr, ptr %trace
  %any = icmp ne ptr %lines, null
  br i1 %any, label %set, label %done
set:
  %ignored = call i32 @PyException_SetTraceback(ptr %error, ptr %lines)
  br label %done
done:
  call void @Py_DecRef(ptr %lines)
  %kind = load ptr, ptr %type
  call void @Py_DecRef(ptr %kind)
  ret ptr %error
}

define internal void @raise(ptr %error) {
  %type = call ptr @PyObject_Type(ptr %error)
  %trace = call ptr @PyException_GetTraceback(ptr %error)
  call void @Py_IncRef(ptr %error)
  call void @PyErr_Restore(ptr %type, ptr %error, ptr %trace)
  ret void
}

; Drives the generator to its result.
define internal ptr @run_steps(ptr %steps) {
entry:
  %out = alloca ptr
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %send
send:
  %sent = phi ptr [@_Py_NoneStruct, %entry], [%returned, %good]
  store ptr null, ptr %out
  %state = call i32 @PyIter_Send(ptr %steps, ptr %sent, ptr %out)
  %request = load ptr, ptr %out
  call void @Py_DecRef(ptr %sent)
  %more = icmp eq i32 %state, 1
  br i1 %more, label %call, label %end
call:
  %function = call ptr @PyTuple_GetItem(ptr %request, i64 0)
  %args = call ptr @PyTuple_GetItem(ptr %request, i64 1)
  %kwargs = call ptr @PyTuple_GetItem(ptr %request, i64 2)
  %returned = call ptr @PyObject_Call(ptr %function, ptr %args, ptr %kwargs)
  call void @Py_DecRef(ptr %request)
  %fine = icmp ne ptr %returned, null
  br i1 %fine, label %good, label %bad
good:
  br label %send
bad:
  %error = call ptr @take_error()
  %clean_up = call ptr @part(i64 5)
  %raised = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
    ptr %clean_up, ptr %steps, ptr %error, ptr null)
  call void @Py_DecRef(ptr %error)
  %cleaned = icmp ne ptr %raised, null
  br i1 %cleaned, label %raise, label %failed
raise:
  call void @raise(ptr %raised)
  call void @Py_DecRef(ptr %raised)
  br label %failed
failed:
  ret ptr null
end:
  ret ptr %request
}

define ptr @call_frameless(ptr %self, ptr %args, ptr %named) {
entry:
  %without = icmp eq ptr %named, null
  br i1 %without, label %new, label %own
new:
  %empty = call ptr @PyDict_New()
  %created = icmp ne ptr %empty, null
  br i1 %created, label %start, label %nothing
nothing:
  ret ptr null
own:
  call void @Py_IncRef(ptr %named)
  br label %start
start:
  %kwargs = phi ptr [%empty, %new], [%named, %own]
  %serve = call ptr @part(i64 0)
  %served = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
    ptr %self, ptr %serve, ptr %args, ptr %kwargs, ptr null)
  %miss = call ptr @part(i64 3)
  %is_miss = icmp eq ptr %served, %miss
  br i1 %is_miss, label %stepwise, label %other
other:
  %direct = call ptr @part(i64 4)
  %is_direct = icmp eq ptr %served, %direct
  br i1 %is_direct, label %directly, label %done
directly:
  call void @Py_DecRef(ptr %served)
  %function_name = call ptr @part(i64 2)
  %function = call ptr @PyObject_GetAttr(ptr %self, ptr %function_name)
  %known = icmp ne ptr %function, null
  br i1 %known, label %call, label %done_null
call:
  %called = call ptr @PyObject_Call(ptr %function, ptr %args, ptr %kwargs)
  call void @Py_DecRef(ptr %function)
  br label %done
stepwise:
  call void @Py_DecRef(ptr %served)
  %steps_name = call ptr @part(i64 1)
  %steps = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
    ptr %self, ptr %steps_name, ptr %args, ptr %kwargs, ptr null)
  %begun = icmp ne ptr %steps, null
  br i1 %begun, label %drive, label %done_null
drive:
  %ran = call ptr @run_steps(ptr %steps)
  call void @Py_DecRef(ptr %steps)
  br label %done
done_null:
  br label %done
done:
  %result = phi ptr [%served, %other], [%called, %call], [%ran, %drive], [null, %done_null]
  call void @Py_DecRef(ptr %kwargs)
  ret ptr %result
}
"""
_NAMES = ("_flambeau_serve", "_flambeau_steps", "_flambeau_function")
_DOC = b"__call__($self, /, *args, **kwargs)\n--\n\nCall the function, compiled if possible."


class StepError(BaseException):
    """What a requested call raised: `error`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _clean_up(steps: Steps, error: BaseException) -> BaseException:
    """Let a generator clean up after the call that it requested raised an error; return what to
    raise."""
    trace, thrown = error.__traceback__, StepError(error)
    try:
        steps.throw(thrown)
    except BaseException as raised:
        if raised is thrown:
            return error.with_traceback(trace)
        link: BaseException | None = raised
        while link is not None and link.__context__ is not thrown:
            link = link.__context__
        if link is not None:
            link.__context__ = error
        own = raised.__traceback__
        return raised.with_traceback(None if own is None else own.tb_next)
    raise RuntimeError("steps end when a call that they request raises")


@skip_in_stacks
def run_steps(steps: Steps) -> Any:
    """Drive a generator to its result in Python: the called functions see this frame."""
    value = None
    while True:
        try:
            function, args, kwargs = steps.send(value)
        except StopIteration as stop:
            return stop.value
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            raised = _clean_up(steps, error)
            if raised is error:
                raise
            raise raised from raised.__cause__


_PARTS = (*_NAMES, MISS, DIRECT, _clean_up)


@cache
def _load_definition() -> MethodDefinition | None:
    """Load the machine code and return its definition as a method; None without CPython."""
    from ..jit.elf_loader import load

    if sys.implementation.name != "cpython":
        return None
    try:
        addresses = load(_IR, ("set_part", "call_frameless"))
    except RuntimeError:
        return None
    set_part = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.py_object)(addresses["set_part"])
    for place, part in enumerate(_PARTS):
        set_part(place, part)
    takes_any = 0x1 | 0x2  # METH_VARARGS | METH_KEYWORDS
    return MethodDefinition(b"__call__", addresses["call_frameless"], takes_any, _DOC)


def install(owner: type) -> None:
    """Replace a class's `__call__`, which is `call_in_python`, by the machine code."""
    definition = _load_definition()
    if definition is not None:
        create = ctypes.pythonapi.PyDescr_NewMethod
        create.restype, create.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
        owner.__call__ = create(owner, ctypes.addressof(definition))


@skip_in_stacks
def call_in_python(target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Do what a frameless call does, with frames between."""
    result = target._flambeau_serve(args, kwargs)
    if result is DIRECT:
        return target._flambeau_function(*args, **kwargs)
    if result is MISS:
        return run_steps(target._flambeau_steps(args, kwargs))
    return result
