"""CueWriter: generates the source of an inline cache.

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

from ....autograd.mode import MODE, SPECIAL
from ....autograd.node import Node
from ....autograd.outputs import Output
from ....autograd.saved.plan import ATTRIBUTE, OUTPUT
from ....autograd.saved.plan import INPUT as INPUT_SOURCE
from ....autograd.saved.values import SavedOutput
from ....autograd.tape import next_sequence, requires
from ....ops.core.autocast import AUTOCAST
from ....ops.core.operator import Operator
from ....tensor.ambient import AMBIENT
from ....tensor.devices import device
from ....tensor.dtypes import dtype
from ....tensor.exposed_memory import EXPOSED
from ....tensor.layout import as_bytes
from ....tensor.size import Size
from ....tensor.tensor import INFERENCE, Tensor, creation, view_of
from ...capture.listed_history import attach
from ...trace.bindings import view_bytes
from ...trace.trace import Value
from ..following import Following
from ..holder_census import HELD_BY_LIST
from ..hooks import ACTIVE
from ..segment import INPUT, Entry
from .composite_code import Piece
from .inline_cache import Cue

if TYPE_CHECKING:
    pass


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
    "sequence": next_sequence, "view_of": view_of,
}


# Argument classes for which equality is sufficient.
_COMPARABLE = {bool, int, float, complex, str, NoneType, dtype, device}


def is_comparable(x: Any) -> bool:
    """Whether an argument is plain, and equal to another of its class if `==` says so."""
    return x.__class__ in _COMPARABLE or \
        x.__class__ in (tuple, list, Size) and {*map(type, x)} == {int}


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

    def write_history(self, result: Any, names: list[str], layout: list[Any], bound: tuple,
                      returned: str) -> list[str]:
        """Return lines that record the results on the tape, as the operator's function does.

        names: the variables of the results. result: this call's result. returned: what the cue
        returns; it returns early if a saved-tensor hook ended the segment.
        """
        operator = self.operator
        tensors = [n for n, x in zip(layout, bound, strict=True) if isinstance(x, Tensor)]
        if not operator.differentiable:
            return []
        operands = "(" + "".join(f"{n}, " for n in layout) + ")"
        general = [f"attach(operator, made, {operands})", "if not is_followed(f):",
                   f"    return {returned}"]
        if any(y is not None and y._node is not None for y in as_sequence(result)):
            self.certain = general[:1]
        if operator.sequence_positions or not tensors:
            return general
        general = [f"    {line}" for line in general]
        tracked = " or ".join(f"{n}._tracked" for n in tensors)
        plain = [f"if ({tracked}) and MODE.grad:", *general]
        node = find_node(result)
        if node is None or node.plan is None or node.hooks is not None:
            return plain
        tests, lines = self._write_node(node, result, names, layout, bound)
        self.certain = lines
        return [f"if {' and '.join(tests)}:", *[f"    {line}" for line in lines],
                f"elif ({tracked}) and MODE.grad:", *general]

    def _write_node(self, node: Any, result: Any, names: list[str], layout: list[Any], bound: tuple
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
        lines, saved, versions = self._write_saved(node, result, names, layout, bound)
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
        for k, (name, y) in enumerate(zip(names, as_sequence(result), strict=True)):
            if y is None or y._node is None:
                continue
            lines.append(f"{name}._node = " + (f"Output(node, {k})" if result.__class__ is tuple
                                               else "node"))
            lines.append(f"{name}._requires_grad = {name}._tracked = True")
        return tests, lines

    def _write_saved(self, node: Any, result: Any, names: list[str], layout: list[Any], bound: tuple
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


def create_window(owner: np.ndarray, value: Value) -> np.ndarray:
    """Return a window on an array."""
    return view_bytes(as_bytes(owner), value)


_SHARED["create_window"] = create_window


def as_sequence(result: Any) -> Any:
    """Return a function's results as a sequence."""
    return result if isinstance(result, (tuple, list)) else (result,)


def find_node(result: Any) -> Any:
    """Return the node that all results share, or None."""
    nodes = [y._node for y in as_sequence(result) if y is not None and y._node is not None]
    if not nodes:
        return None
    if result.__class__ is not tuple:
        return nodes[0] if isinstance(nodes[0], Node) else None
    if any(n.__class__ is not Output or n.node is not nodes[0].node for n in nodes):
        return None
    return nodes[0].node

