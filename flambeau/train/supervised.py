"""The step that Trainer has unless it is given one: forward, loss, backward, update.

In one piece it is compiled. Where somebody listens to its parts (forward, backward, optim), or
gradients are accumulated or scaled, it runs operator by operator.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import compiler
from ..amp import GradScaler, autocast
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..ops.random import get_rng_state, set_rng_state
from ..tensor import dtypes
from ..tensor.tensor import Tensor
from . import scope
from .data import detached, moved, split
from .measures import Outcome

if TYPE_CHECKING:
    from .trainer import Trainer

_told = False


class Supervised:
    """Steps of `trainer`: `step(batch)` trains, `look(batch)` only looks."""

    def __init__(
        self, trainer: Trainer, *, compiled: bool, precision: Any, accumulate: int,
        clip_norm: float | None, clip_value: float | None,
    ) -> None:  # fmt: skip
        if not isinstance(accumulate, int) or accumulate < 1:
            raise ValueError(f"accumulate counts batches, from 1 on; got {accumulate!r}")
        self.trainer, self.accumulate = trainer, accumulate
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.fast = precision_of(precision)
        self.scaler = GradScaler("cpu") if self.fast is dtypes.float16 else None
        self._live = trainer.handlers.live
        self.pending = 0  # batches whose gradients no update has used yet
        self._clips = clip_norm is not None or clip_value is not None
        self._staged = accumulate > 1 or self.scaler is not None
        # The step in one piece, compiled or not, once it is known which of the two works.
        self._whole: Callable[[Any, Any], tuple[Any, Any]] | None = None
        if not compiled:
            self._whole = self.whole

    # ---- training ----

    def step(self, batch: Any) -> tuple[Any, Any, Any]:
        """One batch: an update, or, accumulating, a part of one."""
        x, y = self._parts(batch)
        live = self._live
        if self._staged or live["forward"] or live["backward"] or live["optim"]:
            loss, y_pred = self._stages(x, y)
        elif self._whole is not None:
            loss, y_pred = self._whole(x, y)
        else:
            loss, y_pred = self._first(x, y)
        return loss, y_pred, y

    def _parts(self, batch: Any) -> tuple[Any, Any]:
        pair = (type(batch) is list or type(batch) is tuple) and len(batch) == 2
        x, y = batch if pair else split(batch)
        device = self.trainer.device
        return (x, y) if device is None else (moved(x, device), moved(y, device))

    def whole(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The step in one piece: (loss, output)."""
        optimizers = self.trainer._optimizers
        for optimizer in optimizers:
            optimizer.zero_grad()
        y_pred, loss = self.forward(x, y)
        loss.backward()
        if self._clips:
            self._clip()
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach(), detached(y_pred)

    def forward(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The output and its loss. Raises ValueError for a loss that is not a scalar."""
        trainer = self.trainer
        if self.fast is None:
            y_pred = trainer.net(x) if type(x) is Tensor else call(trainer.net, x)
            loss = trainer.loss(y_pred, y)
        else:
            with self._region():
                y_pred = call(trainer.net, x)
                loss = trainer.loss(y_pred, y)
        if loss.ndim:
            raise ValueError(
                f"the loss has shape {tuple(loss.shape)}, but training needs a scalar: take its "
                "mean, or reduction='mean'"
            )
        return y_pred, loss

    def _region(self) -> Any:
        if self.fast is None:
            return contextlib.nullcontext()
        return autocast("cpu", dtype=self.fast)

    def _stages(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The same, with its parts as scopes."""
        trainer, n = self.trainer, self.trainer.state.step
        if not self.pending:
            for optimizer in trainer.optimizers.values():
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
        return loss.detach(), detached(y_pred)

    def _update(self, n: int) -> None:
        self.pending = 0
        optimizers = self.trainer.optimizers.values()
        if self.scaler is not None:
            for optimizer in optimizers:
                self.scaler.unscale_(optimizer)
        self._clip()
        with self.trainer.scope(scope.optim, n):
            for optimizer in optimizers:
                optimizer.step() if self.scaler is None else self.scaler.step(optimizer)
        if self.scaler is not None:
            self.scaler.update()

    def flush(self) -> None:
        """At the epoch's end: an update with what was accumulated, as the mean of its batches."""
        if not self.pending:
            return
        for parameter in self.trainer.net.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(self.accumulate / self.pending)
        self._update(self.trainer.state.step)

    def _clip(self) -> None:
        if self.clip_norm is not None:
            clip_grad_norm_(self.trainer.net.parameters(), self.clip_norm)
        if self.clip_value is not None:
            clip_grad_value_(self.trainer.net.parameters(), self.clip_value)

    # ---- compiling ----

    def _first(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The first step, which shows whether it can be compiled."""
        compiled = self._ask_for_compiled()
        random = get_rng_state()
        try:
            outcome = compiled(x, y)
        except NotImplementedError as error:
            if compiled == self.whole:
                raise
            set_rng_state(random)
            self._fall_back(str(error))
            return self.whole(x, y)
        self._whole = compiled
        return outcome

    def _ask_for_compiled(self) -> Callable[[Any, Any], tuple[Any, Any]]:
        why = "flambeau.compile returned it as it is"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nothing is compiled is said below
            try:
                compiled: Any = compiler.compile(self.whole)
            except NotImplementedError as error:
                compiled, why = self.whole, str(error)
        if compiled == self.whole:
            self._fall_back(why)
        return compiled

    def _fall_back(self, why: str) -> None:
        global _told
        self._whole = self.whole
        if not _told:
            _told = True
            warnings.warn(
                f"Trainer: the step is not compiled, it runs operator by operator ({why}); "
                "compile=False asks for that",
                UserWarning,
                stacklevel=_outside(),
            )

    # ---- looking ----

    def look(self, batch: Any) -> Outcome:
        """One batch of an evaluation."""
        x, y = self._parts(batch)
        trainer = self.trainer
        with trainer.scope(scope.forward, trainer.state.step):
            with self._region():
                y_pred = call(trainer.net, x)
                loss = None if trainer.loss is None else trainer.loss(y_pred, y)
            trainer.state.loss, trainer.state.y_pred, trainer.state.y = loss, y_pred, y
        return Outcome(loss, y_pred, y)

    def predict(self, x: Any) -> Any:
        """The net's output."""
        device = self.trainer.device
        with self._region():
            return call(self.trainer.net, x if device is None else moved(x, device))


def _outside() -> int:
    """The stack level of the program that called the trainer."""
    frame, level, package = sys._getframe(1), 1, __name__.rpartition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame, level = frame.f_back, level + 1
    return level


def call(net: Any, x: Any) -> Any:
    """The net of one input, of several (a tuple) or of named ones (a dict)."""
    if isinstance(x, (tuple, list)):
        return net(*x)
    return net(**x) if isinstance(x, dict) else net(x)


def precision_of(precision: Any) -> Any:
    """The dtype of autocast's region; None for float32, which needs none."""
    names = {"float32": None, "bfloat16": dtypes.bfloat16, "float16": dtypes.float16, None: None}
    by_dtype = {dtypes.float32: "float32", dtypes.bfloat16: "bfloat16", dtypes.float16: "float16"}
    name = by_dtype.get(precision, precision) if isinstance(precision, dtypes.dtype) else precision
    if name not in names:
        raise ValueError(f"precision is 'float32', 'bfloat16' or 'float16', got {precision!r}")
    return names[name]
