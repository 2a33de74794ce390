"""Precedent: what calls of a step do, as text: a call that does the same is the same to a program.

One recording does not show what changes from call to call; two do. That two of them agreed, and
that their program was right, is kept on disk: with it the next process needs to run no operator to
know what its first call does (deferred.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from ...native.foundation import disk_cache
from ...native.runtime.thread_pool import threads
from ...native.target.machine import host, llvm_version
from ...nn.module import Module
from ...nn.parameter import is_lazy
from ...optim import Optimizer
from ...tensor.devices import device
from ...tensor.dtypes import FROM_NUMPY, dtype
from ...tensor.random.generator import Generator
from ...tensor.layout import layout, memory_format
from ...tensor.tensor import Tensor
from .counter_rng import CounterDraw
from ..schedule.program_table import hash_compiler_sources, hash_library_sources
from .trace import CALL, CONSTANT, EXCHANGE, WINDOW, Event, Storage, Trace, Value

_VERSION = "5"
_SINGLE = (type(None), type(Ellipsis), bool, int, float, complex, str, bytes)
_SHOWN = (np.dtype, dtype, device, layout, memory_format)  # which repr says all about
Geometry = tuple[tuple[int, ...], tuple[int, ...], np.dtype]  # shape, strides, dtype


class _Unnamed(Exception):
    """Something that has no name which holds in another process."""


@dataclass
class Precedent:
    """`given`: each event and what it takes; `found`: what came of it. `results`: the windows that
    operators give, `forms`: as a tuple or not, and which are parts of other arrays."""

    head: list[str] = field(default_factory=list)
    storages: list[str] = field(default_factory=list)
    wholes: list[Geometry] = field(default_factory=list)  # of the storages
    given: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    results: list[tuple[Value | None, ...]] = field(default_factory=list)
    forms: list[tuple[bool, tuple[bool, ...]]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # whose code ran, with their contents
    start: int = 1  # the call that was the first to have a program's results
    arena: int = 0  # bytes that the program works in
    table: str | None = None  # under which its table is kept
    recipe: list | None = None  # what binds it (recipe.py)

    def is_followed(self, trace: Trace) -> bool:
        """Whether a whole call did the same."""
        try:
            return (
                len(trace.events) == len(self.given) and trace.backward is None
                and not trace.problems and _head(trace) == self.head
                and [_storage(storage) for storage in trace.storages] == self.storages
            )
        except _Unnamed:
            return False

    def agrees(self, trace: Trace) -> bool:
        """The same, with a look at each event."""
        if not self.is_followed(trace):
            return False
        try:
            return all(
                self.given[i] == given(event, trace) and self.found[i] == found(event, trace)
                for i, event in enumerate(trace.events)
            )
        except _Unnamed:
            return False

    def has(self, at: int, event: Event, trace: Trace) -> bool:
        """Whether an event with this number takes the same; False where that cannot be said."""
        try:
            return at < len(self.given) and self.given[at] == given(event, trace)
        except _Unnamed:
            return False

    def gives(self, at: int, event: Event, trace: Trace) -> bool:
        """Whether the same came of it."""
        try:
            return self.found[at] == found(event, trace)
        except _Unnamed:
            return False


def precedent(trace: Trace, function: Callable) -> Precedent | None:
    """What a call did; None where there are no words for it. Before the trace is stripped."""
    if trace.problems or trace.backward is not None:
        return None
    if any(event.kind in (CALL, EXCHANGE, WINDOW) for event in trace.events):
        return None
    try:
        files = {event.line.rpartition(":")[0] for event in trace.events if event.line}
        files.add(_file_of(function))
        return Precedent(
            _head(trace),
            [_storage(storage) for storage in trace.storages],
            [
                (storage.whole.shape, storage.whole.strides, storage.whole.dtype)
                for storage in trace.storages
            ],
            [given(event, trace) for event in trace.events],
            [found(event, trace) for event in trace.events],
            [event.results for event in trace.events],
            [event.form for event in trace.events],
            {name: _contents(name) for name in sorted(files)},
        )
    except (_Unnamed, OSError):
        return None


# ------------------------------------------------------------------------------- on disk


def place(function: Callable, args: tuple, kwargs: dict[str, Any], modes: tuple,
          roots: Sequence[Module], options: dict[str, Any]) -> str | None:
    """The key under which it is kept what such a call does; None for those that have no name.

    `roots`: the modules that the function's names stand for.
    """
    hope = _hope(function)
    if hope is None:
        return None
    try:
        form = [_argument(args), _argument(kwargs), repr(modes)]
    except _Unnamed:
        return None
    tensors = [t for root in roots for t in (*root.parameters(), *root.buffers())]
    form += ["lazy" if is_lazy(t) else f"{t._array.shape}{t._array.dtype}" for t in tensors]
    form += [repr([m.training for root in roots for m in root.modules()])]
    form += [f"{options['random']} {options['backend']}"]
    return disk_cache.make_key("precedent", hope, *form)


def kept(key: str | None) -> Precedent | None:
    """What a call of an earlier process did, whose program was right; None where none is known or
    a file whose code ran is another now."""
    data = None if key is None else disk_cache.get(key)
    if data is None:
        return None
    result = _unpacked(data)
    try:
        same = all(_contents(name) == text for name, text in result.files.items())
    except OSError:
        return None
    return result if same else None


def keep(key: str | None, made: Precedent) -> None:
    """Two calls did this, and their program was right."""
    if key is not None:
        disk_cache.put(key, _packed(made))


def _hope(function: Callable) -> str | None:
    """All that a function's precedents depend on, but for its arguments."""
    sources, bodies = hash_compiler_sources(), hash_library_sources()
    if sources is None or bodies is None:
        return None
    target = host()
    try:
        name, code = _file_of(function), _code_of(function)
        where = f"{code.co_qualname} {code.co_firstlineno}"
        return disk_cache.make_key(
            "hope",
            _VERSION,
            sources,
            bodies,
            np.__version__,
            llvm_version(),
            target.triple,
            target.cpu,
            target.features,
            str(threads()),
            name,
            _contents(name),
            where,
        )
    except (_Unnamed, OSError):
        return None


