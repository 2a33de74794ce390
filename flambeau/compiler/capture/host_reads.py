"""Reads: numbers that a step takes out of tensors and only hands on, as in `return loss.item()`.

While a step is recorded, `item()` gives a `Number` where the step's source shows that it goes
nowhere but into what the step returns, or into an attribute, name or list that the step does not
look at: `self.total += loss.item()`. Plain arithmetic may be on the way. A program works such
numbers out after its run, from outputs.
"""

from __future__ import annotations

import ast
import gc
import linecache
import operator
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ...native.foundation.source_hash import PACKAGE
from ...tensor.tensor import Tensor

if TYPE_CHECKING:
    from .recorder import Recorder

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_COMPILER = os.path.join(PACKAGE, "compiler", "")
_LOOKS = frozenset(("locals", "vars", "eval", "exec", "dir"))  # which see names of a function


class Read(NamedTuple):
    """A number that a step returns or stores: read from a tensor, or computed from two numbers.

    `operation`: "item", or a key of OPERATIONS. `left` is a Tensor for "item"; else both are Reads
    or plain numbers.
    """

    operation: str
    left: Any
    right: Any = None


@dataclass(frozen=True, eq=False)
class Old:
    """The number in a dict or cell before a step adds to it."""

    place: Any
    key: Any


class Number:
    """Stands for a number that a recorded step only hands on.

    Any other use of it uses its value, and is a reason not to compile the step.
    """

    __array_ufunc__ = None  # NumPy leaves arithmetic to it
    __slots__ = ("__weakref__", "added", "read", "recorder", "value")

    def __init__(self, value: Any, read: Read, recorder: Recorder, added: bool = False) -> None:
        """`added`: the step adds it to a number that is stored outside."""
        self.value, self.read, self.recorder, self.added = value, read, recorder, added
        recorder.numbers.append(weakref.ref(self))

    def _used(self) -> Any:
        self.recorder.problem("item() reads a tensor's values in Python")
        return self.value

    def __float__(self) -> float:
        return float(self._used())

    def __index__(self) -> int:
        return operator.index(self._used())

    def __bool__(self) -> bool:
        return bool(self._used())

    def __repr__(self) -> str:
        return repr(self._used())

    def __format__(self, spec: str) -> str:
        return format(self._used(), spec)

    def __eq__(self, other: object) -> bool:
        return bool(self._used() == plain(other))

    def __hash__(self) -> int:
        return hash(self._used())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._used(), name)

    def __neg__(self) -> Any:
        return _combined("-", 0, self) if self.value.__class__ is int else _combined("*", -1, self)


def _combined(symbol: str, a: Any, b: Any) -> Any:
    """The result of an operation on a Number; a plain number unless both operands are numbers."""
    value = OPERATIONS[symbol](plain(a), plain(b))
    single = a if isinstance(a, Number) else b
    if not all(isinstance(x, Number) or x.__class__ in (int, float) for x in (a, b)):
        single._used()
        return value
    sides = [x.read if isinstance(x, Number) else x for x in (a, b)]
    return Number(value, Read(symbol, *sides), single.recorder, single.added)


def _arithmetic() -> None:
    for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/")):

        def forward(self: Any, other: Any, symbol: str = symbol) -> Any:
            return _combined(symbol, self, other)

        def backward(self: Any, other: Any, symbol: str = symbol) -> Any:
            return _combined(symbol, other, self)

        setattr(Number, f"__{name}__", forward)
        setattr(Number, f"__r{name}__", backward)


_arithmetic()


def plain(x: Any) -> Any:
    """A structure with Numbers replaced by their values: what the step's caller gets."""
    return _mapped(x, lambda single: single.value if single.__class__ is Number else single)


def reads(x: Any, floats: Mapping[int, tuple[float, Read]]) -> Any:
    """A structure with Numbers replaced by Reads: what a program must return.

    floats: plain floats that were read from tensors, by id.
    """
    return _mapped(x, lambda single: single.read if single.__class__ is Number else
                   floats[id(single)][1] if id(single) in floats else single)


def kept_read(x: Any, before: Any, place: Any, key: Any) -> Any:
    """A stored structure with Numbers replaced by Reads. `before`: what was stored there."""

    def change(one: Any) -> Any:
        if one.__class__ is not Number:
            return one
        return _with_old(one.read, before, Old(place, key)) if one.added else one.read

    return _mapped(x, change)


def _with_old(read: Any, before: Any, old: Old) -> Any:
    """A sum whose first term is what was stored before, with that term replaced by Old."""
    if read.__class__ is Read and read.operation in "+-":
        return read._replace(left=_with_old(read.left, before, old))
    return old if read is before else read


