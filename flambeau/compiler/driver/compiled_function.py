"""flambeau.compile: record a step while it trains, compile it in the background, verify, switch.

With mode="now" the first call is recorded and compiled, and the second must do the same. Otherwise
the first call warms up, and calls are recorded until two agree. A program cached on disk serves the
first call in either mode. A step whose Python must run is followed; what cannot be compiled stays
eager, with one warning that names the line.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from ...native.foundation.user_frames import warn
from ...native.runtime.background_jit import recording, run_in_background
from ...native.foundation.environment import CHECK, DEBUG
from ...nn.module import Module
from ...tensor.ambient import AMBIENT
from ...tensor.tensor import Tensor
from ..follow.hooks import ACTIVE
from ..schedule.arena import Arena
from .advice import advise
from ..capture.capture import busy, capture, has_peers
from ..capture.record_writes import CALLED_THROUGH
from ..functionalization.functionalize import trace_to_graph
from ..runtime.gradient_buffers import reallocate_grads
from ..ir.graph import Graph
from ..runtime.guards import Environment, Modules, reachable_memory
from ..trace.operands import flatten
from .specialization_key import describe_argument, describe_overlap, describe_tensors
from .build_task import Pending
from .explanation import describe_limit, write_explanation
from .variant import Variant
from .eviction import MAX_DYNAMIC_SPECIALIZATIONS, MAX_SPECIALIZATIONS, SpecializationTable
from ..trace.ambient_modes import read_ambient_modes
from ..trace.bindings import locate_version_bumps
from ..trace.trace_signature import (
    Precedent, load_precedent, make_key, make_precedent, store_precedent,
)
from ..runtime.guarded_call import MISS, Program
from .binding_manifest import read_manifest, write_manifest
from ..validation.reference import Reference
from ..runtime.optimizer_counters import snapshot_groups
from ..runtime.sample_inputs import SampleInputs
from ..validation.self_check import check
from ..runtime.commit_results import run_deferred, can_commit, commit
from ..trace.trace import Trace, find_divergence
from ..ir.errors import Unfit, describe_failure, within_memory

MAX_RECORDED_CALLS = 4  # then a step counts as not static
MAX_ACCUMULATING_CALLS = 64  # may differ while gradients are accumulated
CACHED_PROGRAM_WAIT_SECONDS = 0.2  # to load a program from disk, even on a busy machine


class Compiled:
    """A compiled function: dispatches calls to programs, and runs eagerly without one."""

    def __init__(self, function: Callable, options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._programs: list[Program] = []
        self._last: Program | None = None  # which served the last call
        self._variants: dict[Any, Variant] = {}
        dynamic = options["dynamic"]
        self._max_specializations = MAX_DYNAMIC_SPECIALIZATIONS if dynamic else MAX_SPECIALIZATIONS
        self._waiting_keys = SpecializationTable()
        self._warned: set[str] = set()
        self._roots: list[Module] | None = None  # modules that the step's names stand for
        self._reachable: set[int] = set()  # ids of memory that the step reaches by itself
        self._accumulated: dict[int, Tensor] = {}  # whose grads are there in some calls only
        self._lock = threading.RLock()
        self._followed: Any = None  # what follows calls whose Python cannot be skipped
        self._unskipped = ""  # why it cannot
        functools.update_wrapper(self, function, updated=())
        _instances.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, compiled if possible."""
        session = ACTIVE.session
        if session is not None and session.thread == threading.get_ident():
            return self._function(*args, **kwargs)  # part of the call that is followed
        for program in self._programs:
            result = program.call(args, kwargs)
            if result is not MISS:
                self._last = program
                return result
        if self._followed is not None:
            return self._followed(args, kwargs)
        return self._call_without_program(args, kwargs)

    def attempt(self, *args: Any) -> Any:
        """The result of a program for this call; MISS, with nothing run, if there is none."""
        for program in self._programs:
            result = program.call(args, {})
            if result is not MISS:
                return result
        return MISS

    @property
    def ready(self) -> bool:
        """Whether any program is ready."""
        return bool(self._programs)

    def is_kept(self, *args: Any) -> bool:
        """Whether the program of such a call is cached on disk."""
        if CHECK.value():
            return False
        return load_precedent(self._make_precedent_key(args, {})) is not None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method: one compiled function per instance."""
        if instance is None:
            return self
        name = f"_flambeau_compiled_{id(self)}"
        known = instance.__dict__.get(name)
        if known is None:
            bound = self._function.__get__(instance, owner)
            known = instance.__dict__[name] = Compiled(bound, self._options)
        return known

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A plain function is its own copy; a bound method compiles anew for its new owner."""
        function = copy.deepcopy(self._function, memo)
        return self if function is self._function else Compiled(function, self._options)

    def __reduce__(self) -> Any:
        """Pickle by name if this object replaced its function, as a decorator does."""
        known: Any = sys.modules.get(getattr(self._function, "__module__", None) or "")
        name = getattr(self._function, "__qualname__", "")
        for part in name.split("."):
            known = getattr(known, part, None)
        return name if known is self else (Compiled, (self._function, self._options))

    def explain(self, level: int = 1, html: Any = None) -> str:
        """Where the program of the last call spends its time, and what it was made into.

        Level 1: its kernels with time, bytes, flops and share of the machine's limit; 2 also the
        graph; 3 the groups of nodes that one kernel computes; 4 the loops; 5 LLVM IR; 6 assembly.
        `html` names a file for a page that shows the step as a picture. It runs the program some
        times and changes nothing. Where there is no program the text says why; ValueError for
        another level, RuntimeError for a page of nothing.

        >>> double = torch.compile(lambda x: 2 * x, mode="now")
        >>> for _ in range(4):
        ...     y = double(torch.ones(64))
        >>> print(double.explain())
        <lambda>: 1 kernel, ...
        """
        return write_explanation(self, level, html)

    @property
    def _name(self) -> str:
        """The function's or module's name, for messages."""
        owner = getattr(self._function, "__self__", None)
        if isinstance(owner, Module):
            return type(owner).__name__
        return getattr(self._function, "__name__", type(self._function).__name__)

    def forget(self) -> None:
        """Drop all programs and recordings."""
        with self._lock:
            self._programs, self._roots, self._last = [], None, None
            self._followed = None
            self._variants.clear()
            self._waiting_keys = SpecializationTable()
            self._warned.clear()
            self._accumulated.clear()

    def __repr__(self) -> str:
        return f"<compiled {getattr(self._function, '__qualname__', self._function)!s}>"

    # ------------------------------------------------------------------------ recording

    def _call_without_program(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Handle a call that no program serves."""
        if busy() or AMBIENT.observers or not self._lock.acquire(blocking=False):
            return self._function(*args, **kwargs)
        counted = [(program.grads, program.grads.count_references()) for program in self._programs]
        try:
            return self._advance(args, kwargs)
        finally:
            for grads, before in counted:
                grads.restore_counts(before)
            self._lock.release()

    def _advance(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        variant = self._variant(args, kwargs)
        if variant is None or variant.stopped:
            return self._function(*args, **kwargs)
        pending = variant.pending
        if pending is not None:
            if not pending.done.is_set():
                return self._function(*args, **kwargs)
            self._adopt(variant, pending, args, kwargs)
            if variant.program is not None:
                result = variant.program.call(args, kwargs)
                if result is not MISS:
                    return result
                self._note_accumulation(variant.program.bindings.list_absent_grads())
            return self._function(*args, **kwargs)
        if variant.program is not None:
            if self._note_accumulation(variant.program.bindings.list_absent_grads()):
                return self._advance(args, kwargs)
            self._discard_program(variant)
        variant.calls += 1
        try:
            self._load_precedent(variant, args, kwargs)
            if variant.calls > 1 or self._is_settled or self._blocks_on_build(variant):
                with recording(self._is_synchronous):
                    return self._record(variant, args, kwargs)
            return self._function(*args, **kwargs)
        except BaseException:
            variant.calls -= 1  # cut short: the next one may be the first yet to make state
            raise

    @property
    def _is_synchronous(self) -> bool:
        """Whether calls wait for compilation."""
        return bool(self._options["mode"] == "now")

    def _blocks_on_build(self, variant: Variant) -> bool:
        """Whether calls wait for this variant's program, as they do if it is cached: loading it
        takes less time than an eager call."""
        return self._is_synchronous or variant.kept is not None

    @property
    def _is_settled(self) -> bool:
        """Whether the caller promised that the code has run before."""
        return bool(self._options.get("settled", False))

    def _make_precedent_key(self, args: tuple, kwargs: dict[str, Any]) -> str | None:
        """The cache key of such a call's precedent."""
        self._training_flags()  # finds the modules
        roots = self._roots or ()
        return make_key(self._function, args, kwargs, read_ambient_modes(), roots, self._options)

    def _load_precedent(self, variant: Variant, args: tuple, kwargs: dict[str, Any]) -> None:
        """Load the precedent of such calls, once."""
        if not variant.known:
            variant.known = True
            variant.place = self._make_precedent_key(args, kwargs)
            if not CHECK.value():
                variant.kept = load_precedent(variant.place)

    def _variant(self, args: tuple, kwargs: dict[str, Any]) -> Variant | None:
        key = (
            describe_argument(args), describe_argument(kwargs),
            describe_overlap((args, kwargs), self._reachable), read_ambient_modes(),
            self._training_flags(), self._absent_grads(),
        )
        known = self._variants.get(key)
        if known is None:
            if len(self._variants) >= self._max_specializations:
                used = {k: v.used for k, v in self._variants.items()}
                idle = self._waiting_keys.choose_victim(key, used)
                if idle is None:
                    if self._may_follow and self._are_numbers_others():
                        self._start_following("numbers or objects among its arguments change")
                    else:
                        self._warn(describe_limit(self._max_specializations), "")
                    return None
                self._unregister(self._variants.pop(idle))
            known = self._variants[key] = Variant(describe_tensors((args, kwargs)))
        return known

    def _are_numbers_others(self) -> bool:
        """Whether variants differ only in plain arguments, and none recurs often enough."""
        kinds = {variant.tensors for variant in self._variants.values()}
        return not self._programs and 2 * len(kinds) <= len(self._variants)

    def _training_flags(self) -> tuple:
        """The training flags of the modules that the step's names refer to."""
        if self._roots is None:
            self._roots = Environment(self._function).modules
        return tuple(m.training for root in self._roots for m in root.modules())

    def _absent_grads(self) -> tuple:
        """Which of the sometimes-present grads are None. Gradient accumulation makes such calls
        variants of their own."""
        return tuple(leaf._grad is None for leaf in self._accumulated.values())

    def _note_accumulation(self, *seen: Iterable[tuple[Tensor, bool]]) -> bool:
        """Whether the calls in `seen`, as (leaf, whether its grad was None), disagree about a leaf.
        If so, recording starts over with that leaf's grad in the key, once per leaf."""
        met: dict[int, set[bool]] = {}
        leaves = {}
        for leaf, absent in (pair for call in seen for pair in call):
            leaves[id(leaf)] = leaf
            met.setdefault(id(leaf), set() if len(seen) > 1 else {leaf._grad is None}).add(absent)
        new = {key: leaves[key] for key, result in met.items()
               if len(result) > 1 and key not in self._accumulated}
        if new:
            self._accumulated.update(new)
            self._programs, self._last = [], None
            self._variants.clear()
        return bool(new)

    def _discard_program(self, variant: Variant) -> None:
        """Drop a program whose guards failed, and record its variant again."""
        self._unregister(variant)
        variant.program, variant.recorded = None, 0
        variant.candidate = variant.like = None
        variant.changed = True

    def _unregister(self, variant: Variant) -> None:
        """Remove a variant's program from the dispatch list."""
        if variant.program is not None and variant.program in self._programs:
            self._programs.remove(variant.program)

    def _record(self, variant: Variant, args: tuple, kwargs: dict[str, Any]) -> Any:
        first, waits = variant.trace is None, self._blocks_on_build(variant)
        if first and variant.environment is None and waits:
            self._snapshot_environment(variant, Trace())
        uses = waits and not self._is_early(variant)
        like = (variant.kept if first else variant.like) if uses else None
        # Of a first one no program is made, so values do not matter, unless calls wait for it.
        result, trace = capture(self._function, args, kwargs, waits or not first,
                                self._options["random"] == "counter", like,
                                not first or like is not None)
        if trace is None:
            return result
        variant.recorded += 1
        last, variant.trace = variant.trace, trace
        try:
            self._judge(variant, trace, last, result, args, kwargs)
        except Unfit as error:
            trace.compute_deferred()
            if self._is_warmup(variant):
                self._restart_recording(variant)
            else:
                give_up = self._stop if error.__cause__ is not None else self._stop_skipping
                give_up(variant, error.what, error.line)
        except Exception:
            trace.compute_deferred()
            raise
        except BaseException:
            if trace.deferred is not None:
                trace.deferred.undo()
            raise
        return result

    def _judge(self, variant: Variant, trace: Trace, last: Trace | None, result: Any, args: tuple,
               kwargs: dict[str, Any]) -> None:
        """Decide what follows from a recorded call; `last`: the recording before it."""
        changed, variant.changed = variant.changed, False
        candidate, variant.candidate = variant.candidate, None
        plain = self._is_warmup(variant)
        if self._is_early(variant):
            self._restart_recording(variant)
            return
        if trace.problems or (plain and trace.effects):
            trace.compute_deferred()
            if changed or plain:  # an optimiser makes state for a parameter, for instance
                self._restart_recording(variant)
            else:
                self._stop_at(variant, trace.problems[0], trace)
            return
        match = self._find_divergence(variant, trace, last)
        if match is not None and last is not None and self._note_accumulation(
            last.list_absent_grads(), trace.list_absent_grads()
        ):
            trace.compute_deferred()
            return
        agreed = match is None and (last is not None or self._matches_precedent(variant, trace))
        self._snapshot_environment(variant, trace)
        if agreed and not trace.proof.holds:
            raise Unfit(*trace.proof.why)
        if agreed and trace.deferred is not None and self._run_deferred(
            variant, trace, candidate, result, args, kwargs
        ):
            return
        trace.compute_deferred()
        if agreed:
            self._build(variant, trace, args, kwargs, last is None)
            return
        variant.difference, variant.like = match, None
        if match is None and self._is_synchronous and self._speculate(variant, trace, args, kwargs):
            return
        if plain:
            self._restart_recording(variant)
            return
        trace.release_memory()
        if variant.recorded >= MAX_RECORDED_CALLS and variant.difference is not None:
            self._stop_at(variant, variant.difference, trace)

    def _find_divergence(self, variant: Variant, trace: Trace, last: Trace | None
                 ) -> tuple[str, str] | None:
        """How a recorded call differs from the last one, as (what, line)."""
        if last is None:
            return self._find_changed_state(variant, trace)
        result = find_divergence(last, trace) or self._find_changed_state(variant, trace)
        moved = last.list_incoming_grads() != trace.list_incoming_grads()
        if result and variant.calls < MAX_ACCUMULATING_CALLS and moved:
            variant.recorded -= 1  # the grads' memory stays only once a program made it
        return result

    def _is_warmup(self, variant: Variant) -> bool:
        """Whether this is the first call, which may fill caches and create state."""
        return variant.calls == 1 and not self._is_settled

    def _is_early(self, variant: Variant) -> bool:
        """Whether the precedent had no program yet at this call."""
        return variant.kept is not None and variant.calls < variant.kept.start

    def _restart_recording(self, variant: Variant) -> None:
        """Forget the recorded call; the next one is the first."""
        variant.recorded, variant.trace = 0, None
        if self._blocks_on_build(variant):
            self._snapshot_environment(variant, Trace())

    def _matches_precedent(self, variant: Variant, trace: Trace) -> bool:
        """Whether a call did the same as its precedent."""
        known = variant.kept
        return known is not None and (trace.deferred is not None or known.matches(trace))

    def _snapshot_environment(self, variant: Variant, trace: Trace) -> None:
        """Snapshot the modules and names that the step reaches, after a recorded call."""
        variant.environment = Environment(self._function)
        variant.environment.ignore(trace.effects)
        variant.modules = Modules(trace, variant.environment)
        variant.modules.ignore(trace.effects)
        self._reachable = reachable_memory(variant.environment, variant.modules)

    def _find_changed_state(self, variant: Variant, trace: Trace) -> tuple[str, str] | None:
        """The first reachable state that changes from call to call, as (what, line). A program
        would have to guard it, and would never run."""
        names = []
        if variant.environment is not None:
            variant.environment.ignore(trace.effects)
            names += variant.environment.changed()
        if variant.modules is not None:
            variant.modules.ignore(trace.effects)
            names += [f"{name} of a module" for _, name in variant.modules.changed()]
        return (f"{names[0]}, which its code uses, is another at each call", "") if names else None

    # ------------------------------------------------------------------------- building

    def _build(self, variant: Variant, trace: Trace, args: tuple, kwargs: dict[str, Any],
               retained: bool = False) -> None:
        """Compile a call that did the same as another, in the background unless calls wait.
        `retained`: the other call is a precedent from disk."""
        result = None if retained else make_precedent(trace, self._function)
        pending = self._start_build(trace, args, kwargs, result)
        if can_commit(pending.graph, pending.bindings, trace.result):
            pending.precedent, pending.result = result, trace.result
        trace.release_memory()
        if self._is_synchronous or trace.communicates or self._options["backend"] == "evaluate":
            self._compile(pending)
            self._adopt(variant, pending, args, kwargs)
            return
        with within_memory("settle"):
            pending.bindings.snapshot_writes([slot for slot, _ in pending.graph.writes])
        variant.pending = pending
        if not run_in_background("flambeau compile", self._compile, pending):
            self._compile(pending)
        if retained:  # as a rule the program was too, and is there before a plain call is
            pending.done.wait(CACHED_PROGRAM_WAIT_SECONDS)

    def _speculate(self, variant: Variant, trace: Trace, args: tuple, kwargs: dict[str, Any]
                   ) -> bool:
        """Makes the program of the first call that is recorded, and gives this its results: then
        all calls have them, whether a precedent was there or not. It serves no others before one
        does the same."""
        result = make_precedent(trace, self._function)
        pending = self._start_build(trace, args, kwargs, result)
        if result is None or not can_commit(pending.graph, pending.bindings, trace.result):
            return False
        pending.result = trace.result
        trace.release_memory()
        self._compile(pending)
        if self._verify(variant, pending, self._is_warmup(variant)):
            result.start = variant.calls
            pending.precedent = variant.like = result
            variant.candidate = pending
            pending.bindings.release_recording()
            return True
        return variant.stopped

    def _run_deferred(self, variant: Variant, trace: Trace, candidate: Pending | None, result: Any,
                   args: tuple, kwargs: dict[str, Any]) -> bool:
        """Compute a call whose operators were only recorded, by the candidate's program or one
        from disk; returns whether that was possible."""
        pending = candidate or self._restore_program(trace, args, kwargs)
        if pending is None:
            pending = self._start_build(trace, args, kwargs)
            if not can_commit(pending.graph, pending.bindings, trace.result):
                return False
            trace.deferred.expect(pending.bindings)
            self._compile(pending, trace.deferred.arena)
            if pending.failed():
                return False  # once more, with values, which tells why
        leaves = flatten((args, kwargs) if kwargs else args)
        if candidate is not None:
            reallocate_grads(pending.bindings, pending.step)
        if not run_deferred(pending.step, pending.bindings, trace, leaves, trace.result):
            return False
        pending.given, pending.proof = (args, kwargs), trace.proof
        trace.release_memory()
        with within_memory("sample"):
            pending.sample = pending.sample or SampleInputs(pending.bindings)
        self._install(variant, pending)
        return True

    def _restore_program(self, trace: Trace, args: tuple, kwargs: dict[str, Any]) -> Pending | None:
        """The program from disk, if its manifest can be bound to this call."""
        from .restore import restore_program

        known = trace.deferred.precedent
        if known.recipe is None or known.table is None:
            return None
        result = read_manifest(known.recipe, trace, flatten((args, kwargs) if kwargs else args))
        if result is None or not can_commit(*result, trace.result):
            return None
        pending = Pending()
        pending.graph, pending.bindings = result
        trace.deferred.expect(pending.bindings)
        with suppress(MemoryError):  # once more, from what is recorded, which tells why
            pending.step = restore_program(pending.graph, known.table, trace.deferred.arena)
        pending.modes, pending.proof = trace.modes, trace.proof
        leaves = flatten((args, kwargs) if kwargs else args)
        pending.bindings.version_bumps = locate_version_bumps(trace.version_bumps, leaves)
        return None if pending.step is None else pending

    def _start_build(self, trace: Trace, args: tuple, kwargs: dict[str, Any],
               result: Precedent | None = None) -> Pending:
        """Build the graph and bindings of a recorded call. `result`: its precedent, which gets the
        manifest."""
        pending = Pending()
        leaves = flatten((args, kwargs) if kwargs else args)
        try:
            pending.graph, pending.bindings = trace_to_graph(trace, leaves)
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(describe_failure(error, "trace_to_graph")) from error
        if result is not None:
            result.recipe = write_manifest(trace, leaves, pending.graph, pending.bindings)
        pending.bindings.version_bumps = locate_version_bumps(trace.version_bumps, leaves)
        pending.modes, pending.given, pending.proof = trace.modes, (args, kwargs), trace.proof
        pending.groups = snapshot_groups(pending.bindings)
        return pending

    def _compile(self, pending: Pending, arena: Arena | None = None) -> None:
        """Compile a graph; `arena`: memory for it to run in."""
        try:
            pending.step = self._build_program(pending.graph, arena)
            if pending.bindings.backward is not None:
                pending.backward = self._build_program(pending.bindings.backward.graph)
        except BaseException as error:
            pending.error = error
        finally:
            pending.done.set()

    def _build_program(self, graph: Graph, arena: Arena | None = None) -> Any:
        if self._options["backend"] == "evaluate":
            return Reference(graph)
        from .pipeline import build

        return build(graph, self._options["mode"] != "now", arena)

    def _adopt(self, variant: Variant, pending: Pending, args: tuple, kwargs: dict) -> None:
        """Install a finished program if it computes what the recorded call computed."""
        variant.pending = None
        if not pending.is_current():
            self._restart_recording(variant)
        elif self._verify(variant, pending):
            self._install(variant, pending)

    def _verify(self, variant: Variant, pending: Pending, first: bool = False) -> bool:
        """Whether the program exists and agrees with the recorded call. `first`: a disagreement
        is not final, because Adam's first step amplifies gradients that are noise."""
        if pending.failed():
            self._stop(variant, pending.why(), "")
            return False
        take = None
        if pending.result is not None and self._is_synchronous:
            take = functools.partial(commit, pending.bindings, pending.result)
        try:
            with within_memory("selfcheck"):
                wrong = check(pending.step, pending.bindings, pending.backward, take)
                pending.sample = SampleInputs(pending.bindings)
        except Unfit as error:
            self._stop(variant, error.what, error.line)
            return False
        pending.result = None
        if wrong is not None and not first:
            self._stop(variant, f"the compiled step computes another {wrong} than the eager one; "
                       "please report this", "")
        return wrong is None

    def _install(self, variant: Variant, pending: Pending) -> None:
        """Put a program into service."""
        assert variant.modules is not None
        assert variant.environment is not None
        variant.program = Program(  # type: ignore[call-arg]
            pending.step, pending.bindings, *pending.given, variant.modules,
            variant.environment, pending.proof, pending.modes, pending.backward, pending.sample,
        )
        if pending.precedent is not None:
            pending.precedent.arena = pending.step.size
            pending.precedent.table = pending.step.key
            store_precedent(variant.place, pending.precedent)
        variant.like = variant.kept = None
        self._programs.insert(0, variant.program)
        self._last = variant.program
        pending.bindings.release_recording()
        variant.program.grads.note_counts()
        level = min(DEBUG.value(), 6)
        if level:
            print(self.explain(level), file=sys.stderr)
        if pending.bindings.calls and self._options["fullgraph"]:
            raise RuntimeError(f"fullgraph=True, but these run as they are: "
                               f"{'; '.join(pending.bindings.calls)}")

    # -------------------------------------------------------------------------- telling

    def _stop_at(self, variant: Variant, problem: tuple[str, str], trace: Trace) -> None:
        """Like `_stop_skipping`; without a line, the next call is watched to find it."""
        proof = trace.proof
        if trace.failure is not None:
            self._stop(variant, trace.failure, "")
        elif problem[1] or proof is not None or variant.seeks_line:
            known = problem[1] or proof is None or proof.holds
            self._stop_skipping(variant, *(problem if known else proof.why))
        else:
            variant.seeks_line = True
            self._restart_recording(variant)

    def _stop_skipping(self, variant: Variant, what: str, line: str) -> None:
        """Follow calls from now on, because the step's Python must run."""
        if self._may_follow:
            self._start_following(". ".join(filter(None, (
                f"{what} ({line})" if line else what, advise(what)))))
        else:
            self._stop(variant, what, line)

    @property
    def _may_follow(self) -> bool:
        """Whether the options allow calls to be followed."""
        asked = self._options
        return asked["follow"] is not False and not asked["fullgraph"] \
            and asked["random"] != "counter" and not has_peers()

    def _start_following(self, why: str) -> None:
        from ..follow.followed_function import FollowedFunction

        self._unskipped = why
        self._variants.clear()
        self._followed = FollowedFunction(
            self._function, self._build_program, self._is_synchronous, self._stop_following,
            bool(self._options["follow"]) or self._options["backend"] == "evaluate")

    def _stop_following(self, why: str) -> None:
        self._warn(f"flambeau.compile: {self._name} stays eager: {why}. Its Python runs on every "
                   f"call, because {self._unskipped}", "")

    def _stop(self, variant: Variant, what: str, line: str) -> None:
        variant.stop()
        where = f" ({line})" if line else ""
        text = f"flambeau.compile: {self._name} stays eager: {what}{where}"
        text += f". {more}" if (more := advise(what)) else ""
        if self._options["fullgraph"]:
            raise RuntimeError(text)
        self._warn(text, line)

    def _warn(self, text: str, line: str) -> None:
        if text in self._warned:
            return
        self._warned.add(text)
        file, _, number = line.rpartition(":")
        if file and number.isdigit():
            warnings.warn_explicit(text, UserWarning, file, int(number))
        else:
            warn(text, UserWarning)


CALLED_THROUGH.append(Compiled.__call__)
_instances: weakref.WeakSet[Compiled] = weakref.WeakSet()


def reset() -> None:
    """Drop the programs of all compiled functions."""
    for item in list(_instances):
        item.forget()


def compile_callable(function: Any, options: dict[str, Any]) -> Any:
    """Compile a function or module."""
    if isinstance(function, Module):
        from .optimized_module import OptimizedModule

        return OptimizedModule(function, options)
    return Compiled(function, options)
