"""Trainer's default step: forward, loss, backward, update.

It is compiled as a whole. If its parts (forward, backward, optim) have listeners, or gradients are
scaled (float16), it runs eagerly.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..._namespace.settings import are_deterministic_algorithms_enabled
from ...amp import GradScaler, autocast
from ...autograd.handle import HANDLES
from ...tensor import dtypes
from ..events import scope
from ..events.handlers import INSIDE
from ..metrics.metric import batch_size
from ..state.data import detach_tensors, move, split
from ..state.epoch_numbers import Outcome
from .adaptive import Frequent
from .batch_kinds import BatchKinds
from .evaluation_step import Look
from .fast_path import Body, build_whole_body
from .model_loss import find_loss, find_output_loss, find_predictions, split_mapping, weigh_samples
from .step_function import (
    Region, Step, build_clip, build_train_step, call_net, check_loss, compile_on_first_call,
    try_compile, warn_uncompiled,
)
from .user_hooks import DOCTOR, find_observer

if TYPE_CHECKING:
    from ..trainer import Trainer


# Seconds of eager steps remaining above which a step waits for its program: compiled in the
# background it would take three times as long, and slow the steps by a factor of two meanwhile.
_LONG = 20.0


class Supervised:
    """The steps of `trainer`: `step(batch)` trains, `look(batch)` evaluates."""

    def __init__(
        self, trainer: Trainer, *, compiled: bool, precision: Any, accumulate: int,
        clip_norm: float | None, clip_value: float | None, weighted: bool = False,
    ) -> None:
        _check_settings(accumulate, clip_norm, clip_value)
        self.trainer, self.accumulate, self.weighted = trainer, accumulate, weighted
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.fast = as_autocast_dtype(precision)
        self.scaler = GradScaler("cpu") if self.fast is dtypes.float16 else None
        self.listen()
        self.pending = 0  # batches whose gradients no update has used yet
        self.region = find_region(self.fast)
        self.compiled = compiled
        self.kinds, self.look_kinds = BatchKinds(), BatchKinds()
        self._looks: dict[tuple[int, bool], Look] = {}  # by net: averaged nets have their own
        self.hooked = False  # whether a user's hook prevents compiling
        self._handles = -1  # the count of hook changes at the last check
        self._whole: Step
        self.renew()

    def listen(self) -> None:
        """Read the trainer's current table of handlers."""
        self._live = self.trainer.handlers.live
        if "_whole" in vars(self):
            self.choose()

    # ---- training ----

    def step(self, batch: Any) -> tuple[Any, Any, Any]:
        """Train on a batch: an update, or part of one when accumulating."""
        x, y = self._split_batch(batch)
        if self.scaler is not None or self._live[INSIDE]:
            loss, y_pred = self._run_stages(x, y)
        elif self.accumulate == 1:
            loss, y_pred = self._make(x, y)
        else:
            last = self.pending + 1 == self.accumulate
            loss, y_pred = self._make(x, y, not self.pending, last)
            self.pending = 0 if last else self.pending + 1
        measures, state = self.trainer.measures, self.trainer.state
        state.loss, state.y_pred, state.y = loss, y_pred, y
        size = state.size = batch_size(y_pred, y)
        measures.loss_sum += loss.item() * size
        measures.loss_weight += size
        measures.group.update(find_predictions(y_pred), y[0] if self.weighted else y)
        return loss, y_pred, y

    def _build_quick_step(self) -> Body:
        """Return the step for the usual batch, with its dependencies bound in advance."""
        trainer, whole_step = self.trainer, self._whole
        attempt = getattr(whole_step, "attempt", None)
        if attempt is not None:
            from ...native.runtime.frameless_call import MISS  # the compiler is imported by now

            return build_whole_body(trainer, attempt, MISS, self._make, self.step)
        return build_whole_body(trainer, whole_step, None, self._make, self.step)

    def _make(self, *batch: Any) -> Any:
        """Run the whole step, compiled or not, after checking for hooks added since the last call.
        """
        if self.compiled and HANDLES.count != self._handles:
            self.attend()
        return self._whole(*batch)

    def choose(self) -> None:
        """Give the trainer the fast step if nothing needs the general step."""
        plain = self.accumulate == 1 and self.scaler is None and self.trainer.device is None
        plain = plain and not self.weighted and self.trainer.loss is not None
        is_quick = plain and not self._live[INSIDE]
        self.trainer.take(self._build_quick_step() if is_quick else self.step)

    def _choose_criterion(self) -> Any:
        """Return the trainer's loss, or the loss in the net's output."""
        loss = self.trainer.loss
        if loss is None:
            return find_output_loss
        return weigh_samples(loss) if self.weighted else loss

    def _split_batch(self, batch: Any) -> tuple[Any, Any]:
        pair = (type(batch) is list or type(batch) is tuple) and len(batch) == 2
        x: Any
        if isinstance(batch, Mapping):
            x, y = split_mapping(batch, self.trainer.loss is None)
        elif self.weighted and not pair:
            *x, target, weight = batch
            x, y = x[0] if len(x) == 1 else tuple(x), (target, weight)
        else:
            x, y = batch if pair else split(batch)
        device = self.trainer.device
        return (x, y) if device is None else (move(x, device), move(y, device))

    def prepare_inputs(self, batch: Any) -> Any:
        """Return a batch's inputs in the form the net takes."""
        return self._split_batch(batch)[0]

    def renew(self) -> None:
        """Rebuild the step after the net, the loss or an optimizer was replaced."""
        self._looks.clear()
        net, loss = self.trainer.net, self._choose_criterion()
        self.criterion = loss
        self._optimizers = tuple(self.trainer.optimizers.values())
        self._clip = build_clip(net, self.clip_norm, self.clip_value)
        parts = net, loss, self._optimizers, self._clip
        region = None if self.fast is None else self.region
        step = build_train_step(*parts, region, self.compiled, self.accumulate)
        # In eager calls, accumulated gradients occupy new memory in each round, so a recording in
        # the background could not refer to them.
        exact = are_deterministic_algorithms_enabled() or self.accumulate > 1
        if self.compiled and exact:
            from .deterministic import ExactStep  # brings the compiler

            self._whole = ExactStep(step, (net, loss), self._optimizers, self.kinds)
        else:
            self._whole = compile_on_first_call(step, self._adopt) if self.compiled else step

        self._plain = step
        if self.hooked:
            self._whole = step
        self.choose()

    def _adopt(self, step: Step, seconds: float) -> None:
        """Take over a step whose first call took `seconds`."""
        if self.hooked:
            return
        self._whole = step
        if hasattr(step, "attempt"):
            first = None
            if not getattr(step, "ready", True) and seconds * self._count_remaining() > _LONG:
                first = try_compile(self._plain, mode="now")
            self._whole = Frequent(step, self._plain, first)
        self.choose()

    def _count_remaining(self) -> int:
        """Return how many training batches remain, as far as known."""
        state = self.trainer.state
        epochs = max((state.epochs or 0) - state.epoch + 1, 0)
        return epochs * (state.batches or 0) - state.batch_number

    def attend(self) -> None:
        """Check for hooks, which must be called: before an epoch or an evaluation, and after hooks
        were added."""
        if not self.compiled:
            return
        self._handles = HANDLES.count
        who = find_observer((self.trainer.net, self.trainer.loss), self._optimizers)
        if who is not None and who != DOCTOR and not self.hooked:
            warn_uncompiled(f"{who} has a hook, which runs inside the step")
        if self.hooked is not (who is not None):
            self.hooked = who is not None
            self.renew()

    def forward(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the output and its loss. Raises ValueError if the loss requires no gradient."""
        with self.region():
            y_pred = call_net(self.trainer.net, x)
            loss = self.criterion(y_pred, y)
        check_loss(loss)
        return y_pred, loss

    def _run_stages(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Run the step with its parts as scopes, for handlers of those scopes."""
        trainer, n = self.trainer, self.trainer.state.step
        if self.compiled:
            self._tell()
        if not self.pending:
            for optimizer in self._optimizers:
                optimizer.zero_grad()
        with trainer.scope(scope.forward, n):
            y_pred, loss = self.forward(x, y)
            trainer.state.loss, trainer.state.y_pred = loss, y_pred
            trainer.state.y = y
        with trainer.scope(scope.backward, n):
            scaled = loss if self.accumulate == 1 else loss / self.accumulate
            (scaled if self.scaler is None else self.scaler.scale(scaled)).backward()
        self.pending += 1
        if self.pending == self.accumulate:
            self._update(n)
        return loss.detach(), detach_tensors(y_pred)

    def _tell(self) -> None:
        """Warn why the step is not compiled although requested."""
        if self.scaler is not None:
            warn_uncompiled("float16 scales the loss and inspects the gradients before each update")
            return
        inside = [stage.name for stage in (scope.forward, scope.backward, scope.optim)
                  if self._live[stage.name]]
        warn_uncompiled(f"a handler listens to {' and '.join(inside)}, inside the step")

    def _update(self, n: int) -> None:
        self.pending = 0
        if self.scaler is not None:
            for optimizer in self._optimizers:
                self.scaler.unscale_(optimizer)
        if self._clip is not None:
            self._clip()
        with self.trainer.scope(scope.optim, n):
            for optimizer in self._optimizers:
                optimizer.step() if self.scaler is None else self.scaler.step(optimizer)
        if self.scaler is not None:
            self.scaler.update()

    def flush(self) -> None:
        """At the epoch's end, update with the mean of the gradients accumulated so far."""
        if not self.pending:
            return
        for parameter in _collect_parameters(self._optimizers):
            if parameter.grad is not None:
                parameter.grad.mul_(self.accumulate / self.pending)
        self._update(self.trainer.state.step)

    # ---- looking ----

    def look(self, batch: Any) -> Outcome:
        """Evaluate a batch."""
        x, y = self._split_batch(batch)
        trainer, state, look = self.trainer, self.trainer.state, self._look()
        with trainer.scope(scope.forward, state.step):
            function = look.plain if self._live["forward"] else look.look
            state.loss, state.y_pred = function(x, y)
            state.y = y
        return Outcome(state.loss, find_predictions(state.y_pred), y[0] if self.weighted else y)

    def _judge(self) -> Any:
        """Return the loss of evaluations; without a `loss`, one that may return None."""
        return self.criterion if self.trainer.loss is not None else _find_loss_or_none

    def expect(self, batches: int) -> None:
        """Announce the number of evaluation batches to come."""
        self._look().expect(batches)

    def predict(self, x: Any) -> Any:
        """Return the net's output."""
        device = self.trainer.device
        return self._look().predict(x if device is None else move(x, device))

    def _look(self) -> Look:
        trainer = self.trainer
        net = trainer.net if trainer.averaged is None else trainer.averaged
        known = self._looks.get((id(net), self.hooked))
        if known is None:
            region = None if self.fast is None else self.region
            compiled = self.compiled and not self.hooked
            known = Look(net, self._judge(), region, compiled, self.look_kinds)
            self._looks[id(net), self.hooked] = known
        return known


def _check_settings(
    accumulate: int, clip_norm: float | None, clip_value: float | None
) -> None:
    if not isinstance(accumulate, int) or accumulate < 1:
        raise ValueError(f"accumulate must be at least 1 batch, got {accumulate!r}")
    for name, limit in (("clip_norm", clip_norm), ("clip_value", clip_value)):
        if limit is not None and not limit > 0:
            raise ValueError(f"{name} must be positive, got {limit!r}")


def _collect_parameters(optimizers: Iterable[Any]) -> Iterable[Any]:
    """Return all parameters of some optimizers, each once."""
    by_id = {id(parameter): parameter for optimizer in optimizers
             for group in optimizer.param_groups for parameter in group["params"]}
    return by_id.values()


def _find_loss_or_none(output: Any, target: Any) -> Any:
    return find_loss(output)


def as_autocast_dtype(precision: Any) -> Any:
    """Return the autocast dtype; None for float32, which needs no autocast."""
    names = {"float32": None, "bfloat16": dtypes.bfloat16, "float16": dtypes.float16, None: None,
             "fp32": None, "bf16": dtypes.bfloat16, "fp16": dtypes.float16}
    by_dtype = {dtypes.float32: "float32", dtypes.bfloat16: "bfloat16", dtypes.float16: "float16"}
    name = by_dtype.get(precision, precision) if isinstance(precision, dtypes.dtype) else precision
    if name not in names:
        raise ValueError(f"precision must be 'float32', 'bfloat16' or 'float16', got {precision!r}")
    return names[name]


def find_region(fast: Any) -> Region:
    """Return the factory of autocast contexts, or of null contexts."""
    if fast is None:
        return contextlib.nullcontext
    return functools.partial(autocast, "cpu", dtype=fast)
