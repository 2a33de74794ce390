"""A compiled function's specializations by key, and all their programs."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ...autograd.mode import MODE
from ...native.target.compile_costs import GROWING_SPECIALIZATIONS
from ...nn.module import Module
from ...tensor.tensor import Tensor
from ..runtime.guarded_call import Program
from ..runtime.reachable_state import ReachableState
from ..trace.ambient_modes import read_ambient_modes
from ..trace.carried_values import list_leaves
from ..trace.host_numbers import Place
from ..trace.operands import list_numbers
from ..trace.plain_values import make_plain_key
from ..trace.trace import Trace
from .accumulated_grads import AccumulatedGrads
from .build_task import BuildTask
from .carried_tensors import CarriedTensors
from .conditions import Conditions
from .eviction import SpecializationTable
from .named_modules import find_named_modules
from .specialization import Specialization
from .specialization_key import (
    compare_extents, describe_argument, describe_call, describe_overlap, describe_tensors,
)
from .states import Building, Event, Followed, Installed, Outdated

class Specializations:
    """A bounded table of specializations. `programs` is the list used to dispatch calls."""

    def __init__(self, function: Callable, max_specializations: int) -> None:
        self.function, self.max_specializations = function, max_specializations
        self.programs: list[Program] = []
        self.last: Program | None = None  # served the last call
        self._table: dict[Any, Specialization] = {}
        self._serial = itertools.count()
        self._waiting_keys = SpecializationTable()
        # Modules that the step refers to by name.
        self._roots: list[weakref.ref[Module]] | None = None
        self._flags: tuple = None, ()  # the roots, and their training flags, when last read
        self._reachable: dict[int, weakref.ref] = {}  # memory that it reaches without arguments
        self._accumulated = AccumulatedGrads()
        self.carried = CarriedTensors()
        self.varying: set[str] = set()  # keys of paths whose numbers changed between calls

    def find(self, args: tuple, kwargs: dict[str, Any]) -> Specialization | None:
        """Return the specialization of a call, new if needed; None if there are too many."""
        kind = self._describe_kind(args, kwargs)
        paths = [x for x in self._table.values() if x.kind == kind]
        known = next((x for x in paths if x.conditions.admits(args, kwargs)), None)
        if known is not None:
            return known
        if len(self._table) >= self.max_specializations:
            key = kind, tuple(make_plain_key(x) for _, _, x in list_numbers(args, kwargs))
            uses = {k: v.uses for k, v in self._table.items()}
            idle = self._waiting_keys.choose_victim(key, uses)
            if idle is None:
                return None
            self._unregister(self._table.pop(idle))
        supplied = args, kwargs, self.carried.read_leaves()
        numbers = {leaf: x for leaf, _, x in list_numbers(args, kwargs)}
        known = Specialization(describe_tensors(supplied), kind, Conditions(args, kwargs), numbers)
        known.calls = self.carried.take_calls()
        known.is_variant = self._note_varying(numbers, paths) or bool(paths) and all(
            x.numbers is None or x.numbers.admits(args, kwargs) for x in paths)
        self._table[next(self._serial)] = known
        return known

    def _note_varying(self, numbers: dict[int, int | float], others: list[Specialization]) -> bool:
        """Note which number arguments differ from those of other specializations of a kind. Return
        whether they consumed such a number."""
        leaves = {leaf for x in others if x.supplied.keys() == numbers.keys()
                  for leaf, value in numbers.items()
                  if x.supplied[leaf] != value}
        self.varying |= {f"t{leaf}" for leaf in leaves}
        return bool(leaves)

    def awaits(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Return whether a call of this kind was seen before, and its program isn't ready yet."""
        kind = self._describe_kind(args, kwargs)
        return any(
            x.kind == kind and not isinstance(x.state, (Installed, Outdated))
            and x.conditions.admits(args, kwargs) for x in self._table.values()
        )

    def _describe_kind(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        carried = self.carried.read()
        supplied = args, kwargs, list_leaves(carried)
        return (
            self._read_training_flags(), describe_call(args, kwargs), read_ambient_modes(),
            self._accumulated.read_absent(), describe_overlap(supplied, self._reachable),
            *(describe_argument(each.value) for each in carried),
        )

    def follow(self, specialization: Specialization) -> None:
        """End a specialization, because its calls are followed from now on."""
        specialization.become(Event.FOLLOWED, Followed())
        self._table = {key: x for key, x in self._table.items() if x is not specialization}

    def clear(self) -> None:
        """Drop all specializations and their programs."""
        for program in self.programs:
            program.retire()
        self.programs.clear()
        self.last = None
        self._table.clear()

    def forget(self) -> None:
        """Reset to the initial state."""
        self.clear()
        self._roots = None
        self._waiting_keys = SpecializationTable()
        self._accumulated.clear()
        self.carried.clear()
        self.varying.clear()

    def follow_all(self) -> None:
        """End all specializations, because calls are followed from now on."""
        for specialization in self._table.values():
            specialization.become(Event.FOLLOWED, Followed())
        self._table.clear()

    def list_builds(self) -> list[BuildTask]:
        """Return the programs being built."""
        return [s.state.pending for s in list(self._table.values())
                if isinstance(s.state, Building)]

    def grow(self) -> bool:
        """Whether the latest specializations were each used once and grew by equal steps, like a
        cache that grows by a token per call. False in grad mode: there each length gets a program.
        """
        if MODE.grad:
            return False
        last = [*self._table.values()][-GROWING_SPECIALIZATIONS:]
        if len(last) < GROWING_SPECIALIZATIONS or any((s.uses or 0) > 1 for s in last[:-1]):
            return False
        steps = {compare_extents(a.tensors, b.tensors) for a, b in itertools.pairwise(last)}
        return len(steps) == 1 and None not in steps

    def replaces_layouts(self) -> bool:
        """Whether the latest specializations were each used once and differ only in what they take
        over from the call before, like a history that grows."""
        last = [*self._table.values()][-GROWING_SPECIALIZATIONS:]
        if len(last) < GROWING_SPECIALIZATIONS or not self.carried.places or any(
            (s.uses or 0) > 1 for s in last[:-1]
        ):
            return False
        first = len(last[0].kind) - len(self.carried.places)  # the overlaps lie before
        return all(
            a.kind[: first - 1] == b.kind[: first - 1] and a.kind[first:] != b.kind[first:]
            for a, b in itertools.pairwise(last))

    def differ_in_numbers(self) -> bool:
        """Whether specializations differ only in plain arguments, and no program served a call
        after the one it was built from."""
        kinds = {specialization.tensors for specialization in self._table.values()}
        recurs = any(program.calls for program in self.programs)
        return not recurs and 2 * len(kinds) <= len(self._table)

    def register(self, program: Program) -> None:
        """Add a program at the front of the dispatch list."""
        self.programs.insert(0, program)
        self.last = program

    def note_use(self, program: Program) -> None:
        """Note the program that served a call. Those that serve more calls come first in the
        dispatch list, because the guards of the programs before it cost each of its calls time."""
        self.last = program
        if program is self.programs[0]:
            return
        position = self.programs.index(program)
        before = self.programs[position - 1]
        if before.calls + 1 < program.calls:  # those called in turn keep their places
            self.programs[position - 1 : position + 1] = [program, before]

    def invalidate(self, specialization: Specialization, leaves: list[Any]) -> None:
        """Drop a program whose guards failed for a call with these arguments. Its specialization
        will be recorded again."""
        self._unregister(specialization)
        state = specialization.state
        if isinstance(state, Installed):
            moved = specialization.note_end_of_program(state.program, leaves)
            self.varying |= {moved} if moved is not None else set()
        assert state.trace is not None
        specialization.become(Event.INVALIDATED, Outdated(trace=state.trace))

    def _unregister(self, specialization: Specialization) -> None:
        """Remove a specialization's program from the dispatch list, and free it."""
        state = specialization.state
        if isinstance(state, Installed) and state.program in self.programs:
            self.programs.remove(state.program)
            state.program.retire()
            if self.last is state.program:
                self.last = None

    # ----------------------------------------------------------------------- surroundings

    def list_roots(self) -> list[Module]:
        """Return the modules that the step refers to by name."""
        if self._roots is not None:
            roots = [x for root in self._roots if (x := root()) is not None]
            if len(roots) == len(self._roots):
                return roots
        roots = find_named_modules(self.function)  # for the first time, or the program replaced one
        self._roots = [*map(weakref.ref, roots)]
        return roots

    def snapshot(self, trace: Trace) -> ReachableState:
        """Snapshot the state that the step reaches, after a recorded call."""
        result = ReachableState(trace)
        self._reachable = result.list_memory()
        return result

    def _read_training_flags(self) -> tuple:
        """Return the flags of the named modules. If the program replaced some, the specializations
        of the last call's flags go on with the new modules' flags."""
        flags = tuple(m.training for root in self.list_roots() for m in root.modules())
        known, before = self._flags
        self._flags = self._roots, flags
        if self._roots is not known and flags != before:
            for specialization in self._table.values():
                specialization.replace_flags(before, flags)
        return flags

    def carry(self, specialization: Specialization, places: Iterable[Place]) -> bool:
        """Whether there are new places among these, whose tensors calls take over from now on. If
        so, restart recording."""
        if not self.carried.add(places, specialization.calls):
            return False
        self.clear()
        return True

    def note_accumulation(self, *seen: Iterable[tuple[Tensor, bool]]) -> bool:
        """Whether the calls in `seen`, as (leaf, whether its grad was None), disagree about a leaf.
        If so, restart recording with that leaf's grad in the key, once per leaf."""
        if not self._accumulated.note(*seen):
            return False
        self.clear()
        return True
