"""GrowingProgram: the first events of a growing segment as one native program for all lengths.

It is planned for a few sample lengths like any segment, and the plans' common form is compiled. The
first calls, and any more than twice as long as the longest one checked, are checked against a
replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....native.target.compile_costs import COMPARED_GROWING_CALLS, GROWING_CAPACITY
from ....tensor.layout import find_owner
from ...ir.any_length import plan_for_any_length
from ...ir.errors import Unfit
from ...ir.graph import Graph, SourceKind
from ...runtime.sized_program import SizedProgram
from ...schedule.polynomials import NoCommonForm, fit
from ...schedule.sized_kernels import CommonTasks
from ...schedule.tasks import Task
from ...trace.bindings import Argument
from ...validation.self_check import agree, compute_max_magnitude, estimate_noise_floor
from ..following import Following
from ..growing_segment import GrowingSegment
from ..memory_layout import allocate
from .segment_program import SegmentProgram

# Primes, far apart, so that no block size divides them and no block count follows from them. Cost
# decisions differ between short and long steps, so the next set is tried if the plans of one have
# nothing in common.
SAMPLES = ((523, 661, 797, 1009), (149, 211, 283, 397), (17, 29, 43, 61))

Plan = Callable[[Graph], Sequence[Task]]


class GrowingProgram:
    """The program of a segment's first `count` events, for one set of surviving storages."""

    def __init__(self, segment: GrowingSegment, count: int, survivors: frozenset[int]) -> None:
        self.segment, self.count, self.survivors = segment, count, survivors
        self.calls = self.compared = 0
        self.longest = 0  # length checked against a replay
        self.step: Any = None
        self.most: int | None = None  # the longest length it supports; None if unlimited

    def compile(self, plan: Plan, aside: bool) -> None:
        """Compile the native program. Raises Unfit."""
        why = ""
        for lengths in SAMPLES:
            try:
                self._compile(plan, lengths, aside)
                return
            except NoCommonForm as error:
                why = why or str(error)
        raise Unfit(f"no kernels serve all lengths: {why}")

    def _compile(self, plan: Plan, lengths: Sequence[int], aside: bool) -> None:
        """Compile the common form of the plans for some lengths. Raises NoCommonForm."""
        with plan_for_any_length():
            programs = [self._specialize(n) for n in lengths]
            plans = [plan(program.graph) for program in programs]
        self._check_alike(programs)
        common = CommonTasks(lengths, plans, GROWING_CAPACITY)
        last = programs[-1]
        slots = [[p.bindings.slots[k] for p in programs]
                 for k, s in enumerate(last.graph.sources) if s.kind is not SourceKind.STATE]
        if any(not isinstance(slot, Argument) for varying in slots for slot in varying):
            raise NoCommonForm("random numbers, or numbers of optimizers")
        self.leaves = [last.leaves[varying[0].leaf] for varying in slots]
        offsets = [fit(lengths, [slot.offset for slot in varying]) for varying in slots]
        self.step = SizedProgram(last.graph, common, offsets, aside)
        self.most = GROWING_CAPACITY if common.is_bounded else None
        self.targets = last.target_storages
        self.checks = [self._make_check(check, last) for check in last.bindings.checks]

    def _specialize(self, length: int) -> SegmentProgram:
        """Return the fixed-shape program of one length."""
        segment, inputs = self.segment.sample(length)
        owners = segment.owners.copy()
        for s, array in enumerate(inputs):
            if array is not None:
                owners[s] = array if array.base is None else find_owner(array)
        return SegmentProgram(segment, self.count, owners, inputs, self.survivors, {})

    def _check_alike(self, programs: Sequence[SegmentProgram]) -> None:
        first = programs[0]
        for program in programs:
            if not program.outputs_are_whole or program.target_storages != first.target_storages:
                raise NoCommonForm("results that are views of larger arrays")
            if program.flags:
                raise NoCommonForm("value checks")
            if program.graph.writes or len(program.graph.sources) != len(first.graph.sources):
                raise NoCommonForm("writes, or different arguments")
            if [c.bound.size for c in program.bindings.checks] != \
                    [c.bound.size for c in first.bindings.checks]:
                raise NoCommonForm("indices whose bounds depend on the length")

    def _make_check(self, check: Any, program: SegmentProgram) -> Callable[[Following], bool]:
        if check.leaf is None:
            raise Unfit("indices that the step computes")
        s = program.leaves[check.leaf]
        first = program.segment.memory[s].first
        assert first is not None
        test = check.bound.quick(first.dtype, 0 in first.shape)
        return lambda following: test(following.inputs[s])

    # -------------------------------------------------------------------------------- running

    def may_run_alone(self) -> bool:
        """Whether the program may compute the current length unchecked."""
        return self.compared >= COMPARED_GROWING_CALLS and self.segment.length <= 2 * self.longest

    def run(self, following: Following) -> bool:
        """Compute the listed events. Return False if it cannot; the caller then replays them."""
        owners = following.owners
        try:
            return self._run(following, [owners[s] for s in self.targets])
        except Exception:  # it only writes its results, and a replay recomputes those
            return False

    def _run(self, following: Following, outputs: Sequence[Any]) -> bool:
        length = self.segment.length
        too_long = self.most is not None and length > self.most
        if too_long or not all(check(following) for check in self.checks):
            return False
        inputs = following.inputs
        self.step.run(length, [*[inputs[s] for s in self.leaves], *outputs])
        self.calls += 1
        return True

    def verify(self, following: Following, replay: Callable[[], None]) -> str | None:
        """Compute the events by program and by replay. Return what differs, or None."""
        owners: list[Any] = [following.owners[s] for s in self.targets]
        outputs = [allocate((y.shape, y.strides, y.dtype)) for y in owners]
        ran = self._run(following, outputs)
        replay()
        if not ran:
            return None
        least = estimate_noise_floor(following.inputs[s] for s in self.leaves)
        scale = max((compute_max_magnitude(b) for b in owners if b.dtype.kind == "f"), default=0.0)
        for k, (a, b) in enumerate(zip(outputs, owners, strict=True)):
            if not agree(a, b, least) and (b.dtype.kind not in "fV"
                                           or not agree(a, b, max(least, scale))):
                return f"result {k}"
        return None

    def note_agreement(self) -> None:
        """Count a call in which the program agreed with a replay."""
        self.compared += 1
        self.longest = max(self.longest, self.segment.length)
