"""Program: a compiled step as a Python function: guards, then numbers, then the run, then results.

Each program's function is generated as source, so that a call costs a few microseconds. If a guard
fails, it returns MISS with nothing changed.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...autograd.handle import HANDLES
from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...native.foundation.generated_code import SourceBuilder
from ...native.runtime.frameless_call import DIRECT, MISS
from ...native.target.matmul_precision import MatmulPrecision
from ...nn.registration import CHANGES
from ...ops.core.autocast import AUTOCAST
from ...ops.core.autocast import get_autocast_dtype
from ...tensor.ambient import AMBIENT
from ...tensor.tensor import INFERENCE, GradReads, Tensor, wrap
from ...tensor.tree import collect_leaves
from ..capture.capture import capture
from ..ir.errors import CheckFailed
from ..proof.guards import Proof
from ..trace.ambient_modes import AmbientModes, read_defaults
from ..trace.bindings import (
    Argument, Bindings, ComputedNumber, HostScalar, RandomInput, Scalar, State, are_disjoint,
    describe_aliasing, draws_by_counter, is_repeatable, list_generators, overlap_at,
)
from ..trace.carried_values import Carried
from ..trace.host_numbers import Before
from ..trace.number_inputs import MAX_EXACT_INTEGER
from .backward_node import BackwardRunner
from .gradient_buffers import GradBuffers
from .guard_source import GuardWriter
from .optimizer_counters import StepCounter
from .reachable_state import ReachableState, get_change_counts
from .result_source import ResultSource, list_node_names
from .sample_inputs import SampleInputs
from .side_effects import make_performer

_numbers = itertools.count(1)  # numbers the generated functions


def _bump(tensor: Tensor, writes: int) -> None:
    """Bump the version of an argument that the program writes."""
    for _ in range(writes):
        tensor._bump()


class Program:
    """A compiled step: `call(args, kwargs)` runs it, or returns MISS if a guard fails, or DIRECT if
    the function would raise an error that depends on values."""

    def __init__(
        self, function: Callable, step: Any, bindings: Bindings, args: tuple, kwargs: dict,
        carried: list[Carried], reachable: ReachableState, proof: Proof, modes: AmbientModes,
        backward: Any = None, sample: SampleInputs | None = None,
        build: Callable[[Any], Any] | None = None,
    ) -> None:
        """`backward`: the backward program of a step whose outputs require grad. `build` makes a
        program of a graph, for backward passes from some of the outputs."""
        self.backward = None
        if bindings.backward is not None:
            self.backward = BackwardRunner(
                backward, bindings.backward, reachable.tensors, list_node_names(bindings.result),
                build,
            )
            if is_repeatable(bindings) and modes.autocast is None and not carried:
                repeated = functools.partial(_draw_by_counter, function) \
                    if draws_by_counter(bindings) else function
                self.backward.allow_double_backward(
                    repeated, bindings.result, bindings.owners, bindings.written_leaves,
                    list_generators(bindings))
        self.modes = modes
        self.step, self.bindings = step, bindings
        self.function, self.reachable, self.proof = function, reachable, proof
        self.lock = threading.RLock()
        self.changes, self.handles, self.ambient = reachable.counts
        self.generators = list_generators(bindings)
        self.tickers = [StepCounter(update, step.ran) for update in bindings.updates]
        self.call_count = [0]  # a cell that version counters read
        self.sample = sample or SampleInputs(bindings)  # explain() runs the step with it
        self.grads = GradBuffers(bindings, step)
        self.grad_names: list[str] = []  # names of gradients in the source
        self.source, self.call = _CallWriter(self, args, kwargs, carried).build()
        if bindings.has_conditions:
            self.call = _call_directly_where_checks_fail(self.call)
        begun: Counter[int] = Counter()  # writes that the tickers count themselves
        for tensor, writes in itertools.chain.from_iterable(t.list_begun() for t in self.tickers):
            begun[id(tensor._counter)] += writes
        for target, writes in bindings.version_bumps:
            if isinstance(target, Tensor) and target._counter is not None:
                more = writes - begun[id(target._counter)]
                if more > 0:
                    target._counter.link(self.call_count, more)

    @property
    def calls(self) -> int:
        """The number of calls that it served."""
        return self.call_count[0]

    def recheck(self) -> bool:
        """Recheck hooks and ambient settings after any of them changed anywhere."""
        counts = get_change_counts()
        if AMBIENT.observers or self.modes[-3:] != read_defaults():
            return False
        if not self.reachable.has_same_hooks():
            return False
        self.changes, self.handles, self.ambient = counts
        return True

    def retire(self) -> None:
        """Serve no further calls. Once running ones end, this frees the program, and the objects
        that its guards read: nothing else refers to its function, whose names refer to it."""
        self.call = _reject_call

    def give_away_grads(self, names: dict[str, Any]) -> None:
        """Give away gradients that user code refers to, and allocate new ones. `names`: those of
        the source."""
        self.grads.give_away_shared(lambda i, grad: names.update({self.grad_names[i]: grad}))

    def advance(self) -> list[Any] | None:
        """Advance all step counters or none; return each update's numbers, or None if none."""
        result = []
        for i, ticker in enumerate(self.tickers):
            scalars = ticker.advance()
            if scalars is None:
                for done in self.tickers[:i]:
                    done.undo()
                return None
            result.append(scalars)
        return result

    def mark_draws(self) -> list[tuple]:
        """Bookmark the generators from which a call draws."""
        return [generator.bookmark() for generator in self.generators]

    def roll_back(self, ran: int, drawn: list[tuple]) -> None:
        """After an exception, leave the state of either no call or a complete call.

        `ran`: the step's run count before the call. If unchanged, nothing was written: roll back
        the counters, and the generators to `drawn`. Otherwise an interrupt came after the last
        write: finish the step.
        """
        if self.step.ran[0] == ran:
            for generator, bookmark in zip(self.generators, drawn, strict=False):
                generator.return_to(bookmark)
            for ticker in self.tickers:
                ticker.undo()
            return
        for leaf, grad in self.bindings.grads:
            leaf._grad = grad


