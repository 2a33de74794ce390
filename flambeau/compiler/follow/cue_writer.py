"""Generate the code of inline caches: one function per intercepted call.

The code compares the arguments with the recorded ones, allocates the results and attaches the
autograd node, with all constants of the call site folded in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.mode import MODE, SPECIAL
from ...autograd.node import Node
from ...autograd.outputs import Output
from ...autograd.saved.plan import ATTRIBUTE, OUTPUT
from ...autograd.saved.plan import INPUT as INPUT_SOURCE
from ...autograd.saved.values import SavedOutput
from ...autograd.tape import _next_sequence, requires
from ...ops.core.autocast import AUTOCAST
from ...ops.core.operator import Kind, Operator
from ...tensor.ambient import AMBIENT
from ...tensor.devices import device
from ...tensor.dtypes import dtype
from ...tensor.layout import _as_bytes
from ...tensor.size import Size
from ...tensor.exposed_memory import EXPOSED
from ...tensor.tensor import INFERENCE, Tensor, creation, view_of
from ..trace.bindings import window_on_bytes
from ..trace.trace import CONSTANT, DRAW, EMPTY, Value, values_in
from .composite_code import Piece, join_pieces
from .following import Following
from .hooks import ACTIVE, Hook
from .inline_cache import Cue, drop_inner, inner_cues
from .foreign_tensors import needs_dispatch
from ..capture.listed_history import attach
from .holder_census import HELD_BY_LIST
from .segment import INPUT, Entry

if TYPE_CHECKING:
    from .session import Session


def is_followed(following: Following) -> bool:
    """Whether the active call still follows this segment."""
    session = ACTIVE.session
    return session is not None and session.following is following


# Names available to the generated code of all cues.
_SHARED: dict[str, Any] = {
    "ACTIVE": ACTIVE, "AMBIENT": AMBIENT, "AUTOCAST": AUTOCAST, "EXPOSED": EXPOSED,
    "INFERENCE": INFERENCE, "INTS": {int}, "MODE": MODE, "Output": Output,
    "SavedOutput": SavedOutput, "SPECIAL": SPECIAL, "Tensor": Tensor, "attach": attach,
    "copyto": np.copyto, "count": sys.getrefcount, "creation": creation, "is_followed": is_followed,
    "new": object.__new__, "requires": requires,
    "sequence": _next_sequence, "view_of": view_of,
}


def cue_for(hook: Hook, session: Session, following: Following, at: int, args: tuple,
            kwargs: dict[str, Any], result: Any) -> Cue:
    """Return a cue for an intercepted function that has just run, starting at event `at`."""
    cue = Cue(hook, following.segment)
    if not following.segment.is_fixed(at, following.owners, (args, kwargs)):
        return cue
    if hook.plain is not None:
        if following.pos != at or not _view_by_composite(cue, following, args, kwargs, result):
            _call(cue, following, at, args, kwargs, result)
    elif hook.operator is not None and hook.binder is not None:
        layout = _layout(hook, args, kwargs)
        if layout is not None:
            if following.pos == at + 1 and _has_checked_values(hook.operator, following, at):
                _operator(cue, following, at, layout, args, kwargs, result)
            elif following.pos == at and hook.operator.kind is Kind.VIEW \
                    and hook.operator.values is None:
                _view(cue, following, layout, args, kwargs, result)
    elif hook.always:
        _draw(cue, following, at, args, kwargs)
    elif hook.makes_constants:
        _constant(cue, following, at, args, kwargs, result)
    elif following.pos > at:
        _reserved(cue, following, at, args, kwargs, result)
    return cue


def _has_checked_values(operator: Operator, following: Following, at: int) -> bool:
    """Whether the values that an operator validates, if any, are known before event `at`."""
    if operator.values is None:
        return True
    segment = following.segment
    args = segment.entries[at].event.args
    if segment.entries[at].operator is not operator:
        return False
    values = values_in([args[operator.names.index(name)] for name in operator.values.parameters])
    computed = [segment.memory[value.storage].computed for value in values]
    return all(event is None or event >= at for event in computed)


def _reserved(cue: Cue, following: Following, at: int, args: tuple, kwargs: dict[str, Any],
              result: Any) -> None:
    """Write the cue of a function that only allocates memory, such as `empty_like`."""
    entries = following.segment.entries[at : following.pos]
    results = _every(result)
    if kwargs or len(results) != len(entries) or any(
        entry.kind != EMPTY or len(entry.allocated) != 1 or y.__class__ is not Tensor
        or y._array is not following.owners[entry.allocated[0]] or y._requires_grad
        for entry, y in zip(entries, results, strict=True)
    ):
        return
    writer = CueWriter(cue, following)
    writer.tests.insert(0, f"f.next is not {writer.constant(entries[0])}")
    unpack = writer.unpack(args, kwargs)
    compare = [writer.expect(f"a{i}", x, x) for i, x in enumerate(args)]
    body: list[str] = []
    for k, entry in enumerate(entries):
        body += writer.memory(entry) + writer.tensor(f"r{k}", "owner")
    writer.add_piece(args, kwargs, [], body, results)
    made_of = "".join(f"r{k}, " for k in range(len(entries)))
    body += [f"f.pos = {following.pos}", f"f.next = {writer.constant(following.next)}",
             "ACTIVE.cue = CUE.next",
             f"return ({made_of})" if result.__class__ is tuple else "return r0"]
    cue.take = writer.compile(unpack, compare, body)


# Argument classes for which equality is sufficient.
_COMPARABLE = {bool, int, float, complex, str, NoneType, dtype, device}


def _is_comparable(x: Any) -> bool:
    return x.__class__ in _COMPARABLE or \
        x.__class__ in (tuple, list, Size) and {*map(type, x)} == {int}


def _constant(cue: Cue, following: Following, at: int, args: tuple, kwargs: dict[str, Any],
              result: Any) -> None:
    """Write the cue of a function that fills new memory from plain arguments, such as `zeros`."""
    entry = following.segment.entries[min(at, following.segment.count - 1)]
    recorded = entry.event.array
    if following.pos != at + 1 or entry.kind != CONSTANT or recorded is None \
            or len(entry.allocated) != 1 or not all(map(_is_comparable, (*args, *kwargs.values()))):
        return
    array: np.ndarray = result._array
    template = np.array(recorded)
    if result.__class__ is not Tensor or result._tracked or result._base is not None \
            or array is not following.owners[entry.allocated[0]] \
            or (array.shape, array.strides) != following.segment.recycled.geometries[
                entry.allocated[0]][:2]:
        return
    writer = CueWriter(cue, following)
    writer.tests.insert(0, f"f.next is not {writer.constant(entry)}")
    unpack = writer.unpack(args, kwargs)
    compare = [writer.expect(name, x, x) for name, x in (
        *((f"a{i}", x) for i, x in enumerate(args)), *((f"k_{k}", x) for k, x in kwargs.items()))]
    body = [*writer.memory(entry), f"copyto(owner, {writer.constant(template)})",
            *writer.tensor("r0", "owner")]
    writer.add_piece(args, kwargs, [], body, (result,))
    body += [
        f"f.pos = {at + 1}", f"f.next = {writer.constant(following.next)}",
        "ACTIVE.cue = CUE.next", "return r0",
    ]
    cue.take = writer.compile(unpack, compare, body)


def _draw(cue: Cue, following: Following, at: int, args: tuple, kwargs: dict[str, Any]) -> None:
    """Write the cue of a function that fills this call's memory with random numbers."""
    entry = following.segment.entries[min(at, following.segment.count - 1)]
    if following.pos != at + 1 or entry.kind != DRAW or kwargs or entry.event.kwargs:
        return
    into, *rest = entry.event.args
    if into.storage not in entry.allocated or len(rest) + 1 != len(args):
        return
    writer = CueWriter(cue, following)
    entry_name = writer.constant(entry)
    writer.tests.insert(0, f"f.next is not {entry_name}")
    unpack = writer.unpack(args, kwargs)
    compare = [writer.expect(f"a{i}", e, args[i]) for i, e in enumerate(rest, 1)]
    compare.append(f"not f.begins({entry_name}, {writer.constant(into)}, a0)")
    body = [
        f"f.pos = {at + 1}", f"f.next = {writer.constant(following.next)}",
        "session = ACTIVE.session", "ACTIVE.cue = None", "session.quiet += 1",
        "try:", f"    {entry_name}.buffer.fill()", "finally:", "    session.quiet -= 1",
        "ACTIVE.cue = CUE.next", "return a0",
    ]
    cue.take = writer.compile(unpack, compare, body)


