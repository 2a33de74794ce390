"""Program: a compiled step as a Python function: guards, then numbers, then the run, then results.

The function is written out as source for each program, so that a call costs a few microseconds.
Guards that fail give MISS, with nothing changed.
"""

from __future__ import annotations

import itertools
import functools
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.foundation.generated_code import define
from ...autograd.handle import HANDLES
from ...autograd.mode import MODE
from ...native.target.matmul_precision import MatmulPrecision
from ...nn.registration import CHANGES
from ...ops.core.autocast import AUTOCAST
from ...tensor.ambient import AMBIENT
from ...tensor.storage import owner_of
from ...tensor.tensor import GradLooks, Tensor, wrap
from ..trace.ambient_modes import AmbientModes, read_defaults
from ..trace.bindings import (
    ANY_GRAD, Argument, Bindings, OuterMemory, RandomInput, Scalar, State, are_disjoint,
    describe_aliasing, is_repeatable, overlap_at,
)
from ...ops.core.autocast import autocast_now
from .optimizer_counters import Ticker
from ..capture.side_effects import perform
from ..ir.interpreter import numpy_type
from ..proof.guards import Proof
from .gradient_buffers import GradMemory
from .guards import Environment, Modules, change_counts, reachable_memory
from .backward_node import Runner
from .result_source import ResultSource
from ..trace.plain_values import PLAIN, write_mismatch
from ..trace.operands import flatten, is_named_tuple
from .sample_inputs import Sample

_numbers = itertools.count(1)  # of the programs whose calls are generated
MISS = object()  # what a program gives for a call that it was not made for
FEW = 64  # tensors that are looked at one by one, which is fastest, but more code


def _bump(tensor: Tensor, writes: int) -> None:
    """Counts a program's writes to the memory of an argument."""
    for _ in range(writes):
        tensor._bump()


class Program:
    """One compiled step: `call(args, kwargs)` runs it, or gives MISS."""

    def __init__(
        self, step: Any, bindings: Bindings, args: tuple, kwargs: dict, modules: Modules,
        environment: Environment, proof: Proof, modes: AmbientModes, backward: Any = None,
        sample: Sample | None = None,
    ) -> None:
        """`backward`: the second program, of a step whose outputs are part of a graph."""
        self.backward = None
        if bindings.backward is not None:
            self.backward = Runner(backward, bindings.backward, modules.tensors)
            if is_repeatable(bindings) and modes.autocast is None:
                self.backward.repeat(environment.function, bindings.result, bindings.owners)
        self.modes = modes
        self.step, self.bindings = step, bindings
        self.modules, self.environment, self.proof = modules, environment, proof
        self.lock = threading.RLock()
        self.changes, self.handles, self.ambient = modules.counts
        self.tickers = [Ticker(update, step.ran) for update in bindings.updates]
        self.counted = [0]  # calls, in a cell that version counters read
        self.sample = sample or Sample(bindings)  # with which explain() runs the step
        self.grads = GradMemory(bindings, step)
        self.grad_names: list[str] = []  # in the source
        self.source, self.call = _Writer(self, args, kwargs).made()
        for target, writes in bindings.version_bumps:
            if isinstance(target, Tensor):
                target._counter.link(self.counted, writes)

    @property
    def calls(self) -> int:
        """How many calls it served."""
        return self.counted[0]

    def recheck(self) -> bool:
        """Looks at modules, hooks and ambient settings again, after any anywhere changed."""
        counts = change_counts()
        if AMBIENT.observers or self.modes[-2:] != read_defaults() or not self.modules.same():
            return False
        self.changes, self.handles, self.ambient = counts
        return True

    def part(self) -> None:
        """Leaves gradients to those who hold them."""
        names = self.call.__globals__
        self.grads.part(lambda i, grad: names.update({self.grad_names[i]: grad}))

    def advance(self) -> list[Any] | None:
        """Ticks all counters; the numbers of each update, or None with nothing ticked."""
        result = []
        for i, ticker in enumerate(self.tickers):
            scalars = ticker.advance()
            if scalars is None:
                for done in self.tickers[:i]:
                    done.undo()
                return None
            result.append(scalars)
        return result

    def failed(self, ran: int) -> None:
        """After an exception: ticks are taken back where nothing was written since `ran` was how
        often the step had run; where all was, an interrupt came late, and the step is finished."""
        if self.step.ran[0] == ran:
            for ticker in self.tickers:
                ticker.undo()
            return
        for leaf, grad in self.bindings.grads:
            leaf._grad = grad


