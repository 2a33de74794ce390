"""TraceSignature: the text of a step's trace, stored on disk.

A call is stored if it was proved and its program passed the self-check. The next process compares
its first call with the signature event by event, so it can use the program without having executed
any operator (capture/lazy_call.py).
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
from ...tensor.layout import layout, memory_format
from ...tensor.random.generator import Generator
from ...tensor.tensor import Tensor
from ..ir.source_hashes import hash_compiler_sources, hash_library_sources
from .counter_rng import CounterDraw
from .number_inputs import NumberInput
from .operands import read_flags
from .trace import CALL, CONSTANT, EXCHANGE, WINDOW, Event, Storage, Trace, Value

_VERSION = "5"
_LITERALS = (type(None), type(Ellipsis), bool, int, float, complex, str, bytes)
_DESCRIBED_BY_REPR = (np.dtype, dtype, device, layout, memory_format)  # repr describes them fully
Geometry = tuple[tuple[int, ...], tuple[int, ...], np.dtype]  # shape, strides, dtype


class _Undescribable(Exception):
    """A value that has no description valid in other processes."""


@dataclass
class TraceSignature:
    """`inputs`: each event and its operands; `outputs`: its results. `results`: windows that
    operators return; `forms`: whether as a tuple, and which are parts of other arrays."""

    head: list[str] = field(default_factory=list)
    storages: list[str] = field(default_factory=list)
    wholes: list[Geometry] = field(default_factory=list)  # of the storages
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    results: list[tuple[Value | None, ...]] = field(default_factory=list)
    forms: list[tuple[bool, tuple[bool, ...]]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # files whose code ran -> content hash
    start: int = 1  # the first call that got a program's results
    arena: int = 0  # bytes of the program's arena
    table: str | None = None  # cache key of its table
    manifest: list | None = None  # how to bind it (driver/binding_manifest.py)

    def matches_outline(self, trace: Trace) -> bool:
        """Whether a call has the same events, header and storages, by count and description."""
        try:
            return (
                len(trace.events) == len(self.inputs) and trace.backward is None
                and not trace.problems and _describe_header(trace) == self.head
                and [_describe_storage(storage) for storage in trace.storages] == self.storages
            )
        except _Undescribable:
            return False

    def matches(self, trace: Trace) -> bool:
        """Whether a call is the same, event by event."""
        if not self.matches_outline(trace):
            return False
        try:
            return all(
                self.inputs[i] == describe_inputs(event, trace)
                and self.outputs[i] == describe_outputs(event, trace)
                for i, event in enumerate(trace.events)
            )
        except _Undescribable:
            return False

    def matches_inputs(self, number: int, event: Event, trace: Trace) -> bool:
        """Whether event `number` has the same inputs; False if they cannot be described."""
        try:
            return number < len(self.inputs) and self.inputs[number] == describe_inputs(event,
                                                                                        trace)
        except _Undescribable:
            return False

    def matches_outputs(self, number: int, event: Event, trace: Trace) -> bool:
        """Whether event `number` had the same results."""
        try:
            return self.outputs[number] == describe_outputs(event, trace)
        except _Undescribable:
            return False


def make_signature(trace: Trace, function: Callable) -> TraceSignature | None:
    """Describe a call, before its trace drops its memory; None if it cannot be described."""
    if trace.problems or trace.backward is not None:
        return None
    if any(event.kind in (CALL, EXCHANGE, WINDOW) for event in trace.events):
        return None
    try:
        files = {event.line.rpartition(":")[0] for event in trace.events if event.line}
        files.add(_find_file(function))
        return TraceSignature(
            _describe_header(trace),
            [_describe_storage(storage) for storage in trace.storages],
            [
                (storage.whole.shape, storage.whole.strides, storage.whole.dtype)
                for storage in trace.storages
            ],
            [describe_inputs(event, trace) for event in trace.events],
            [describe_outputs(event, trace) for event in trace.events],
            [event.results for event in trace.events],
            [event.form for event in trace.events],
            {name: _hash_file(name) for name in sorted(files)},
        )
    except (_Undescribable, OSError):
        return None


# ------------------------------------------------------------------------------- on disk


def make_key(function: Callable, args: tuple, kwargs: dict[str, Any], carried: list[Any],
             modes: tuple, roots: Sequence[Module], options: dict[str, Any]) -> str | None:
    """Return the cache key of such a call's signature; None if its arguments cannot be described.

    carried: the tensors that it takes over from the call before.
    roots: the modules that the function refers to by name.
    """
    function_key = _make_function_key(function)
    if function_key is None:
        return None
    try:
        form = [*map(_describe_argument, (args, kwargs, carried)), repr(modes)]
    except _Undescribable:
        return None
    tensors = [t for root in roots for t in (*root.parameters(), *root.buffers())]
    form += ["lazy" if is_lazy(t) else f"{t._array.shape}{t._array.dtype}" for t in tensors]
    form += [repr([m.training for root in roots for m in root.modules()])]
    form += [f"{options['random']} {options['backend']}"]
    return disk_cache.make_key("signature", function_key, *form)


def load_signature(key: str | None) -> TraceSignature | None:
    """Load a signature; None if there is none, or if a source file it depends on changed."""
    data = None if key is None else disk_cache.get(key)
    if data is None:
        return None
    result = _deserialize(data)
    try:
        same = all(_hash_file(name) == text for name, text in result.files.items())
    except OSError:
        return None
    return result if same else None


def store_signature(key: str | None, signature: TraceSignature) -> None:
    """Store the signature of calls whose program passed the self-check."""
    if key is not None:
        disk_cache.store(key, _serialize(signature))


def _make_function_key(function: Callable) -> str | None:
    """Return a key for everything that a function's signatures depend on except its arguments."""
    sources, bodies = hash_compiler_sources(), hash_library_sources()
    if sources is None or bodies is None:
        return None
    target = host()
    try:
        name, code = _find_file(function), _find_code(function)
        first_line = f"{code.co_qualname} {code.co_firstlineno}"
        return disk_cache.make_key(
            "function", _VERSION, sources, bodies, np.__version__, llvm_version(), target.triple,
            target.cpu, target.features, str(threads()), name, _hash_file(name), first_line,
        )
    except (_Undescribable, OSError):
        return None