def _layout(hook: Hook, args: tuple, kwargs: dict[str, Any]) -> list[Any] | None:
    """Return the source of each parameter's value, or (default,); None if not supported."""
    operator: Operator = hook.operator
    if not hook.binder.plain:
        return _layout_of_rest(operator, args, kwargs)
    if hook.policy and AUTOCAST.count or any(
        name not in operator.names and (name != "out" or x is not None)
        for name, x in kwargs.items()
    ):
        return None
    result: list[Any] = [(default,) for default in hook.binder.defaults]
    if len(args) > hook.binder.positional:
        return None
    for i in range(len(args)):
        result[i] = f"a{1 - i if hook.swapped and len(args) == 2 else i}"
    for name in _named_arguments(operator, kwargs):
        result[operator.names.index(name)] = f"k_{name}"
    return result


def _layout_of_rest(operator: Operator, args: tuple, kwargs: dict[str, Any]) -> list[Any] | None:
    """Return the layout of variadic operators such as `permute(input, *dims)`, or None."""
    kinds = [p.kind for p in operator.parameters]
    if operator.kind is not Kind.VIEW or kwargs or len(kinds) != 2 or len(args) < 2 \
            or kinds[1] is not operator.parameters[1].VAR_POSITIONAL \
            or any(x.__class__ is not int for x in args[1:]):
        return None
    return ["a0", "(" + "".join(f"a{i}, " for i in range(1, len(args))) + ")"]