class _Writer:
    """Writes the source of a program's function."""

    def __init__(self, program: Program, args: tuple, kwargs: dict) -> None:
        self.program, self.bindings = program, program.bindings
        self.names: dict[str, Any] = {
            "MISS": MISS, "MODE": MODE, "AUTOCAST": AUTOCAST, "CHANGES": CHANGES,
            "HANDLES": HANDLES, "AMBIENT": AMBIENT,
            "program": program, "run": program.step.run, "lock": program.lock, "wrap": wrap,
            "ran": program.step.ran, "counted": program.counted,
            "ndarray": np.ndarray, "advance": program.advance,
            "autocast": autocast_now, "CHOSEN": MatmulPrecision,
            "together": overlap_at, "apart": are_disjoint, "kinship": describe_aliasing,
        }
        self.lines = ["def call(args, kwargs):"]
        self.leaves = 0
        self.tensors: list[int] = []  # the leaves that are tensors or arrays
        self.reachable = reachable_memory(program.environment, program.modules)
        self.args, self.kwargs = args, kwargs

    def made(self) -> tuple[str, Callable]:
        """The source, and the function."""
        self.structure("args", self.args)
        if self.kwargs:
            self.structure("kwargs", self.kwargs)
        else:
            self.test("kwargs")
        self.modes()
        self.states()
        self.run()
        source = "\n".join([*self.lines, ""])
        define(source, f"<flambeau program {next(_numbers)}>", self.names)
        return source, self.names["call"]

    def name(self, value: Any, prefix: str = "v") -> str:
        """A name for a value that the source refers to."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def test(self, wrong: str) -> None:
        """Gives MISS where `wrong` holds."""
        self.lines += [f"    if {wrong}:", "        return MISS"]

    # --------------------------------------------------------------------------- guards

    def structure(self, place: str, value: Any) -> None:
        """Guards an argument: its structure, and each leaf."""
        kind = value.__class__
        if kind in (tuple, list, dict) or is_named_tuple(value):
            shown = self.name(kind) if is_named_tuple(value) else kind.__name__
            self.test(f"{place}.__class__ is not {shown} or len({place}) != {len(value)}")
            if kind is dict:
                self.test(f"list({place}) != {self.name(list(value))}")
            keys = value if kind is dict else range(len(value))
            for key in keys:
                inner = f"a{len(self.lines)}"
                self.lines.append(f"    {inner} = {place}[{key!r}]")
                self.structure(inner, value[key])
            return
        leaf, self.leaves = self.leaves, self.leaves + 1
        if isinstance(value, Tensor):
            self.tensors.append(leaf)
            self.lines.append(f"    t{leaf} = {place}")
            self.test(f"t{leaf}.__class__ is not {self.name(kind)}")
            self.lines.append(f"    b{leaf} = t{leaf}._array")
            self.array(leaf, value._array)
            if id(owner_of(value._array)) in self.reachable:
                self.test(f"b{leaf} is not {self.name(value._array)}")
            self.test(f"(t{leaf}._tracked and t{leaf}.requires_grad) is not "
                      f"{bool(value._tracked and value.requires_grad)}")
        elif isinstance(value, np.ndarray):
            self.tensors.append(leaf)
            self.lines.append(f"    t{leaf} = b{leaf} = {place}")
            self.array(leaf, value)
        elif isinstance(value, (*PLAIN, np.generic)):
            self.test(write_mismatch(place, value, self.name))
        else:
            self.test(f"{place} is not {self.name(value)}")

    def array(self, leaf: int, array: np.ndarray) -> None:
        """Guards the layout of an array."""
        b, kind = f"b{leaf}", self.name(array.dtype)
        self.test(
            f"{b}.__class__ is not ndarray or {b}.shape != {array.shape} or "
            f"{b}.strides != {array.strides} or ({b}.dtype is not {kind} and {b}.dtype != {kind})"
        )

    def modes(self) -> None:
        """Guards modes, modules, and what the function's names stand for."""
        modes = self.program.modes
        self.test(f"MODE.grad is not {modes.grad} or MODE.inference is not {modes.inference}")
        self.test(f"CHOSEN.parts != {modes.matmul_parts}")
        if modes.autocast is None:
            self.test("AUTOCAST.count and autocast() is not None")
        else:
            self.test(f"autocast() != {self.name(modes.autocast)}")
        self.test("(CHANGES.count != program.changes or HANDLES.count != program.handles "
                  "or AMBIENT.changes != program.ambient) and not program.recheck()")
        self.names.update(self.program.proof.constants)
        failures = list(self.program.proof.failures(self.name))
        if not failures:
            return
        # What raises is no longer there.
        self.lines.append("    try:")
        for wrong in failures:
            self.lines += [f"        if {wrong}:", "            return MISS"]
        self.lines += ["    except Exception:", "        return MISS"]

    def states(self) -> None:
        """Guards the memory and flags of parameters, buffers and grads."""
        of_optimisers = {
            id(state) for ticker in self.program.tickers
            for _, states in ticker.rows for state in states.values()
        }
        states = [s for s in self.program.modules.states if id(s[0]) not in of_optimisers]
        if 0 < len(states) <= FEW:
            self.test(" or ".join(self.moved(*state) for state in states))
        elif states:
            get = operator.attrgetter("_array", "_requires_grad")
            self.names["get"], self.names["tensors"] = get, [tensor for tensor, _, _ in states]
            self.names["held"] = [(array, flag) for _, array, flag in states]
            self.lines += ["    try:", "        if list(map(get, tensors)) != held:",
                           "            return MISS", "    except ValueError:",
                           "        return MISS"]
        self.aliases()
        self.checks()
        arguments = {id(leaf): i for i, leaf in enumerate(flatten((self.args, self.kwargs)))}
        accesses = (*self.bindings.incoming_grads, *self.bindings.grads)
        touched = {id(leaf): leaf for leaf, _ in accesses}
        for key, leaf in touched.items():
            if key in arguments:
                self.test(f"t{arguments[key]} is not {self.name(leaf)}")
        for leaf, before in self.bindings.incoming_grads:
            if before is ANY_GRAD:
                self.test(f"{self.name(leaf)}._grad is None")
                continue
            grad = "None" if before is None else self.name(before)
            self.test(f"{self.name(leaf)}._grad is not {grad}")

    def moved(self, tensor: Tensor, array: np.ndarray, requires_grad: bool) -> str:
        """What holds where a tensor has other memory or another flag than when it was recorded."""
        name = self.name(tensor)
        return (f"{name}._array is not {self.name(array)} or "
                f"{name}._requires_grad is not {self.name(requires_grad)}")

    def aliases(self) -> None:
        """Guards which arguments share memory, where the step writes."""
        bindings = self.bindings
        for i, j, gap in bindings.overlapping_leaves:
            self.test(f"not together(b{i}, b{j}, {gap})")
        for i, j, kind in bindings.aliasing:
            self.test(f"t{i} is not t{j}" if kind[0] else f"kinship(t{i}, t{j}) != {kind}")
        for i, j in bindings.disjoint_leaves:
            self.test(f"not apart(b{i}, b{j})")
        every = self.name(OuterMemory([*bindings.owners, *bindings.readers]).holds)
        written = self.name(OuterMemory(bindings.owners).holds)
        for i in self.tensors:
            if i in bindings.written_leaves and (bindings.owners or bindings.readers):
                self.test(f"{every}(b{i})")
            elif bindings.owners:
                self.test(f"{written}(b{i})")

    def checks(self) -> None:
        """Looks at indices; a call with one out of bounds runs eagerly, which says so."""
        self.names["eager"] = self.program.environment.function
        for check in self.bindings.checks:
            if check.leaf is not None:
                node = check.bound.node
                quick = check.bound.quick(numpy_type(node.type), 0 in node.shape)
                holds = f"{self.name(quick)}(b{check.leaf})"
            else:
                arrays = ", ".join(f"{i}: b{i}" for i in self.tensors)
                holds = f"{self.name(check.test)}({{{arrays}}})"
            self.lines += [f"    if not {holds}:", "        return eager(*args, **kwargs)"]

    # ------------------------------------------------------------------------------ run

    def run(self) -> None:
        """Numbers, draws, the run itself, grads, results."""
        lines = self.lines
        lines.append("    with lock:")
        if self.bindings.grads:
            self.names["LOOKS"], self.names["grads"] = GradLooks, self.program.grads
            lines += ["        if LOOKS.count != grads.looked:", "            program.part()"]
        lines += ["        n = ran[0]", "        try:"]
        if self.bindings.updates:
            lines += ["            s = advance()", "            if s is None:",
                      "                return MISS"]
            if len(self.program.tickers) == 1:
                self.names["advance"] = self.program.tickers[0].advance
        for slot in self.bindings.slots:
            if isinstance(slot, RandomInput):
                lines.append(f"            {self.name(slot.fill)}()")
        values = ", ".join(self.values())
        lines.append(f"            o = run([{values}])")
        lines.append("        except BaseException:")
        lines.append("            program.failed(n)")
        lines.append("            raise")
        lines.append("        counted[0] += 1")
        for target, writes in self.bindings.version_bumps:
            if isinstance(target, int):
                self.names["bump"] = _bump
                lines.append(f"        bump(t{target}, {writes})")
        for leaf, grad in self.bindings.grads:
            supplied = "None" if grad is None else self.name(grad)
            self.program.grad_names.append(supplied)
            lines.append(f"        {self.name(leaf)}._grad = {supplied}")
        if self.program.backward is not None:
            self.names["join"] = self.program.backward.node
            tensors = ", ".join(f"{i}: t{i}" for i in self.tensors)
            lines.append(f"    node = join(o, {{{tensors}}}, args, kwargs)")
        for call in self.bindings.callbacks:
            lines.append(f"    {self.name(call)}()")
        if not self.bindings.effects:
            lines.append(f"    return {self.result()}")
            return
        self.names["perform"] = functools.partial(perform, self.bindings.effects)
        lines += [f"    r, kept = {self.result()}", "    perform(kept)", "    return r"]

    def result(self) -> str:
        """The expression for what is returned, after the statements that it needs."""
        source = ResultSource(self.bindings.result, self.name, self.argument)
        statements, expression = source.write()
        self.lines += statements
        return expression

    def values(self) -> list[str]:
        """What `run` takes; the numbers of one update, which stand together, at once."""
        result = []
        for slot in self.bindings.slots:
            if isinstance(slot, Scalar) and slot.place:
                continue
            if isinstance(slot, Scalar):
                single = len(self.bindings.updates) == 1
                result.append("*s" if single else f"*s[{slot.update}]")
            elif not isinstance(slot, State):
                result.append(self.given(slot))
        return result

    def given(self, slot: Any) -> str:
        """What a source of a changing kind is at this call."""
        if isinstance(slot, RandomInput):
            return self.name(slot.view)
        assert isinstance(slot, Argument)
        return self.argument(slot)

    def argument(self, slot: Argument) -> str:
        """The memory of an argument."""
        plain = slot.order is not None and slot.order == tuple(range(len(slot.order)))
        if plain and slot.order is not None and len(slot.order) == len(slot.shape):
            return f"b{slot.leaf}"
        return f"{self.name(slot)}.array({{{slot.leaf}: b{slot.leaf}}})"
