"""Session: a watched stretch of a program. It owns the rules, sends them events, and collects their
findings."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ..native.foundation.user_frames import find_user_frame
from ..tensor.windows.batched_window import ExampleRead
from .clock import Clock
from .executed import ExecutedLines
from .finding import Finding, Level, Mistake, Place
from .instruments import Instruments
from .intended import is_intended
from .places import Spot, find_variable_name
from .rules import all_rules
from .rules.rule import Rule, list_handlers
from .source import read_silenced_ids
from .weak_table import WeakTable

ORDER = {Level.CERTAIN: 0, Level.LIKELY: 1, Level.HINT: 2}
_SAME_ID = 8  # findings kept per check
_UNSURE = 8  # updates after a rest during which findings are dropped
_UNSEEN_S = 13e-6  # measured cost of an event besides its handlers: patches, places, the event


class Session:
    """Watches a program from `start` to `stop`. Only one session can be active.

    `off`: ids of checks to skip. `strict`: raise `Mistake` at the first certain finding.
    `announce`: called with each finding that belongs on the terminal. `steps`: end the program
    after this many updates.
    """

    def __init__(
        self, off: Iterable[str] = (), strict: bool = False,
        announce: Callable[[Finding], None] | None = None, steps: int | None = None,
    ) -> None:
        unknown = set(off) - set(all_rules())
        if unknown:
            raise ValueError(f"no such check: {', '.join(sorted(unknown))}")
        self.off, self.strict, self.announce, self.steps = set(off), strict, announce, steps
        self.rules = [rule(self) for id, rule in all_rules().items() if id not in self.off]
        self.handlers = {event: list_handlers(self.rules, event) for event in Rule.EVENTS}
        self.findings: list[Finding] = []
        self.curves: dict[str, list[tuple[int, float]]] = {}  # for the page, by name
        self.seen: set[str] = set()  # events that happened
        self.faults: dict[str, str] = {}  # error message of each rule that raised, by rule id
        self.clock = Clock()
        self.lines = ExecutedLines()
        self.updates = 0  # total steps of all optimizers
        self.thread = threading.get_ident()
        self.stack: list[Any] = []  # modules that are running
        self.call_spot: Spot | None = None  # call site of the outermost one
        self.roots: WeakTable[None] = WeakTable()  # modules called from outside
        self.built_at: WeakTable[Spot] = WeakTable()
        self.optimizers: WeakTable[Spot | None] = WeakTable()
        self.optimized: dict[int, Any] = {}  # weak references to parameters of any optimizer
        self._followed: dict[int, Any] = {}  # objects whose ids rules remember, weakly
        self._gone: list[int] = []  # ids of those that have died
        self.loaders: WeakTable[Any] = WeakTable()
        self.constructing = 0  # schedulers and loaders whose __init__ is running
        self.busy = False  # a rule is running: its own calls are not events
        self.error: str | None = None  # what ended the program early
        self.watching = False
        self.resting = False  # steps are not observed
        self.rested = False  # whether it ever rested, and so may have missed events
        self.compiled = False  # whether the program has compiled functions
        self.step_numbers: WeakTable[int] = WeakTable()
        self.trusted_from = 0  # findings before this update are dropped: rules lack history
        self.ended = False
        Instruments(self)

    # ---------------------------------------------------------------- life

    def start(self) -> None:
        """Start watching. Raise RuntimeError if another session is active."""
        from . import patches

        patches.install(self)
        self.watch(True)

    def adopt(self, optimizer: Any) -> None:
        """Register an optimizer and its parameters, even if constructed before the session."""
        self.optimizers.setdefault(optimizer, None)
        self.follow(optimizer)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self.optimized:
                    key = id(parameter)
                    self.optimized[key] = weakref.ref(parameter, self._without(key))

    def follow(self, target: Any) -> None:
        """Have rules forget an object when it dies, because its id may be reused."""
        key = id(target)
        if key not in self._followed:
            self._followed[key] = weakref.ref(target, lambda _: self._gone.append(key))

    def _without(self, key: int) -> Callable[[Any], None]:
        return lambda _: self.optimized.pop(key, None)

    def _forget(self) -> None:
        while self._gone:
            key = self._gone.pop()
            self._followed.pop(key, None)
            for rule in self.rules:
                for table in vars(rule).values():
                    if isinstance(table, dict):
                        table.pop(key, None)
                    elif isinstance(table, set):
                        table.discard(key)

    def stop(self, error: BaseException | None = None) -> None:
        """Stop watching, run the rules' `finish` handlers and sort the findings."""
        from . import patches

        if self.ended:
            return
        if error is not None:
            self.error = type(error).__name__
        patches.remove()
        self.lines.stop()
        self.ended, self.watching = True, False
        self.emit("finish")
        self.findings.sort(key=lambda finding: ORDER[finding.level])

    def watch(self, closely: bool) -> None:
        """Turn close watching on or off."""
        from . import patches

        if closely is not self.watching:
            self.watching = closely
            patches.watch_closely(closely)

    def rest(self) -> None:
        """Stop observing steps until `wake`, so they run at full speed."""
        from . import patches

        if not self.resting:
            self.resting = self.rested = True
            self.watching = False
            patches.watch_steps(False)

    def wake(self) -> None:
        """Observe steps again if affordable. Findings of the next `_UNSURE` updates are dropped,
        because rules missed what came before."""
        from . import patches

        if self.resting and not self.busy and self.clock.affordable:
            self.resting = False
            self.trusted_from = self.updates + _UNSURE
            self.clock.again()
            patches.watch_steps(True)
            self.watch(True)

    # ---------------------------------------------------------------- events

    def emit(self, event: str, *args: Any) -> None:
        """Send an event to the rules and count their time. Calls they make emit no events."""
        self.seen.add(event)
        handlers = self.handlers[event]
        if self.busy:
            return
        if self.lines.waiting:
            self.lines.look()
        if not handlers:
            return
        is_compared = event == "on_backward" and self.watching
        cpu_s = time.thread_time() if is_compared else 0.0
        start_s = time.perf_counter()
        self.busy = True
        if self._gone:
            self._forget()
        try:
            for handler in handlers:
                try:
                    handler(*args)
                except Mistake:
                    raise
                except ExampleRead:  # a single example of a vmap has no readable values
                    continue
                except Exception as error:  # a failing rule must not end the user's program
                    self._drop(handler, error)
        finally:
            self.busy = False
            own_s = time.perf_counter() - start_s
            self.clock.spent_s += own_s + _UNSEEN_S
            if is_compared:
                self.clock.compare(own_s, time.thread_time() - cpu_s)

    def _drop(self, handler: Any, error: Exception) -> None:
        rule = handler.__self__
        self.faults.setdefault(rule.id, f"{type(error).__name__}: {error}")
        for name, handlers in self.handlers.items():
            self.handlers[name] = [h for h in handlers if getattr(h, "__self__", 0) is not rule]

    # ---------------------------------------------------------------- findings

    def report(
        self, id: str, level: Level, message: str, places: tuple[Place, ...],
        evidence: dict[str, Any], fix: str,
    ) -> None:
        """Record a finding, unless a line is marked as intended. A repeat only adds its step."""
        if any({id, "*"} & read_silenced_ids(place.file, place.line) for place in places):
            return
        if is_intended(id, places):
            return
        if self.updates < self.trusted_from and not self.ended:
            return
        of_check = [f for f in self.findings if f.id == id]
        for known in of_check:
            if known.places[:1] == places[:1]:
                if len(known.steps) < 16:
                    known.steps.append(self.clock.passes)
                return
        if len(of_check) >= _SAME_ID:
            return
        finding = Finding(id, level, message, places, evidence, fix, [self.clock.passes])
        self.findings.append(finding)
        if level is not Level.HINT and self.announce is not None:
            self.announce(finding)
        if self.strict and level is Level.CERTAIN and not self.ended:
            raise Mistake(finding)

    # ---------------------------------------------------------------- names

    def name_of(self, target: Any, default: str) -> str:
        """Return the user's name for an object in the running code, or `default`."""
        return find_variable_name(target, find_user_frame(1)) or default

    def parameter_name(self, parameter: Any) -> str:
        """Return a parameter's path in its model, prefixed with the model's name."""
        for root in list(self.roots):
            for path, candidate in root.named_parameters():
                if candidate is parameter:
                    name = find_variable_name(root, sys._getframe(1))
                    return f"{name}.{path}" if name else path
        return find_variable_name(parameter,
                                  sys._getframe(1)) or f"parameter {tuple(parameter.shape)}"

    def parameter_names(self, parameters: Iterable[Any], limit: int = 3) -> str:
        """Return the first `limit` parameter names and the number of further ones."""
        listed = list(parameters)
        names = [self.parameter_name(p) for p in listed[:limit]]
        n_more = len(listed) - len(names)
        return ", ".join(names) + (f" and {n_more} more" if n_more > 0 else "")

    def root_of(self, parameter: Any) -> Any:
        """Return the outermost called module that owns a parameter, or None."""
        for root in list(self.roots):
            if any(p is parameter for p in root.parameters()):
                return root
        return None

    # ---------------------------------------------------------------- results

    def undecided(self) -> dict[str, str]:
        """Return the checks that could not be judged, with reasons."""
        reasons = dict(self.faults)
        reported = {finding.id for finding in self.findings}
        for rule in self.rules:
            unseen = [need for need in rule.needs if not self._has_seen(need, rule)]
            if unseen and rule.id not in reported:
                reasons.setdefault(rule.id, LACKING.get(unseen[0], f"no {unseen[0]} was seen"))
        return dict(sorted(reasons.items()))

    def _has_seen(self, need: str, rule: Rule) -> bool:
        """Return whether an event happened; autograd.grad passes count for rules that use them."""
        if need == "on_backward" and type(rule).on_gradient is not Rule.on_gradient:
            return bool(self.seen & {need, "on_gradient"})
        return need in self.seen

    def passed(self) -> list[str]:
        """Return the ids of checks that were judged and found nothing."""
        not_passed = {finding.id for finding in self.findings} | set(self.undecided())
        return [rule.id for rule in self.rules if rule.id not in not_passed]