def _packed(result: Precedent) -> bytes:
    return json.dumps(
        [
            result.head,
            result.storages,
            [_plain(*whole) for whole in result.wholes],
            result.given,
            result.found,
            [
                [
                    None
                    if v is None
                    else [v.storage, v.offset, *_plain(v.shape, v.strides, v.dtype)]
                    for v in item
                ]
                for item in result.results
            ],
            result.forms,
            result.files,
            result.start,
            result.arena,
            result.table,
            result.recipe,
        ],
        separators=(",", ":"),
    ).encode()


def _plain(shape: tuple, strides: tuple, kind: np.dtype) -> list:
    return [list(shape), list(strides), str(kind)]


def _unpacked(data: bytes) -> Precedent:
    head, storages, wholes, takes, gives, results, forms, files, *rest = json.loads(data)
    kinds = {str(item): item for item in FROM_NUMPY}
    return Precedent(
        head, storages, [(tuple(a), tuple(b), kinds.get(c) or np.dtype(c)) for a, b, c in wholes],
        takes, gives,
        [tuple(None if v is None else
               Value(v[0], v[1], tuple(v[2]), tuple(v[3]), kinds.get(v[4]) or np.dtype(v[4]))
               for v in result) for result in results],
        [(many, tuple(parts)) for many, parts in forms], files, *rest,
    )


# ------------------------------------------------------------------------------- as text


def _code_of(function: Any) -> Any:
    function = getattr(function, "__func__", getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(type(function).__call__, "__code__", None)
    if code is None:
        raise _Unnamed(function)
    return code


def _file_of(function: Any) -> str:
    return str(_code_of(function).co_filename)


def _contents(name: str) -> str:
    with open(name, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _argument(x: Any) -> str:
    """An argument: for tensors and arrays how they lie."""
    kind = x.__class__
    if isinstance(x, Tensor):
        return f"{kind.__qualname__}{_argument(x._array)}{bool(x.requires_grad)}"
    if isinstance(x, np.ndarray):
        return f"{x.shape}{x.strides}{x.dtype}"
    if isinstance(x, (tuple, list)):
        return f"{kind.__qualname__}({','.join(map(_argument, x))})"
    if kind is dict:
        return f"dict({','.join(f'{_argument(k)}:{_argument(v)}' for k, v in x.items())})"
    if kind in _SINGLE:
        return repr(x)
    raise _Unnamed(kind)


def _head(trace: Trace) -> list[str]:
    """What there is to compare beside events and memory."""
    return [
        str(trace.modes), _text(tuple(trace.plain), trace),
        *(f"effect {effect.name} {_text(effect.key, trace)}" for effect in trace.effects),
        *(f"call {call.line} {call.updates}" for call in trace.host_calls),
    ]


def _storage(single: Storage) -> str:
    """What comparing looks at: memory of the call's own may be reused or not."""
    if not single.external:
        return "own"
    return f"{single.name} {single.whole.shape} {single.whole.strides} {single.whole.dtype}"


def given(event: Event, trace: Trace) -> str:
    """An event and what it takes."""
    name = _function(event.function) if event.operator is None else event.operator.name
    return f"{event.kind} {name} {_text(event.args, trace)} {_text(event.kwargs, trace)}"


def found(event: Event, trace: Trace) -> str:
    """What came of it."""
    result = event.array if event.kind == CONSTANT else None
    parts = (event.results, event.written, result)
    return " ".join([_text(x, trace) for x in parts])


def _function(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, CounterDraw):
        return repr(x)
    name = getattr(x, "__qualname__", None)
    if name is None or "<lambda>" in name:
        raise _Unnamed(x)
    return f"{x.__module__}.{name}"


def _text(x: Any, trace: Trace) -> str:
    """A value as text, the same for what comparing takes for the same."""
    kind = x.__class__
    if kind is Value:
        at = x.offset - trace.storages[x.storage].argument_offset
        return f"#{x.storage}+{at}{x.shape}{x.strides}{_names[x.dtype]}"
    if kind in _SINGLE:
        return repr(x)
    if isinstance(x, (tuple, list)):
        return f"{kind.__name__}({','.join([_text(item, trace) for item in x])})"
    if kind is dict:
        return f"dict({','.join(f'{_text(k, trace)}:{_text(v, trace)}' for k, v in x.items())})"
    if kind is slice:
        return f"slice{_text((x.start, x.stop, x.step), trace)}"
    if isinstance(x, Enum):
        return f"{kind.__name__}.{x.name}"
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufcV":
        data = np.ascontiguousarray(x).tobytes()
        return f"{kind.__name__}{x.dtype}{x.shape}{hashlib.sha256(data).hexdigest()}"
    if isinstance(x, (Optimizer, Generator)):
        return kind.__qualname__
    if isinstance(x, _SHOWN):
        return repr(x)
    return _function(x)


class _Names(dict[np.dtype, str]):
    """NumPy needs 3 us to say what a dtype is called."""

    def __missing__(self, kind: np.dtype) -> str:
        self[kind] = str(kind)
        return self[kind]


_names = _Names()
