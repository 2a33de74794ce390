"""Bypass: recorders for what writes memory without being an operator.

Accumulation of gradients, copies that the tape makes, writes in place, factories, random draws,
host reads, optimisers. Each either records what the original does or does it by operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from .. import ops
from ..autograd import engine, inplace, no_grad
from ..nn.module import Module
from ..tensor import generator as generators
from ..tensor import integers, rejection, sampling
from ..tensor import normal as normals
from ..tensor import tensor as tensors
from ..tensor.storage import owner_of
from ..tensor.tensor import Tensor
from .capture import Recorder, module_recorder
from .leftovers import walk
from .library import replacements
from .trace import DRAW, WINDOW, WRITE, GradAccess

Pairs = Iterator[tuple[Any, Callable]]

# By import_module: as attributes of ops these names are torch's functions.
conversion, index, in_place, norm_parts = (
    import_module(f"..ops.{name}", __package__)
    for name in ("conversion", "index", "inplace", "norm_parts")
)


def bypasses(r: Recorder) -> Pairs:
    """(function, recorder) for each function that goes past the operators."""
    yield from _writes(r)
    yield from _factories(r)
    yield from _gradients(r)
    yield from _draws(r)
    yield from _host_reads(r)
    for function, replacement in replacements(r):
        yield function, _when_on(r, replacement)
    yield Module.__call__, module_recorder(r)


def _when_on(r: Recorder, record: Callable) -> Callable:
    """A recorder that passes everything through while nothing is to be recorded."""

    def guarded(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not r.on:
            return original(*args, **kwargs)
        return record(original, *args, **kwargs)

    return guarded


# -------------------------------------------------------------------------------- writes


def _writes(r: Recorder) -> Pairs:
    def write(original, target, y, name):
        original(target, y, name)
        r.write(target._array, y)

    def write_one(original, operator, y, target):
        original(operator, y, target)
        r.write(target._array, y._array)

    def copy_array(original, target, source):
        original(target, source)
        r.write(target._array, source._array)

    def before_write(original, x, keep):
        r.refer(x)
        made = original(x, keep)
        if keep:
            r.write(made._array, x._array)
        return made

    def fill_(original, input, value):
        source = value
        if not isinstance(value, Tensor):
            with r.silence():
                source = ops.full((), value, dtype=input.dtype)
            r.constant(source._array, original)
        r.refer((input, source))
        before = len(r.trace.events)
        made = original(input, source)
        if not any(e.kind == WRITE for e in r.trace.events[before:]):
            r.write(input._array, source._array)
        return made

    def zero_(original, input):
        return ops.fill_(input, 0)

    def put_at(original, self, values, where, accumulate, name):
        if inplace.check_writable(self, name) or (values._tracked and values.requires_grad):
            return original(self, values, where, accumulate, name)
        with no_grad():
            y = index._index_put(self, values, where, accumulate)
        in_place.write(self, y._array, name)
        inplace.bump(self)
        return self

    def setitem(original, self, item, value):
        source = index._as_value(self, value)
        basic, rest = index.split_index(self, item)
        target = self if basic is None or index._whole(basic, rest) else index._viewed(self, basic)
        if rest is not None:
            index.put_at(target, index._like(source, target), rest, False, "index_put_")
            return
        while source.ndim > target.ndim:  # leading extents of 1 fall away
            source = source.squeeze(0)
        target.copy_(source)

    def as_value(original, self, value):
        with r.silence():
            made = original(self, value)
        if not isinstance(value, (Tensor, np.ndarray)):
            r.constant(made._array, original)
        return made

    def as_index(original, item):
        made = original(item)
        if isinstance(item, Tensor) and isinstance(made, int):
            r.problem("a tensor of one element is used as an index, which Python reads")
        elif isinstance(item, (list, tuple, range, bool)) and isinstance(made, np.ndarray):
            r.constant(made, original)
        return made

    yield in_place.write, _when_on(r, write)
    yield in_place._write_one, _when_on(r, write_one)
    yield conversion._copy_array, _when_on(r, copy_array)
    yield inplace.before_write, _when_on(r, before_write)
    yield ops.fill_, _when_on(r, fill_)
    yield ops.zero_, _when_on(r, zero_)
    yield index.put_at, _when_on(r, put_at)
    yield index.setitem, _when_on(r, setitem)
    yield index._as_value, _when_on(r, as_value)
    yield index._as_index, _when_on(r, as_index)


# ----------------------------------------------------------------------------- factories

_FACTORIES = (
    "zeros", "ones", "full", "arange", "range", "linspace", "logspace", "eye", "zeros_like",
    "ones_like", "full_like", "tril_indices", "triu_indices", "hann_window", "hamming_window",
    "blackman_window", "bartlett_window", "kaiser_window", "new_zeros", "new_ones", "new_full",
)  # fmt: skip
_RESERVING = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty",
              "new_empty_strided")  # fmt: skip
# Library functions that wrap an array made of nothing but shapes and settings.
_OF_SHAPES = {
    ("flambeau.ops.dropout", "_dropped"), ("flambeau.ops.distance", "pdist"),
    ("flambeau.ops.gather", "_fill_value"), ("flambeau.ops.mask", "_value"),
    ("flambeau.ops.gather", "_scalar_source"), ("flambeau.ops.stft", "stft"),
    ("flambeau.autograd.function", "_zeros"), ("flambeau.ops.grid", "affine_grid"),
}  # fmt: skip


def _factories(r: Recorder) -> Pairs:
    def constant(original, *args, **kwargs):
        out = kwargs.get("out")
        with r.silence():
            made = original(*args, **kwargs)
        if out is not None:
            r.problem("out= of a factory is not captured")
        elif type(made._array) is np.ndarray:
            r.constant(made._array, original)
        return made

    def reserve(original, *args, **kwargs):
        with r.silence():
            made = original(*args, **kwargs)
        if type(made._array) is np.ndarray:
            r.empty(made._array, original)
        return made

    def tensor(original, data, **kwargs):
        with r.silence():
            made = original(data, **kwargs)
        if isinstance(data, (Tensor, np.ndarray)):
            r.write(made._array, data._array if isinstance(data, Tensor) else data)
        else:
            r.constant(made._array, original)
        return made

    def statistics(original, shape, kind):
        with r.silence():
            made = original(shape, kind)
        for one in made:
            r.empty(one._array, original)
        return made

    def wrap(original, array):
        made = original(array)
        if r.trace.storage(made._array) is None:
            import sys

            frame: Any = sys._getframe(3)  # past guarded and the stub
            place = frame.f_globals.get("__name__"), frame.f_code.co_name
            zero = place[1] == "_" and made._array.size == 1 and not made._array.any()
            if place in _OF_SHAPES or (zero and str(place[0]).startswith("flambeau.ops")):
                r.constant(made._array, original)
            else:
                r.trace.makers[id(owner_of(made._array))] = f"{place[0]}.{place[1]}"
        return made

    everything = {**ops.PUBLIC["Tensor"], **ops.PUBLIC["torch"]}
    for name in _FACTORIES:
        yield everything[name], _when_on(r, constant)
    for name in _RESERVING:
        yield everything[name], _when_on(r, reserve)
    yield ops.tensor, _when_on(r, tensor)
    yield norm_parts.statistics, _when_on(r, statistics)
    yield tensors.wrap, _when_on(r, wrap)


# ----------------------------------------------------------------------------- gradients


def _gradients(r: Recorder) -> Pairs:
    def touch(leaf: Tensor, read: bool) -> None:
        if id(leaf) not in r.trace.grads:
            r.trace.grads[id(leaf)] = GradAccess(leaf, leaf._grad, read)

    def get(original, leaf):
        touch(leaf, True)
        return original(leaf)

    def assign(original, leaf, *value):
        touch(leaf, False)
        return original(leaf, *value)

    def add(original, leaf, g, differentiable):
        touch(leaf, True)
        return original(leaf, g, differentiable)

    def owned(original, leaf, g):
        made = original(leaf, g)
        if made is not g:
            r.write(made._array, g._array)
        return made

    def run(original, roots, retain_graph, *args, **kwargs):
        for target, g in roots:
            if r.trace.storage(g._array) is None:
                r.constant(g._array, original)
            if not retain_graph:
                walk(r.trace, target)
        return original(roots, retain_graph, *args, **kwargs)

    def between(original, g, geometry):
        ref = r.refer(g)
        shape = tuple(getattr(geometry, name) for name in geometry.__slots__)
        with r.silence():
            made = original(g, geometry)
        r.add(WINDOW, function=original, args=(ref, shape), results=(r.made(made),))
        return made

    yield Tensor.grad.fget, _when_on(r, get)
    yield Tensor.grad.fset, _when_on(r, assign)
    yield Tensor.grad.fdel, _when_on(r, assign)
    yield engine._add, _when_on(r, add)
    yield engine._owned, _when_on(r, owned)
    yield engine.run, _when_on(r, run)
    for function in (inplace.window_of, inplace.outside_of, inplace.spread_into):
        yield function, _when_on(r, between)


# --------------------------------------------------------------------------------- draws


def _draws(r: Recorder) -> Pairs:
    def draw(original, args, kwargs):
        if not r.here or r.drawing:
            return original(*args, **kwargs)
        if original.__name__ == "fill_bernoulli" and isinstance(args[1], np.ndarray):
            return each(*args, **kwargs)
        if r.quiet:
            r.problem(f"{original.__name__} draws random numbers inside an operator")
            return original(*args, **kwargs)
        r.drawing = True
        try:
            made = original(*args, **kwargs)
        finally:
            r.drawing = False
        line = r.line()[0]
        if any(isinstance(x, np.ndarray) for x in (*args[1:], *kwargs.values())):
            r.trace.problem("random numbers are drawn with tensors as parameters", line)
        r.add(DRAW, function=original, args=(r.trace.value(args[0], fresh=True), *args[1:]),
              kwargs=kwargs, array=args[0].copy())  # fmt: skip
        return made

    def each(array, p, generator=None):
        precision = np.float64 if p.dtype == np.float64 else np.float32
        order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        drawn = np.empty(array.transpose(order).shape, precision)
        sampling.fill_uniform(drawn, generator)
        target = tensors.wrap(array)
        r.trace.value(array, fresh=True)
        below = tensors.wrap(drawn).permute(*map(int, np.argsort(order))) < tensors.wrap(p)
        in_place.write(target, below._array, "bernoulli")
        return array

    def permutation(original, n, dtype, generator=None):
        with r.silence():
            made = original(n, dtype, generator)

        def randperm(array, *_):
            array[...] = original(n, dtype, generator)

        r.add(DRAW, function=randperm, args=(r.trace.value(made, fresh=True), n, dtype, generator),
              array=made.copy())  # fmt: skip
        return made

    def seeded(original, *args, **kwargs):
        r.problem(f"{original.__name__} changes the state of a random generator")
        return original(*args, **kwargs)

    def unseen(original, *args, **kwargs):
        r.problem(f"{original.__name__} draws random numbers that depend on tensors")
        with r.silence():
            return original(*args, **kwargs)

    for function in (
        sampling.fill_uniform, sampling.fill_bernoulli, sampling.fill_dropout,
        sampling.fill_exponential, sampling.fill_cauchy, sampling.fill_geometric,
        normals.fill_normal, normals.fill_log_normal, integers.fill_random,
    ):  # fmt: skip
        yield function, draw
    yield integers.randperm, _when_on(r, permutation)
    for function in (integers.multinomial, rejection.poisson, rejection.binomial,
                     rejection.standard_gamma, rejection.dirichlet):  # fmt: skip
        yield function, _when_on(r, unseen)
    for name in ("_reseed", "set_state"):
        yield getattr(generators.Generator, name), _when_on(r, seeded)


# ---------------------------------------------------------------------------- host reads


def _host_reads(r: Recorder) -> Pairs:
    def read(original, args, kwargs):
        if r.on:
            name = original.__name__
            r.problem(f"{name}() reads a tensor's values in Python")
            with r.silence():
                return original(*args, **kwargs)
        return original(*args, **kwargs)

    for name in ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__",
                 "__complex__", "__repr__", "__format__", "__array__", "__dlpack__",
                 "apply_", "map_", "map2_"):  # fmt: skip
        function = getattr(Tensor, name)
        if hasattr(function, "__code__"):
            yield function, read

    def set_data(original, self, value):
        r.problem("a tensor's .data is replaced")
        return original(self, value)

    def data(original, self):
        r.refer(self)
        return original(self)

    yield Tensor.data.fset, _when_on(r, set_data)
    yield Tensor.data.fget, _when_on(r, data)
