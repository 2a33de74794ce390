"""The training step for the usual batch, (x, y), with its state in its closure.

Every training step runs this: an attribute of the trainer or another call would cost as much as
the rest. Other batches go through `Supervised.step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..metrics.metric import batch_size
from .step_function import Step

if TYPE_CHECKING:
    from ..trainer import Trainer

Body = Callable[[Any], Any]


def build_whole_body(
    trainer: Trainer, attempt: Step, miss: Any, build_and_run: Step, handle_other: Body
) -> Body:
    """Return a step that returns the result of `attempt`, or of `build_and_run` on a `miss`."""
    state, has_metrics = trainer.state, trainer.measures.has_metrics

    def step(batch: Any) -> tuple[Any, Any, Any]:
        batch_type = type(batch)
        if (batch_type is not list and batch_type is not tuple) or len(batch) != 2:
            return handle_other(batch)
        x, y = batch
        result = attempt(x, y)
        loss, y_pred = build_and_run(x, y) if result is miss else result
        state.loss, state.y_pred, state.y = loss, y_pred, y
        measures = trainer.measures
        try:
            size = state.size = len(y._array)
        except (AttributeError, TypeError):  # several targets, or a single number
            size = state.size = batch_size(y_pred, y)
        measures.loss_sum += float(loss._array) * size
        measures.loss_weight += size
        if has_metrics:
            measures.group.update(y_pred, y)
        return loss, y_pred, y

    return step
