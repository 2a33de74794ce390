"""The training step for the usual batch, (x, y), with all that it needs in its closure.

Every training step runs this, and a call or an attribute of the trainer would cost as much as the
rest; unusual batches go through `Supervised.step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..metrics.metric import batch_size
from .step_function import Step

if TYPE_CHECKING:
    from ..trainer import Trainer

Body = Callable[[Any], Any]


def build_whole_body(trainer: Trainer, attempt: Step, missed: Any, make: Step, general: Body
                     ) -> Body:
    """A step that is one call: the result of `attempt`, or of `make` if that is `missed`."""
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
