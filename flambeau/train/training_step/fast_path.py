"""The training step for the usual batch, (x, y), with all it needs at hand.

Every step of a training comes by here, and a call, or a look at the trainer, costs as much as the
rest of it; what is unusual goes through `Supervised.step`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...native.foundation.reference_counts import ARGUMENT_REFERENCES
from ...tensor.tensor import Tensor, wrap
from ..state.data import detached
from .step_function import Step, call, check_loss
from ..metrics.metric import batch_size

if TYPE_CHECKING:
    from ..trainer import Trainer

Body = Callable[[Any], Any]


def eager_body(trainer: Trainer, optimizer: Any, general: Body) -> Body:
    """A step that runs operator by operator, with one optimiser: `train_step_of` written out. The
    first one goes through `general`, which looks at the loss."""

    def first(batch: Any) -> Any:
        outcome, kind = general(batch), type(batch)
        if trainer._body is first and (kind is list or kind is tuple):
            trainer.take(_pair_body(trainer, optimizer, general, kind))
        return outcome

    return first


def _pair_body(trainer: Trainer, optimizer: Any, general: Body, kind: Any) -> Body:
    """The same for batches of this type that have two parts."""
    net, criterion, state, count = trainer.net, trainer.loss, trainer.state, sys.getrefcount

    def step(batch: Any) -> tuple[Any, Any, Any]:
        if type(batch) is not kind or len(batch) != 2:
            return general(batch)
        x, y = batch
        optimizer.zero_grad()
        y_pred = net(x) if type(x) is Tensor else call(net, x)
        loss = criterion(y_pred, y)
        try:
            loss.backward()
        except (AttributeError, RuntimeError):
            check_loss(loss)  # what it says is clearer, if that is why
            raise
        optimizer.step()
        # Without their history: themselves, where nobody else has them.
        if (
            count(loss) + count(y_pred) == _BOTH_ALONE and type(y_pred) is Tensor
            and loss._base is None and y_pred._base is None
        ):
            loss._node = y_pred._node = None
            loss._requires_grad = loss._tracked = False
            y_pred._requires_grad = y_pred._tracked = False
        else:
            loss, y_pred = wrap(loss._array), detached(y_pred)
        state.loss, state.y_pred, state.y = loss, y_pred, y
        measures = trainer.measures
        try:
            size = state.size = len(y._array)
        except (AttributeError, TypeError):  # several targets, or a single number
            size = state.size = batch_size(y_pred, y)
        measures.loss_sum += float(loss._array) * size
        measures.loss_weight += size
        if measures.metrics:
            measures.group.update(y_pred, y)
        return loss, y_pred, y

    return step


def whole_body(trainer: Trainer, attempt: Step, missed: Any, make: Step, general: Body) -> Body:
    """A step that is one call: what `attempt` gives, or, where that is `missed`, `make`."""
    state, metered = trainer.state, trainer.measures.metrics

    def step(batch: Any) -> tuple[Any, Any, Any]:
        kind = type(batch)
        if (kind is not list and kind is not tuple) or len(batch) != 2:
            return general(batch)
        x, y = batch
        result = attempt(x, y)
        loss, y_pred = make(x, y) if result is missed else result
        state.loss, state.y_pred, state.y = loss, y_pred, y
        measures = trainer.measures
        try:
            size = state.size = len(y._array)
        except (AttributeError, TypeError):  # several targets, or a single number
            size = state.size = batch_size(y_pred, y)
        measures.loss_sum += float(loss._array) * size
        measures.loss_weight += size
        if metered:
            measures.group.update(y_pred, y)
        return loss, y_pred, y

    return step


# What is counted for two objects, each of which one local name alone stands for.
_BOTH_ALONE = 2 * (1 + ARGUMENT_REFERENCES)
