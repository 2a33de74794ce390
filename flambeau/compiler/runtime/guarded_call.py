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
from .optimizer_counters import StepCounter
from ..capture.side_effects import perform
from ..ir.interpreter import numpy_type
from ..proof.guards import Proof
from .gradient_buffers import GradBuffers
from .guards import Environment, Modules, change_counts, reachable_memory
from .backward_node import BackwardRunner
from .result_source import ResultSource
from ..trace.plain_values import PLAIN, write_mismatch
from ..trace.operands import flatten, is_named_tuple
from .sample_inputs import SampleInputs

_numbers = itertools.count(1)  # of the programs whose calls are generated
MISS = object()  # what a program gives for a call that it was not made for
MAX_INLINE_GUARDS = 64  # tensors that are looked at one by one, which is fastest, but more code


def _bump(tensor: Tensor, writes: int) -> None:
    """Bump the version of an argument that the program writes."""
    for _ in range(writes):
        tensor._bump()


class Program:
    """A compiled step: `call(args, kwargs)` runs it, or returns MISS if a guard fails."""

    def __init__(
        self, step: Any, bindings: Bindings, args: tuple, kwargs: dict, modules: Modules,
        environment: Environment, proof: Proof, modes: AmbientModes, backward: Any = None,
        sample: SampleInputs | None = None,
    ) -> None:
        """`backward`: the backward program of a step whose outputs require grad."""
        self.backward = None
        if bindings.backward is not None:
            self.backward = BackwardRunner(backward, bindings.backward, modules.tensors)
            if is_repeatable(bindings) and modes.autocast is None:
                self.backward.allow_double_backward(
                    environment.function, bindings.result, bindings.owners
                )
        self.modes = modes
        self.step, self.bindings = step, bindings
        self.modules, self.environment, self.proof = modules, environment, proof
        self.lock = threading.RLock()
        self.changes, self.handles, self.ambient = modules.counts
        self.tickers = [StepCounter(update, step.ran) for update in bindings.updates]
        self.call_count = [0]  # a cell, because version counters read it
        self.sample = sample or SampleInputs(bindings)  # with which explain() runs the step
        self.grads = GradBuffers(bindings, step)
        self.grad_names: list[str] = []  # in the source
        self.source, self.call = _CallWriter(self, args, kwargs).build()
        for target, writes in bindings.version_bumps:
            if isinstance(target, Tensor) and target._counter is not None:
                target._counter.link(self.call_count, writes)

    @property
    def calls(self) -> int:
        """The number of calls it served."""
        return self.call_count[0]

    def recheck(self) -> bool:
        """Check modules, hooks and ambient settings again, after any of them changed anywhere."""
        counts = change_counts()
        if AMBIENT.observers or self.modes[-2:] != read_defaults():
            return False
        if not self.modules.is_unchanged():
            return False
        self.changes, self.handles, self.ambient = counts
        return True

    def give_away_grads(self) -> None:
        """Give gradients that user code refers to away, and allocate new ones."""
        names = self.call.__globals__
        self.grads.give_away_shared(lambda i, grad: names.update({self.grad_names[i]: grad}))

    def advance(self) -> list[Any] | None:
        """Advance all step counters; each update's numbers, or None with nothing advanced."""
        result = []
        for i, ticker in enumerate(self.tickers):
            scalars = ticker.advance()
            if scalars is None:
                for done in self.tickers[:i]:
                    done.undo()
                return None
            result.append(scalars)
        return result

    def roll_back(self, ran: int) -> None:
        """Leave the state of no call or of a whole call after an exception.

        `ran`: the step's run count before the call. If it is unchanged, nothing was written and the
        counters go back. Otherwise an interrupt came after the last write: finish the step.
        """
        if self.step.ran[0] == ran:
            for ticker in self.tickers:
                ticker.undo()
            return
        for leaf, grad in self.bindings.grads:
            leaf._grad = grad