def put_back(place: Any, key: Any, start: int) -> None:
    """Replace the Numbers in a dict, in a cell or at the end of a list by their values."""
    if isinstance(place, list):
        place[start:] = map(plain, place[start:])
    elif isinstance(place, types.CellType):
        place.cell_contents = plain(place.cell_contents)
    else:
        place[key] = plain(place[key])


def of_numbers(x: Any) -> bool:
    """Whether a structure contains Numbers."""
    return any(leaf.__class__ is Number for leaf in _leaves(x))


def _mapped(x: Any, change: Callable[[Any], Any]) -> Any:
    """A structure with changed leaves; the same object if none changes."""
    if isinstance(x, (tuple, list)):
        result = [_mapped(item, change) for item in x]
        if all(a is b for a, b in zip(x, result, strict=True)):
            return x
        return type(x)(*result) if hasattr(x, "_fields") else x.__class__(result)
    if x.__class__ is dict:
        inner = {key: _mapped(single, change) for key, single in x.items()}
        return x if all(x[key] is single for key, single in inner.items()) else inner
    return change(x)


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (tuple, list)):
        for item in x:
            yield from _leaves(item)
    elif x.__class__ is dict:
        yield from _leaves(list(x.values()))
    else:
        yield x


# --------------------------------------------------------------------------- while recording


def handed_on(r: Recorder, tensor: Tensor, value: Any, exact: bool = False) -> Any:
    """The result of item(): a Number if the step only hands it on, None if it may look at it.

    exact: the caller is float(), which accepts floats only.
    """
    if value.__class__ not in (int, float) or tensor._array.dtype.kind == "V":
        return None
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(("<flambeau", _COMPILER)):
        frame = frame.f_back
    flow = _flow(r.code, frame.f_lasti) if frame is not None and frame.f_code is r.code else None
    if flow is None or flow.exact is not exact or (exact and (flow.changed or flow.outside)):
        return None
    assert r.surroundings is not None
    seen = next((name for name in flow.outside if r.surroundings.looks_at(name, r.code)), None)
    if seen is not None:
        return None
    read = Read("item", tensor.detach().clone())
    if exact:
        r.floats[id(value)] = value, read
        return value
    return Number(value, read, r, flow.added)


def forgotten(numbers: list[weakref.ref[Number]]) -> bool:
    """Whether nothing holds Numbers any more; holders that remain get plain numbers."""
    left = [element for element in (each() for each in numbers) if element is not None]
    for item in left:
        for place in gc.get_referrers(item):
            stored = place if isinstance(place, (dict, list)) else getattr(place, "__dict__", None)
            if stored is left or stored is None:
                continue
            for key, value in list(
                stored.items() if isinstance(stored, dict) else enumerate(stored)
            ):
                if value is item:
                    stored[key] = item.value
    return not left