def _serialize(result: TraceSignature) -> bytes:
    return json.dumps(
        [
            result.head,
            result.storages,
            [_list_geometry(*geometry) for geometry in result.wholes],
            result.inputs,
            result.outputs,
            [
                [
                    None
                    if v is None
                    else [v.storage, v.offset, *_list_geometry(v.shape, v.strides, v.dtype)]
                    for v in item
                ]
                for item in result.results
            ],
            result.forms,
            result.files,
            result.start,
            result.arena,
            result.table,
            result.manifest,
        ],
        separators=(",", ":"),
    ).encode()


def _list_geometry(shape: tuple, strides: tuple, kind: np.dtype) -> list:
    return [list(shape), list(strides), str(kind)]


def _deserialize(data: bytes) -> TraceSignature:
    head, storages, wholes, takes, gives, results, forms, files, *rest = json.loads(data)
    kinds = {str(item): item for item in FROM_NUMPY}
    return TraceSignature(
        head, storages, [(tuple(a), tuple(b), kinds.get(c) or np.dtype(c)) for a, b, c in wholes],
        takes, gives,
        [tuple(None if v is None else
               Value(v[0], v[1], tuple(v[2]), tuple(v[3]), kinds.get(v[4]) or np.dtype(v[4]))
               for v in result) for result in results],
        [(is_tuple, tuple(parts)) for is_tuple, parts in forms], files, *rest,
    )


# ------------------------------------------------------------------------------- as text