class _CallWriter:
    """Writes the Python source of a program's call: guards, inputs, run, results."""

    def __init__(self, program: Program, args: tuple, kwargs: dict) -> None:
        self.program, self.bindings = program, program.bindings
        self.names: dict[str, Any] = {
            "MISS": MISS, "MODE": MODE, "AUTOCAST": AUTOCAST, "CHANGES": CHANGES,
            "HANDLES": HANDLES, "AMBIENT": AMBIENT,
            "program": program, "run": program.step.run, "lock": program.lock, "wrap": wrap,
            "ran": program.step.ran, "counted": program.call_count,
            "ndarray": np.ndarray, "advance": program.advance,
            "autocast": autocast_now, "CHOSEN": MatmulPrecision,
            "overlap_at": overlap_at, "are_disjoint": are_disjoint, "aliasing": describe_aliasing,
        }
        self.lines = ["def call(args, kwargs):"]
        self.leaves = 0
        self.tensors: list[int] = []  # the leaves that are tensors or arrays
        self.reachable = reachable_memory(program.environment, program.modules)
        self.args, self.kwargs = args, kwargs

    def build(self) -> tuple[str, Callable]:
        """Write and compile the source; returns both."""
        self.guard_structure("args", self.args)
        if self.kwargs:
            self.guard_structure("kwargs", self.kwargs)
        else:
            self.return_miss_if("kwargs")
        self.guard_ambient()
        self.guard_states()
        self.write_run()
        source = "\n".join([*self.lines, ""])
        define(source, f"<flambeau program {next(_numbers)}>", self.names)
        return source, self.names["call"]

    def name(self, value: Any, prefix: str = "v") -> str:
        """A name by which the source refers to a value."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def return_miss_if(self, wrong: str) -> None:
        """Return MISS when the expression `wrong` is true."""
        self.lines += [f"    if {wrong}:", "        return MISS"]

    # --------------------------------------------------------------------------- guards

    def guard_structure(self, place: str, value: Any) -> None:
        """Guard the structure of an argument and each leaf."""
        kind = value.__class__
        if kind in (tuple, list, dict) or is_named_tuple(value):
            shown = self.name(kind) if is_named_tuple(value) else kind.__name__
            self.return_miss_if(f"{place}.__class__ is not {shown} or len({place}) != {len(value)}")
            if kind is dict:
                self.return_miss_if(f"list({place}) != {self.name(list(value))}")
            keys = value if kind is dict else range(len(value))
            for key in keys:
                inner = f"a{len(self.lines)}"
                self.lines.append(f"    {inner} = {place}[{key!r}]")
                self.guard_structure(inner, value[key])
            return
        leaf, self.leaves = self.leaves, self.leaves + 1
        if isinstance(value, Tensor):
            self.tensors.append(leaf)
            self.lines.append(f"    t{leaf} = {place}")
            self.return_miss_if(f"t{leaf}.__class__ is not {self.name(kind)}")
            self.lines.append(f"    b{leaf} = t{leaf}._array")
            self.guard_array(leaf, value._array)
            if id(owner_of(value._array)) in self.reachable:
                self.return_miss_if(f"b{leaf} is not {self.name(value._array)}")
            self.return_miss_if(f"(t{leaf}._tracked and t{leaf}.requires_grad) is not "
                      f"{bool(value._tracked and value.requires_grad)}")
        elif isinstance(value, np.ndarray):
            self.tensors.append(leaf)
            self.lines.append(f"    t{leaf} = b{leaf} = {place}")
            self.guard_array(leaf, value)
        elif isinstance(value, (*PLAIN, np.generic)):
            self.return_miss_if(write_mismatch(place, value, self.name))
        else:
            self.return_miss_if(f"{place} is not {self.name(value)}")

    def guard_array(self, leaf: int, array: np.ndarray) -> None:
        """Guard the layout of an array."""
        b, kind = f"b{leaf}", self.name(array.dtype)
        self.return_miss_if(
            f"{b}.__class__ is not ndarray or {b}.shape != {array.shape} or "
            f"{b}.strides != {array.strides} or ({b}.dtype is not {kind} and {b}.dtype != {kind})"
        )

    def guard_ambient(self) -> None:
        """Guard ambient modes, modules, and the outside state that the proof names."""
        modes = self.program.modes
        self.return_miss_if(
            f"MODE.grad is not {modes.grad} or MODE.inference is not {modes.inference}"
        )
        self.return_miss_if(f"CHOSEN.parts != {modes.matmul_parts}")
        if modes.autocast is None:
            self.return_miss_if("AUTOCAST.count and autocast() is not None")
        else:
            self.return_miss_if(f"autocast() != {self.name(modes.autocast)}")
        self.return_miss_if("(CHANGES.count != program.changes or HANDLES.count != program.handles "
                  "or AMBIENT.changes != program.ambient) and not program.recheck()")
        self.names.update(self.program.proof.constants)
        failures = list(self.program.proof.failures(self.name))
        if not failures:
            return
        # A guard that raises has lost what it reads.
        self.lines.append("    try:")
        for wrong in failures:
            self.lines += [f"        if {wrong}:", "            return MISS"]
        self.lines += ["    except Exception:", "        return MISS"]

    def guard_states(self) -> None:
        """Guard the memory and flags of parameters, buffers and grads."""
        of_optimisers = {
            id(state) for ticker in self.program.tickers
            for _, states in ticker.rows for state in states.values()
        }
        states = [s for s in self.program.modules.states if id(s[0]) not in of_optimisers]
        if 0 < len(states) <= MAX_INLINE_GUARDS:
            self.return_miss_if(" or ".join(self.write_state_mismatch(*state) for state in states))
        elif states:
            get = operator.attrgetter("_array", "_requires_grad")
            self.names["get"], self.names["tensors"] = get, [tensor for tensor, _, _ in states]
            self.names["held"] = [(array, flag) for _, array, flag in states]
            self.lines += ["    try:", "        if list(map(get, tensors)) != held:",
                           "            return MISS", "    except ValueError:",
                           "        return MISS"]
        self.guard_aliasing()
        self.guard_indices()
        arguments = {id(leaf): i for i, leaf in enumerate(flatten((self.args, self.kwargs)))}
        accesses = (*self.bindings.incoming_grads, *self.bindings.grads)
        touched = {id(leaf): leaf for leaf, _ in accesses}
        for key, leaf in touched.items():
            if key in arguments:
                self.return_miss_if(f"t{arguments[key]} is not {self.name(leaf)}")
        for leaf, before in self.bindings.incoming_grads:
            if before is ANY_GRAD:
                self.return_miss_if(f"{self.name(leaf)}._grad is None")
                continue
            grad = "None" if before is None else self.name(before)
            self.return_miss_if(f"{self.name(leaf)}._grad is not {grad}")

    def write_state_mismatch(self, tensor: Tensor, array: np.ndarray, requires_grad: bool) -> str:
        """An expression that is true if a tensor's memory or requires_grad changed."""
        name = self.name(tensor)
        return (f"{name}._array is not {self.name(array)} or "
                f"{name}._requires_grad is not {self.name(requires_grad)}")

    def guard_aliasing(self) -> None:
        """Guard which arguments share memory that the step writes."""
        bindings = self.bindings
        for i, j, gap in bindings.overlapping_leaves:
            self.return_miss_if(f"not overlap_at(b{i}, b{j}, {gap})")
        for i, j, kind in bindings.aliasing:
            is_same_object = kind[0]
            self.return_miss_if(
                f"t{i} is not t{j}" if is_same_object else f"aliasing(t{i}, t{j}) != {kind}"
            )
        for i, j in bindings.disjoint_leaves:
            self.return_miss_if(f"not are_disjoint(b{i}, b{j})")
        every = self.name(OuterMemory([*bindings.owners, *bindings.readers]).holds)
        written = self.name(OuterMemory(bindings.owners).holds)
        for i in self.tensors:
            if i in bindings.written_leaves and (bindings.owners or bindings.readers):
                self.return_miss_if(f"{every}(b{i})")
            elif bindings.owners:
                self.return_miss_if(f"{written}(b{i})")

    def guard_indices(self) -> None:
        """Check indices. A call with one out of bounds runs eagerly, which raises."""
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

    def write_run(self) -> None:
        """Write the run: step counters, draws, the program, grads, results."""
        lines = self.lines
        lines.append("    with lock:")
        if self.bindings.grads:
            self.names["LOOKS"], self.names["grads"] = GradLooks, self.program.grads
            lines += ["        if LOOKS.count != grads.checked_at:",
                      "            program.give_away_grads()"]
        lines += ["        n = ran[0]", "        try:"]
        if self.bindings.updates:
            lines += ["            s = advance()", "            if s is None:",
                      "                return MISS"]
            if len(self.program.tickers) == 1:
                self.names["advance"] = self.program.tickers[0].advance
        for slot in self.bindings.slots:
            if isinstance(slot, RandomInput):
                lines.append(f"            {self.name(slot.fill)}()")
        values = ", ".join(self.list_inputs())
        lines.append(f"            o = run([{values}])")
        lines.append("        except BaseException:")
        lines.append("            program.roll_back(n)")
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
            self.names["join"] = self.program.backward.make_node
            tensors = ", ".join(f"{i}: t{i}" for i in self.tensors)
            lines.append(f"    node = join(o, {{{tensors}}}, args, kwargs)")
        for call in self.bindings.callbacks:
            lines.append(f"    {self.name(call)}()")
        if not self.bindings.effects:
            lines.append(f"    return {self.write_result()}")
            return
        self.names["perform"] = functools.partial(perform, self.bindings.effects)
        lines += [f"    r, kept = {self.write_result()}", "    perform(kept)", "    return r"]

    def write_result(self) -> str:
        """The expression for the result; appends the statements that it needs."""
        source = ResultSource(self.bindings.result, self.name, self.write_argument)
        statements, expression = source.write()
        self.lines += statements
        return expression

    def list_inputs(self) -> list[str]:
        """Expressions for the program's inputs. An update's numbers are consecutive: one `*s`."""
        result = []
        for slot in self.bindings.slots:
            if isinstance(slot, Scalar) and slot.place:
                continue
            if isinstance(slot, Scalar):
                single = len(self.bindings.updates) == 1
                result.append("*s" if single else f"*s[{slot.update}]")
            elif not isinstance(slot, State):
                result.append(self.write_input(slot))
        return result

    def write_input(self, slot: Any) -> str:
        """The expression for an input that changes from call to call."""
        if isinstance(slot, RandomInput):
            return self.name(slot.view)
        assert isinstance(slot, Argument)
        return self.write_argument(slot)

    def write_argument(self, slot: Argument) -> str:
        """The expression for an argument's memory."""
        plain = slot.order is not None and slot.order == tuple(range(len(slot.order)))
        if plain and slot.order is not None and len(slot.order) == len(slot.shape):
            return f"b{slot.leaf}"
        return f"{self.name(slot)}.array({{{slot.leaf}: b{slot.leaf}}})"