@lru_cache(maxsize=256)
def _flow(code: types.CodeType, at: int) -> _Flow | None:
    """Where the item() that is called at an instruction goes, where it is only handed on."""
    function = _source(code)
    if function is None:
        return None
    wanted = list(code.co_positions())[at // 2]
    call = next(
        (
            item
            for item in ast.walk(function)
            if isinstance(item, ast.Call)
            and (item.lineno, item.end_lineno, item.col_offset, item.end_col_offset) == wanted
        ),
        None,
    )
    if call is None or _name(call.func) not in ("item", "float"):
        return None
    if any(isinstance(item, (ast.Yield, ast.YieldFrom, ast.Await))
           or (isinstance(item, ast.Name) and item.id in _LOOKS)
           for item in ast.walk(function)):
        return None
    flow = _Flow(function, isinstance(call.func, ast.Name))
    return flow if flow.ends_well(call) and flow.is_unseen() else None


class _Flow:
    """Where a value goes in a function. `outside`: the names of attributes and variables outside
    that it is put under; `added`: it is added to what is there; `changed`: there is arithmetic;
    `exact`: it comes from float()."""

    def __init__(self, function: ast.FunctionDef, exact: bool) -> None:
        self.function, self.exact = function, exact
        self.changed = False
        self.parents = {id(below): item for item in ast.walk(function)
                        for below in ast.iter_child_nodes(item)}
        self.shared = {
            name
            for item in ast.walk(function)
            if isinstance(item, (ast.Global, ast.Nonlocal))
            for name in item.names
        }
        self.names: set[str] = set()  # local ones that are looked at
        self.outside: dict[str, bool] = {}

    @property
    def added(self) -> bool:
        """Whether it is added to numbers outside."""
        return any(self.outside.values())

    def ends_well(self, one: ast.AST) -> bool:
        """Whether an expression's value is handed on, or forgotten, and not looked at."""
        above = self.parents[id(one)]
        self.changed |= isinstance(above, (ast.BinOp, ast.UnaryOp, ast.AugAssign))
        if _hands_up(above, one):
            return self.ends_well(above)
        if isinstance(above, (ast.Return, ast.Expr)):
            return self._scope(above) is self.function
        if isinstance(above, ast.Assign) and len(above.targets) == 1:
            return self._target(above.targets[0], False)
        if isinstance(above, ast.AugAssign) and isinstance(above.op, (ast.Add, ast.Sub)):
            return self._target(above.target, True)
        return self._is_appended(above, one)

    def _scope(self, single: ast.AST) -> ast.AST:
        """The innermost function or class that something stands in."""
        while True:
            single = self.parents[id(single)]
            if isinstance(
                single, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
            ):
                return single

    def _target(self, target: ast.AST, added: bool) -> bool:
        """Whether all that is read from what is assigned to ends well."""
        if not isinstance(target, ast.Name) or target.id in self.shared:
            return self._put(target, added)
        if target.id in self.names:
            return True
        self.names.add(target.id)
        result = [item for item in ast.walk(self.function)
                 if isinstance(item, ast.Name) and item.id == target.id]
        return all(self._scope(item) is self.function for item in result) and all(
            self.ends_well(item) for item in result if isinstance(item.ctx, ast.Load)
        )

    def _is_appended(self, call: ast.AST, single: ast.AST) -> bool:
        """Whether it is added to the end of a list."""
        if not isinstance(call, ast.Call) or len(call.args) != 1 or call.args[0] is not single:
            return False
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "append" or call.keywords:
            return False
        return isinstance(self.parents[id(call)], ast.Expr) and self._put(call.func.value, False)

    def _put(self, place: ast.AST, added: bool) -> bool:
        """Note a place outside: the one way in which the value may go there."""
        if isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
            place = place.value
        name = _name(place)
        if name is None or self.outside.setdefault(name, added) is not added:
            return False
        return added is self.added

    def is_unseen(self) -> bool:
        """Whether the function does nothing else with the places outside."""
        for item in ast.walk(self.function):
            name = _name(item)
            if name in self.outside and not self._is_put(item, self.outside[name]):
                return False
        return True

    def _is_put(self, single: ast.AST, added: bool) -> bool:
        above = self.parents[id(single)]
        if isinstance(above, ast.Subscript) and above.value is single:
            single, above = above, self.parents[id(above)]
        if isinstance(above, ast.AugAssign):
            return added and above.target is single
        if isinstance(above, ast.Assign):
            return not added and any(target is single for target in above.targets)
        return not added and isinstance(above, ast.Attribute) and above.attr == "append"


def _hands_up(above: ast.AST, single: ast.AST) -> bool:
    """Whether an expression's value is that of a part of it, or worked out from it."""
    if isinstance(above, ast.BinOp):
        return isinstance(above.op, _ARITHMETIC)
    if isinstance(above, ast.UnaryOp):
        return isinstance(above.op, ast.USub)
    if isinstance(above, ast.IfExp):
        return above.test is not single
    if isinstance(above, ast.Dict):
        return all(key is not single for key in above.keys)
    return isinstance(above, (ast.Tuple, ast.List)) and isinstance(above.ctx, ast.Load)


def _name(single: ast.AST) -> str | None:
    """The name of a variable or an attribute."""
    if isinstance(single, ast.Attribute):
        return single.attr
    return single.id if isinstance(single, ast.Name) else None


@lru_cache(maxsize=64)
def _source(code: types.CodeType) -> ast.FunctionDef | None:
    """The source of a function, when the file still says what the code does."""
    if not hasattr(code, "co_positions"):
        return None
    text = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(text)
        result = compile(text, code.co_filename, "exec")
    except (SyntaxError, ValueError):
        return None
    known = any(_same_code(element, code) for element in _codes(result))
    for item in ast.walk(tree):
        if isinstance(item, ast.FunctionDef) and item.name == code.co_name:
            first = min([item.lineno, *(d.lineno for d in item.decorator_list)])
            if first == code.co_firstlineno and known:
                return item
    return None


def _same_code(single: types.CodeType, code: types.CodeType) -> bool:
    same = single.co_name == code.co_name and single.co_firstlineno == code.co_firstlineno
    return same and single.co_code == code.co_code and single.co_names == code.co_names


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)