LACKING = {
    "on_loss": "no loss function of nn.functional was called",
    "on_backward": "no backward pass was seen",
    "after_backward": "no backward pass was seen",
    "on_step": "no optimizer stepped",
    "after_step": "no optimizer stepped",
    "on_call": "no module was called",
    "on_layer": "no layer was called",
    "on_mode": "neither train() nor eval() was called",
    "on_schedule": "no scheduler stepped",
    "on_scheduler": "there is no scheduler",
    "on_clip": "gradients are not clipped",
    "on_unscale": "there is no GradScaler",
    "on_load": "no state was loaded",
    "on_checkpoint": "torch.load was not called",
    "on_state": "no state_dict was taken",
    "on_batch": "no DataLoader gave a batch",
    "on_loader": "there is no DataLoader",
    "on_threshold": "no predictions were compared",
    "on_seed": "no generator was seeded",
    "on_zero_grad": "zero_grad() was not called",
    "on_module_constructed": "no module was constructed",
    "on_optimizer": "no optimizer was constructed",
    "on_function": "no function that the check looks at was called",
    "on_view": "no tensor was reshaped",
    "on_compare": "no predictions were compared",
    "evaluation": "no evaluation was seen",
    "on_embedding": "no embedding was called",
    "on_parameter": "no parameter was constructed by hand",
    "on_distribution": "no distribution had logits",
    "on_sample": "no distribution with trained parameters was sampled",
    "on_log_prob": "log_prob was not called",
    "on_entropy": "no entropy was computed",
    "on_operand": "nothing that has no gradient was combined with what has one",
    "on_best": "neither argmax nor max along an axis was called",
    "on_moved": "nothing was flipped, rotated or rolled",
    "on_draw": "the program drew no random numbers",
    "on_statistic": "no statistics of columns were taken",
    "on_mixed": "no weights were averaged in place",
    "on_collate": "no collate function of the program's own was called",
    "on_apply": "no Function of the program's own was called",
    "on_iterator": "there was no loop over a DataLoader",
}