def _draw_by_counter(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function eagerly, drawing random numbers as its program does."""
    return capture(function, args, kwargs, values=False, counter=True)[0]


def _reject_call(args: tuple, kwargs: dict[str, Any]) -> Any:
    """The call of a retired program."""
    return MISS


def _call_directly_where_checks_fail(call: Callable) -> Callable:
    """Wrap a program's call: if its run raises CheckFailed, the function runs, which raises the
    error."""

    def checked(args: tuple, kwargs: dict[str, Any]) -> Any:
        try:
            return call(args, kwargs)
        except CheckFailed:
            return DIRECT

    return checked


def _iterate_befores(x: Any) -> Iterator[Before]:
    """Yield the numbers that a result needs from the time before the run."""
    for leaf in collect_leaves((Before, HostScalar), x):
        if isinstance(leaf, Before):
            yield leaf
        else:
            yield from _iterate_befores((leaf.left, leaf.right))


class _CallWriter:
    """Writes the Python source of a program's call: guards, inputs, run, results."""

    def __init__(self, program: Program, args: tuple, kwargs: dict, carried: list[Carried]
                 ) -> None:
        self.program, self.bindings = program, program.bindings
        self.source = SourceBuilder({
            "MISS": MISS, "DIRECT": DIRECT, "MODE": MODE, "AUTOCAST": AUTOCAST, "CHANGES": CHANGES,
            "HANDLES": HANDLES, "AMBIENT": AMBIENT, "INFERENCE": INFERENCE, "requires": requires,
            "program": program, "run": program.step.run, "lock": program.lock, "wrap": wrap,
            "ran": program.step.ran, "counted": program.call_count,
            "ndarray": np.ndarray, "advance": program.advance,
            "autocast": get_autocast_dtype, "CHOSEN": MatmulPrecision,
            "overlap_at": overlap_at, "are_disjoint": are_disjoint, "aliasing": describe_aliasing,
        })
        self.names, self.lines, self.name = self.source.names, self.source.lines, self.source.name
        self.guards = GuardWriter(program, self.source, args, kwargs, carried)
        self.numbers: dict[int, str] = {}  # names of numbers computed before the run, by id

    def build(self) -> tuple[str, Callable]:
        """Write and compile the source; return both."""
        self.tensors = self.guards.write()
        self._compute_numbers()
        self.write_run()
        return self.source.define("call(args, kwargs)", f"<flambeau program {next(_numbers)}>")

    def write_run(self) -> None:
        """Write the run: step counters, draws, the program, grads, results."""
        lines = self.lines
        lines.append("    with lock:")
        if self.bindings.grads:
            self.names["LOOKS"], self.names["grads"] = GradReads, self.program.grads
            lines += ["        if LOOKS.count != grads.checked_at:",
                      "            program.give_away_grads(globals())"]
        lines += ["        n, drawn = ran[0], ()", "        try:"]
        if self.bindings.updates:
            lines += ["            s = advance()", "            if s is None:",
                      "                return MISS"]
            if len(self.program.tickers) == 1:
                self.names["advance"] = self.program.tickers[0].advance
        self._write_draws()
        node = self._write_node()
        values = ", ".join(self.list_inputs())
        lines.append(f"            o = run([{values}])")
        lines.append("        except BaseException:")
        lines.append("            program.roll_back(n, drawn)")
        lines.append("            raise")
        lines.append("        counted[0] += 1")
        if self._adds_to_grads():
            # The program that creates these grads restarts their version counts.
            self.names["LOOKS"] = GradReads
            lines.append("        LOOKS.count += 1")
        for target, writes in self.bindings.version_bumps:
            if isinstance(target, int):
                self.names["bump"] = _bump
                lines.append(f"        bump(t{target}, {writes})")
        for leaf, grad in self.bindings.grads:
            grad_name = "None" if grad is None else self.name(grad)
            self.program.grad_names.append(grad_name)
            lines.append(f"        {self.name(leaf)}._grad = {grad_name}")
        lines += node
        for call in self.bindings.callbacks:
            lines.append(f"    {self.name(call)}()")
        if not self.bindings.effects:
            lines.append(f"    return {self.write_result()}")
            return
        self.names["perform"] = make_performer(self.bindings.effects)
        lines += [f"    r, values = {self.write_result()}", "    perform(values)", "    return r"]

    def _compute_numbers(self) -> None:
        """Write statements that compute the numbers that the call stores or prints, and those that
        the program takes. If one raises, or an input is too large, the function itself must run."""
        # Two results may be computed from one number.
        stored = {id(x): x for x in _iterate_befores(self.bindings.result)}.values()
        inputs = [slot for slot in self.bindings.slots if isinstance(slot, ComputedNumber)]
        if not stored and not inputs:
            return
        self.lines.append("    try:")
        for slot in inputs:
            name = self._compute_number(slot)
            self.lines += [f"        if {name}.__class__ is not float:",
                           f"            if abs({name}) > {MAX_EXACT_INTEGER}:",
                           "                return MISS", f"            {name} = float({name})"]
        for x in stored:
            name = self._compute_number(x)
            misses = [f"{name}.__class__ is not {type(x.value).__name__}"]
            misses += [f"not {name}"] if x.is_divisor else []
            if x.is_operand and type(x.value) is int:
                misses.append(f"abs({name}) > {MAX_EXACT_INTEGER}")
            self.lines += [f"        if {' or '.join(misses)}:", "            return MISS"]
        self.lines += ["    except Exception:", "        return MISS"]

    def _compute_number(self, x: Before | ComputedNumber) -> str:
        name = self.numbers[id(x)] = f"n{len(self.numbers)}"
        self.lines.append(f"        {name} = {x.source}")
        return name

    def _write_node(self) -> list[str]:
        """Write what the call's node keeps of the time before the run; return the statement that
        creates the node after it."""
        backward, before = self.program.backward, "None"
        if backward is None:
            return []
        tensors = "{" + ", ".join(f"{i}: t{i}" for i in self.tensors) + "}"
        if backward.eager is not None and backward.copies_written:
            self.names["copy_written"], before = backward.copy_written, "before"
            self.lines.append(f"            before = copy_written({tensors})")
        self.names["join"] = backward.make_node
        return [f"    node = join(o, {tensors}, args, kwargs, drawn, {before})"]

    def _adds_to_grads(self) -> bool:
        """Whether the program writes to grads that were there before."""
        grads = {id(before) for _, before in self.bindings.incoming_grads}
        return any(id(target) in grads for target, _ in self.bindings.version_bumps)

    def _write_draws(self) -> None:
        """Write statements that draw random numbers, after a bookmark to go back to."""
        draws = [slot for slot in self.bindings.slots if isinstance(slot, RandomInput)]
        if draws:
            self.names["mark_draws"] = self.program.mark_draws
            self.lines.append("            drawn = mark_draws()")
        self.lines += [f"            {self.name(slot.fill)}()" for slot in draws]

    def write_result(self) -> str:
        """Return the expression for the result; append the statements that it needs."""
        source = ResultSource(self.bindings.result, self.name, self.write_argument,
                              self.numbers)
        statements, expression = source.write()
        self.lines += statements
        return expression

    def list_inputs(self) -> list[str]:
        """Return expressions for the program's inputs; an update's numbers are one `*s`."""
        result = []
        for slot in self.bindings.slots:
            if isinstance(slot, Scalar) and slot.place:
                continue
            if isinstance(slot, Scalar):
                is_only_update = len(self.bindings.updates) == 1
                result.append("*s" if is_only_update else f"*s[{slot.update}]")
            elif not isinstance(slot, State):
                result.append(self.write_input(slot))
        return result

    def write_input(self, slot: Any) -> str:
        """Return the expression for an input that changes between calls."""
        if isinstance(slot, RandomInput):
            return self.name(slot.view)
        if isinstance(slot, ComputedNumber):
            return self.numbers[id(slot)]
        assert isinstance(slot, Argument)
        return self.write_argument(slot)

    def write_argument(self, slot: Argument) -> str:
        """Return the expression for an argument's memory."""
        plain = slot.order is not None and slot.order == tuple(range(len(slot.order)))
        if plain and slot.order is not None and len(slot.order) == len(slot.shape):
            return f"b{slot.leaf}"
        return f"{self.name(slot)}.array({{{slot.leaf}: b{slot.leaf}}})"