def _find_code(function: Any) -> Any:
    function = getattr(function, "__func__", getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(type(function).__call__, "__code__", None)
    if code is None:
        raise _Undescribable(function)
    return code


def _find_file(function: Any) -> str:
    return str(_find_code(function).co_filename)


def _hash_file(name: str) -> str:
    with open(name, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _describe_argument(x: Any) -> str:
    """Describe an argument; tensors and arrays by their layout."""
    kind = type(x)
    if issubclass(kind, Tensor):
        return f"{kind.__qualname__}{_describe_argument(x._array)}{read_flags(x)}"
    if issubclass(kind, np.ndarray):
        return f"{x.shape}{x.strides}{x.dtype}"
    if issubclass(kind, (tuple, list)):
        return f"{kind.__qualname__}({','.join(map(_describe_argument, x))})"
    if kind is dict:
        pairs = [f"{_describe_argument(k)}:{_describe_argument(v)}" for k, v in x.items()]
        return f"dict({','.join(pairs)})"
    if kind in _LITERALS:
        return repr(x)
    raise _Undescribable(kind)


def _describe_header(trace: Trace) -> list[str]:
    """Describe a trace apart from events and memory."""
    return [
        str(trace.modes), _describe(tuple(trace.plain), trace),
        *(f"effect {effect.name}" for effect in trace.effects),
        *(f"call {call.line} {call.updates}" for call in trace.host_calls),
    ]


def _describe_storage(storage: Storage) -> str:
    """Describe a storage. The call's own memory may be reused, so its details are omitted."""
    if not storage.external:
        return "own"
    return f"{storage.name} {storage.whole.shape} {storage.whole.strides} {storage.whole.dtype}"


def describe_inputs(event: Event, trace: Trace) -> str:
    """Describe an event and its inputs."""
    name = _describe_function(event.function) if event.operator is None else event.operator.name
    return f"{event.kind} {name} {_describe(event.args, trace)} {_describe(event.kwargs, trace)}"


def describe_outputs(event: Event, trace: Trace) -> str:
    """Describe an event's results."""
    result = event.array if event.kind == CONSTANT else None
    parts = (event.results, event.written, result)
    return " ".join([_describe(x, trace) for x in parts])


def _describe_number(x: NumberInput) -> str:
    if x.varies:  # its source names objects of this process
        raise _Undescribable(x)
    return repr(x.value)


def _describe_function(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, CounterDraw):
        return repr(x)
    name = getattr(x, "__qualname__", None)
    if name is None or "<lambda>" in name:
        raise _Undescribable(x)
    return f"{x.__module__}.{name}"


def _describe(x: Any, trace: Trace) -> str:
    """Describe a value; text is equal for values that `find_divergence` considers equal."""
    kind = x.__class__
    if kind is Value:
        offset = x.offset - trace.storages[x.storage].argument_offset
        return f"#{x.storage}+{offset}{x.shape}{x.strides}{_dtype_names[x.dtype]}"
    if kind in _LITERALS:
        return repr(x)
    if kind is NumberInput:
        return _describe_number(x)
    if isinstance(x, (tuple, list)):
        return f"{kind.__name__}({','.join([_describe(item, trace) for item in x])})"
    if kind is dict:
        pairs = [f"{_describe(k, trace)}:{_describe(v, trace)}" for k, v in x.items()]
        return f"dict({','.join(pairs)})"
    if kind is slice:
        return f"slice{_describe((x.start, x.stop, x.step), trace)}"
    if isinstance(x, Enum):
        return f"{kind.__name__}.{x.name}"
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufcV":
        data = np.ascontiguousarray(x).tobytes()
        return f"{kind.__name__}{x.dtype}{x.shape}{hashlib.sha256(data).hexdigest()}"
    if isinstance(x, (Optimizer, Generator)):
        return kind.__qualname__
    if isinstance(x, _DESCRIBED_BY_REPR):
        return repr(x)
    return _describe_function(x)


class _DtypeNames(dict[np.dtype, str]):
    """Caches str(dtype), which takes NumPy 3 us."""

    def __missing__(self, kind: np.dtype) -> str:
        self[kind] = str(kind)
        return self[kind]


_dtype_names = _DtypeNames()