def _named_arguments(operator: Operator, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments that are parameters of the operator."""
    return {name: x for name, x in kwargs.items() if name in operator.names}


class CueWriter:
    """Generates the source of a cue's `take` method."""

    def __init__(self, cue: Cue, following: Following, operator: Operator | None = None) -> None:
        """`operator`: what the tape records, if the function is not an operator itself."""
        self.cue, self.following = cue, following
        self.operator = operator or cue.hook.operator
        self.names: dict[str, Any] = {
            "CUE": cue, "MISS": cue.miss, "renew": cue.renew, "operator": self.operator,
        }
        self.certain: list[str] = []  # the history that the results have in this call
        self.tests = ["f.ambient != AMBIENT.changes"]
        if cue.hook.policy:
            self.tests.append("AUTOCAST.count")

    def constant(self, value: Any) -> str:
        """Return a name for an object in the generated code."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def unpack(self, args: tuple, kwargs: dict[str, Any]) -> list[str]:
        """Return lines that unpack the arguments."""
        self.tests.append(f"len(args) != {len(args)}")
        self.tests.append(f"len(kwargs) != {len(kwargs)}" if kwargs else "kwargs")
        lines = []
        if args:
            lines.append(", ".join(f"a{i}" for i in range(len(args))) + ", = args")
        if kwargs:
            self.tests.append(f"kwargs.keys() != {self.constant(dict(kwargs).keys() | set())}")
            lines += [f"k_{name} = kwargs[{name!r}]" for name in kwargs]
            operator = self.cue.hook.operator
            if operator is not None and kwargs.get("out", self) is None \
                    and "out" not in operator.names:
                lines += ["if k_out is not None:", "    return MISS(args, kwargs)"]
        return lines

    def add_piece(self, args: tuple, kwargs: dict[str, Any], tests: list[str], lines: list[str],
                  results: Any, rule: str = "") -> None:
        """Note what the code of a composite around the call needs, if one is running."""
        if not ACTIVE.session.composites:
            return
        operands = {**{f"a{i}": x for i, x in enumerate(args)},
                    **{f"k_{name}": x for name, x in kwargs.items()}}
        self.cue.piece = Piece(
            operands, tests, [*lines, *self.certain],
            {f"r{k}": y for k, y in enumerate(results) if y is not None}, self.names, rule)

    def expect(self, name: str, expected: Any, actual: Any) -> str:
        """Return a test that is true if an argument differs from the expected one.

        actual: this call's argument, which determines the form of the test.
        """
        if isinstance(actual, Tensor) and isinstance(expected, Value):
            kind, s = self.constant(actual.__class__), expected.storage
            array = actual._array
            if self.following.segment.memory[s].kind == INPUT:
                known = "" if expected != self.following.segment.memory[s].first else \
                    f"{name}._array is not owners[{s}] and "
                return (f"{name}.__class__ is not {kind} or {known}"
                        f"not f.same({self.constant(expected)}, {name})")
            if array is self.following.owners[s]:
                return f"{name}.__class__ is not {kind} or {name}._array is not owners[{s}]"
            for cue in self.following.cues or ():
                for k, view in enumerate(cue.views or () if cue is not None else ()):
                    if view is array and cue is not None and view.base is self.following.owners[s]:
                        c = self.constant(cue)
                        return (f"{name}.__class__ is not {kind} or "
                                f"(v_ := {c}.views[{k}]) is not {name}._array "
                                f"or v_.base is not owners[{s}]")
        c = self.constant(expected)
        if expected is None or expected is True or expected is False:
            return f"{name} is not {c}"
        if actual.__class__ in (tuple, list, Size) and actual and {*map(type, actual)} == {int}:
            kind, numbers = self.constant(actual.__class__), self.constant(actual[:])
            return (f"{name}.__class__ is not {kind} or {name} != {numbers} "
                    f"or {{*map(type, {name})}} != INTS")
        if expected.__class__ is float and expected:
            return f"{name}.__class__ is not float or {name} != {c}"
        if expected.__class__ in (int, str):
            return f"{name}.__class__ is not {c}.__class__ or {name} != {c}"
        if isinstance(actual, tuple) and expected.__class__ is actual.__class__ \
                and 0 < len(actual) == len(expected):
            return self._expect_parts(name, expected, actual)
        is_plain = expected is actual and not isinstance(actual, Tensor)
        known = f"{name} is not {c} and " if is_plain else ""
        return f"{known}not f.same({c}, {name})"

    def _expect_parts(self, name: str, expected: tuple, actual: tuple) -> str:
        """Return the test of a tuple, part by part: it may hold tensors and nested tuples."""
        parts = [self.expect(f"{name}[{i}]", e, x)
                 for i, (e, x) in enumerate(zip(expected, actual, strict=True))]
        return " or ".join([f"{name}.__class__ is not {self.constant(actual.__class__)}",
                            f"len({name}) != {len(parts)}", *parts])

    def memory(self, entry: Entry) -> list[str]:
        """Return lines that allocate an entry's storages; `owner` is the last one's array."""
        recycled = self.following.segment.recycled
        self.names["recycle"] = recycled.take
        dynamic = [s for s in entry.allocated if s not in recycled.ready]
        lines = [f"arrays = {self.constant(recycled.arrays)}"] if dynamic else []
        if entry.results is None and not dynamic:
            lines.append(f"owner = owners[{entry.allocated[0]}]")
        for s in dynamic:
            lines += [f"owner = arrays[{s}]",
                      f"if count(owner) > {HELD_BY_LIST} or id(owner) in EXPOSED:",
                      "    owner = None", f"    owner = recycle({s})", f"owners[{s}] = owner",
                      "f.bound.add(id(owner))"]
        return lines

    def tensor(self, name: str, array: str) -> list[str]:
        """Return lines that create a tensor without autograd history."""
        return [f"{name} = new(Tensor)", f"{name}._array = {array}",
                f"{name}._requires_grad = {name}._tracked = False",
                f"{name}._node = {name}._grad = {name}._counter = {name}._base = None",
                f"{name}._stamp = creation.stamp"]

    def history(self, result: Any, names: list[str], layout: list[Any], bound: tuple,
                returned: str) -> list[str]:
        """Return lines that record the results on the tape, as the operator's function does.

        names: the variables of the results. result: this call's result. returned: what the cue
        returns; it returns early if a saved-tensor hook ended the segment.
        """
        operator = self.operator
        tensors = [n for n, x in zip(layout, bound, strict=True) if isinstance(x, Tensor)]
        if not operator.differentiable:
            return []
        every = "(" + "".join(f"{n}, " for n in layout) + ")"
        general = [f"attach(operator, made, {every})", "if not is_followed(f):",
                   f"    return {returned}"]
        if any(y is not None and y._node is not None for y in _every(result)):
            self.certain = general[:1]
        if operator.sequence_positions or not tensors:
            return general
        general = [f"    {line}" for line in general]
        tracked = " or ".join(f"{n}._tracked" for n in tensors)
        plain = [f"if ({tracked}) and MODE.grad:", *general]
        node = _node_of(result)
        if node is None or node.plan is None or node.hooks is not None:
            return plain
        tests, lines = self._node(node, result, names, layout, bound)
        self.certain = lines
        return [f"if {' and '.join(tests)}:", *[f"    {line}" for line in lines],
                f"elif ({tracked}) and MODE.grad:", *general]

    def _node(self, node: Any, result: Any, names: list[str], layout: list[Any], bound: tuple
              ) -> tuple[list[str], list[str]]:
        """Return (tests that the same inputs require grad as in this call, lines that create the
        node if so)."""
        operator, plan = self.operator, node.plan
        tests, edges = ["MODE.grad", "not SPECIAL.count"], []
        for i in operator.tensor_positions:
            x, n = bound[i], layout[i]
            if not isinstance(x, Tensor):
                continue
            if i in plan.inputs:
                tests.append(f"({n}._requires_grad if {n}._base is None else requires({n}))")
                edges.append(f"{n}._node or {n}")
            else:
                tests.append(f"not {n}._tracked")
        lines, saved, versions = self._saved(node, result, names, layout, bound)
        tests += [f"{layout[i]}._stamp is not INFERENCE" for kind, i in plan.sources
                  if kind == INPUT_SOURCE and isinstance(bound[i], Tensor)]
        lines += [
            f"node = new({self.constant(type(node))})",
            f"node.plan = {self.constant(plan)}", f"node.edges = ({', '.join(edges)},)",
            f"node.saved = ({saved})", f"node.versions = ({versions})",
            f"node.restore = {self.constant(node.restore)}", "node.hooks = None",
            "node.sequence = sequence()",
        ]
        if result.__class__ is tuple:
            lines.append(f"node.outputs = {len(result)}")
        for k, (name, y) in enumerate(zip(names, _every(result), strict=True)):
            if y is None or y._node is None:
                continue
            lines.append(f"{name}._node = " + (f"Output(node, {k})" if result.__class__ is tuple
                                               else "node"))
            lines.append(f"{name}._requires_grad = {name}._tracked = True")
        return tests, lines

    def _saved(self, node: Any, result: Any, names: list[str], layout: list[Any], bound: tuple
               ) -> tuple[list[str], str, str]:
        """Return (setup lines, source of the saved values, source of their versions)."""
        lines, saved, versions = [], "", ""
        for k, (kind, i) in enumerate(node.plan.sources):
            version = "None"
            if kind == INPUT_SOURCE and isinstance(bound[i], Tensor):
                lines.append(f"n{k} = {layout[i]}._counter")
                value, version = layout[i], f"0 if n{k} is None else n{k}.value"
            elif kind in (INPUT_SOURCE, ATTRIBUTE):
                value = layout[i]
            elif kind == OUTPUT and result.__class__ is tuple:
                parts = "".join(f"SavedOutput({name}, {j}), " for j, name in enumerate(names))
                value, version = f"({parts})", f"{(0,) * len(names)}"
            elif kind == OUTPUT:
                value, version = "SavedOutput(made)", "0"
            else:
                value = self.constant(node.saved[k])
            saved, versions = f"{saved}{value}, ", f"{versions}{version}, "
        return lines, saved, versions

    def compile(self, unpack: list[str], compare: list[str], body: list[str]) -> Callable:
        """Compile the generated function.

        The cue's own objects are bound as parameter defaults: one tuple per cue instead of a
        dictionary of globals.
        """
        lines = [
            "    f = ACTIVE.session.following",
            f"    if {' or '.join(self.tests)}:",
            "        return MISS(args, kwargs)",
            *[f"    {line}" for line in unpack],
        ]
        if any("owners[" in line for line in (*compare, *body)):
            lines.append("    owners = f.owners")
        if compare:
            lines += ["    if " + " or ".join(compare) + ":", "        return MISS(args, kwargs)"]
        lines += [f"    {line}" for line in body]
        text = "\n".join(lines)
        own = [name for name in self.names if re.search(rf"\b{name}\b", text)]
        head = ", ".join(["args", "kwargs", *own])
        code = compile(f"def take({head}):\n{text}", "<flambeau follow>", "exec").co_consts[0]
        return FunctionType(code, _SHARED, "take", tuple([self.names[name] for name in own]))


def _named(writer: CueWriter, layout: list[Any]) -> list[str]:
    return [writer.constant(n[0]) if isinstance(n, tuple) else n for n in layout]


def _comparisons(writer: CueWriter, layout: list[Any], expected: tuple, bound: tuple) -> list[str]:
    return [writer.expect(name, e, x) for name, e, x in zip(layout, expected, bound, strict=True)
            if isinstance(name, str)]


def _operator(cue: Cue, following: Following, at: int, layout: list[Any], args: tuple,
              kwargs: dict[str, Any], result: Any) -> None:
    """Write the cue of a listed operator."""
    segment, hook = following.segment, cue.hook
    entry: Entry = segment.entries[at]
    bound = hook.binder((args[1], args[0]) if hook.swapped and len(args) == 2 else args,
                        _named_arguments(hook.operator, kwargs))
    if bound is None or entry.operator is not hook.operator or len(bound) != len(layout):
        return
    writer = CueWriter(cue, following)
    entry_name = writer.constant(entry)
    writer.tests.insert(0, f"f.next is not {entry_name}")
    unpack = writer.unpack(args, kwargs)
    compare = _comparisons(writer, layout, entry.event.args, bound)
    names = _named(writer, layout)
    rule = ""
    if hook.operator.values is not None:
        passed = ", ".join(f"{n}._array" if isinstance(x, Tensor) else n
                           for n, x in zip(names, bound, strict=True))
        rule = f"not {writer.constant(hook.operator.values.holds)}({passed})"
    every_test = [*compare, rule] if rule else compare
    body = writer.memory(entry)
    arrays = _arrays(writer, following, entry, result, body)
    if arrays is None:
        every = "(" + "".join(f"{n}, " for n in names) + ")"
        body = [f"made = f.produce({entry_name}, {every})", "if is_followed(f):",
                "    ACTIVE.cue = CUE.next", "return made"]
        cue.take = writer.compile(unpack, every_test, body)
        return
    variables = []
    for k, array in enumerate(arrays):
        variables.append(f"r{k}")
        body += [f"r{k} = None"] if array is None else writer.tensor(f"r{k}", array)
    several = entry.results is not None and entry.returns_several
    returned = "made" if hook.operator.result_type is None else \
        f"{writer.constant(hook.operator.result_type)}(*made)"
    body.append("made = (" + "".join(f"{r}, " for r in variables) + ")" if several else "made = r0")
    history = writer.history(result, variables, names, bound, returned)
    if hook.operator.result_type is None:
        writer.add_piece(args, kwargs, compare, body, _every(result), rule)
    body += [
        f"f.pos = {at + 1}", f"f.next = {writer.constant(following.next)}", *history,
        "ACTIVE.cue = CUE.next", f"return {returned}",
    ]
    cue.take = writer.compile(unpack, every_test, body)


def _arrays(writer: CueWriter, following: Following, entry: Entry, new: Any, body: list[str]
            ) -> list[str | None] | None:
    """Return the source of each result's array. Appends the lines that create windows to `body`.

    Returns None if a result is a view or lies on older memory.
    """
    if entry.results is None:
        return ["owner"]
    if entry.operator is None or entry.operator.kind is Kind.VIEW or any(
        value is not None and value.storage not in entry.allocated for value, _ in entry.results
    ):
        return None
    result: list[str | None] = []
    views: list[np.ndarray | None] = []
    storages: list[int] = []  # of the windows
    lines: list[str] = []
    for (value, part), y in zip(entry.results, _every(new), strict=True):
        if value is None:
            result.append(None)
            continue
        owner = following.owners[value.storage]
        assert owner is not None
        if not part:
            result.append(f"owners[{value.storage}]")
            continue
        window = _window_on(owner, value)
        if window.base is not owner:
            return None
        y._array = window  # the same window, with the owner itself as its base
        k = len(views)
        views.append(window)
        storages.append(value.storage)
        result.append(f"w{k}")
        lines += [
            f"w{k} = views[{k}]",
            f"if w{k} is None or w{k}.base is not owners[{value.storage}] "
            f"or count(w{k}) > {HELD_BY_LIST}:",
            f"    w{k} = views[{k}] = window_on(owners[{value.storage}], {writer.constant(value)})",
            "    memory.generation += 1",
        ]
    if views:
        writer.cue.views, writer.cue.storages = views, storages
        writer.names["memory"] = following.segment.recycled
        body += ["views = CUE.views", *lines]
    return result


def _window_on(owner: np.ndarray, value: Value) -> np.ndarray:
    """Return a window on an array."""
    return window_on_bytes(_as_bytes(owner), value)


_SHARED["window_on"] = _window_on


def _every(result: Any) -> Any:
    return result if isinstance(result, (tuple, list)) else (result,)


def _node_of(result: Any) -> Any:
    """Return the node that all results share, or None."""
    nodes = [y._node for y in _every(result) if y is not None and y._node is not None]
    if not nodes:
        return None
    if result.__class__ is not tuple:
        return nodes[0] if isinstance(nodes[0], Node) else None
    if any(n.__class__ is not Output or n.node is not nodes[0].node for n in nodes):
        return None
    return nodes[0].node


def _view_by_composite(cue: Cue, following: Following, args: tuple, kwargs: dict[str, Any],
                       new: Any) -> bool:
    """Write the cue of a composite, such as `reshape`, that returned a view. Return False if it did
    not."""
    operator = getattr(cue.hook.function, "views_as", None)
    source = args[0] if args else None
    if operator is None or kwargs or new.__class__ is not Tensor or new is source \
            or not isinstance(source, Tensor) or new._array.dtype != source._array.dtype \
            or any(x.__class__ is dtype or not _is_comparable(x) for x in args[1:]):
        return False
    shape = new._array.shape
    expected = [(f"a{i}", x) for i, x in enumerate(args[1:], 1)]
    _views(cue, following, operator, ["a0", (shape,)], (source, shape), expected, args, kwargs, new)
    if cue.views is None:
        return False
    drop_inner(following.cues or [None])
    return True


def _view(cue: Cue, following: Following, layout: list[Any], args: tuple, kwargs: dict[str, Any],
          new: Any) -> None:
    """Write the cue of an operator that returns views of its first operand."""
    operator, hook = cue.hook.operator, cue.hook
    bound = hook.binder((args[1], args[0]) if hook.swapped and len(args) == 2 else args,
                        _named_arguments(hook.operator, kwargs))
    if bound is None or len(bound) != len(layout) or operator.result_type is not None:
        return
    if not isinstance(bound[0], Tensor) or any(isinstance(x, Tensor) for x in bound[1:]):
        return
    expected = [(n, x) for n, x in zip(layout[1:], bound[1:], strict=True) if isinstance(n, str)]
    _views(cue, following, operator, layout, bound, expected, args, kwargs, new)


def _views(cue: Cue, following: Following, operator: Operator, layout: list[Any], bound: tuple,
           plain: list[tuple[str, Any]], args: tuple, kwargs: dict[str, Any], new: Any) -> None:
    """Write the cue of a function that returns views of its first operand.

    layout, bound: the sources and values of the operator's operands. plain: the function's other
    arguments, as (source, value).
    """
    result = _window(following, bound[0]._array)
    if result is None:
        return
    several = new.__class__ is tuple
    views = [t._array for t in (new if several else (new,))]
    owner = following.owners[result.storage]
    if not views or any(v.base is not owner for v in views):
        return
    cue.views, cue.storages = views, [result.storage] * len(views)
    writer = CueWriter(cue, following, operator)
    unpack = writer.unpack(args, kwargs)
    compare = [writer.expect(layout[0], result, bound[0])] if isinstance(layout[0], str) else []
    compare += [writer.expect(name, x, x) for name, x in plain]
    names = _named(writer, layout)
    test = " or ".join(["views[0] is None", f"views[0].base is not owners[{result.storage}]",
                        *[f"count(views[{k}]) > 2" for k in range(len(views))]])
    results = [f"r{k}" for k in range(len(views))]
    make = [f"{r} = view_of({names[0]}, views[{k}])" for k, r in enumerate(results)]
    make.append("made = (" + "".join(f"{r}, " for r in results) + ")" if several else "made = r0")
    history = writer.history(new, results, names, bound, "made")
    passed = "".join(f"a{i}, " for i in range(len(args)))
    named = ", ".join(f"{name!r}: k_{name}" for name in kwargs)
    targets = "".join(f"{r}, " for r in results)
    lines = ["views = CUE.views", f"if {test}:",
             f"    made = CUE.renew_views(({passed}), {{{named}}})",
             f"    {targets}= {'made' if several else '(made,)'}", "else:",
             *[f"    {line}" for line in (*make, *writer.certain)]]
    writer.certain = []
    writer.add_piece(args, kwargs, compare, lines, new if several else (new,))
    body = ["views = CUE.views", f"if {test}:", "    return renew(args, kwargs)", *make, *history,
            "ACTIVE.cue = CUE.next", "return made"]
    cue.take = writer.compile(unpack, compare, body)


def _window(following: Following, array: np.ndarray) -> Value | None:
    """Describe an array as a window on a storage of the segment; None for inputs and the rest."""
    for s, owner in enumerate(following.owners):
        if owner is None or following.segment.memory[s].kind == INPUT:
            continue
        if array is owner or array.base is owner:
            start = array.ctypes.data - owner.ctypes.data
            return Value(s, start, array.shape, array.strides, array.dtype)
    return None


def _call(cue: Cue, following: Following, at: int, args: tuple, kwargs: dict[str, Any],
          result: Any) -> None:
    """Write the cue of a composite. If its plain arguments are the same it runs normally, unless
    the results of its operators can be created without running it."""
    assert cue.hook.plain is not None
    key = cue.hook.plain(args, kwargs)
    plain, named = key if kwargs else (key, ())
    writer = CueWriter(cue, following)
    writer.tests.insert(0, f"f.pos != {at}")
    unpack = writer.unpack(args, kwargs)
    expected = [*((f"a{i}", x) for i, x in enumerate(plain)), *((f"k_{k}", x) for k, x in named)]
    compare = [
        f"{name}.__class__ is not {writer.constant(x)}" if isinstance(x, type)
        else writer.expect(name, x, x) for name, x in expected
    ]
    writer.names["needs_dispatch"] = needs_dispatch
    compare.append("ACTIVE.session.is_guarded and needs_dispatch(args, kwargs)")
    passed = "*args, **kwargs" if kwargs else ", ".join(f"a{i}" for i in range(len(args)))
    body = [*_repeat(writer, cue, following, at, args, kwargs, result), "ACTIVE.cue = CUE.next",
            f"return {writer.constant(cue.hook.original)}({passed})"]
    cue.take = writer.compile(unpack, compare, body)


def _repeat(writer: CueWriter, cue: Cue, following: Following, at: int, args: tuple,
            kwargs: dict[str, Any], result: Any) -> list[str]:
    """Return lines that create a composite's results without running it if its arguments are the
    expected ones; no lines if that is not possible."""
    cue.piece = Piece()
    if not cue.hook.repeats_operators or not following.segment.has_one_length:
        return []
    inner = inner_cues(following.cues or [])
    arguments = {**{f"a{i}": x for i, x in enumerate(args)},
                 **{f"k_{name}": x for name, x in kwargs.items()}}
    joined = join_pieces(inner, arguments, result, writer.names, writer.expect, _is_comparable)
    if joined is None:
        return []
    tests, lines, source = joined
    tests += [f"{writer.constant(read)}() is not {writer.constant(read())}"
              for read in cue.hook.settings]
    if following.pos != at:
        lines = [*lines, f"f.pos = {following.pos}",
                 f"f.next = {writer.constant(following.next)}"]
    return [f"if not ({' or '.join(tests)}):", *[f"    {line}" for line in lines],
            f"    ACTIVE.cue = {writer.constant(inner[-1])}.next", f"    return {source}"]
