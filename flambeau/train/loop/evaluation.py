"""Run the net over data without training: validation, tests, predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ... import ops
from ...autograd.mode import no_grad
from ...tensor.tensor import Tensor
from ..events.scope import Stage, valid

if TYPE_CHECKING:
    from ..trainer import Trainer


@contextmanager
def observe(trainer: Trainer) -> Iterator[None]:
    """Disable gradients and put modules into eval mode; restore modes and state afterwards."""
    modules = [] if trainer.net is None else [(m, m.training) for m in trainer.net.modules()]
    state, was_training = trainer.state, trainer.state.training
    last_step = {name: getattr(state, name) for name in ("batch", "output", "loss", "y_pred", "y")}
    if trainer.net is not None:
        trainer.net.eval()
    state.training = False
    try:
        with no_grad():
            yield
    finally:
        for module, training in modules:
            module.training = training
        state.training = was_training
        vars(state).update(last_step)


def sweep(
    trainer: Trainer, stage: Stage, data: Any, body: Callable[[Any], Any],
    take: Callable[[Any], None],
) -> int:
    """Call `body` on every batch and `take` on its result; return the number of batches."""
    state, handlers, live = trainer.state, trainer.handlers, trainer.handlers.live
    step, name, n = stage.step, stage.step.name, 0
    for n, batch in enumerate(data, 1):
        state.batch = batch
        frame = None
        try:
            if live[name]:
                frame = handlers.open(step, n)
                handlers.fire(step.start, n)
            state.output = body(batch)
            take(state.output)
            if frame is not None or live[name]:
                handlers.leave(step, n, frame)
        except BaseException as error:
            handlers.fail(step, n, frame, error)
            raise
        if stage is valid and trainer.stopping:
            break
    return n


def join(outputs: list[Any]) -> Any:
    """Concatenate the outputs of all batches along the first axis, inside tuples and dicts."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return ops.cat(outputs) if first.ndim else ops.stack(outputs)
    if isinstance(first, (tuple, list)):
        return tuple(join(list(column)) for column in zip(*outputs, strict=True))
    if isinstance(first, dict):
        return {key: join([output[key] for output in outputs]) for key in first}
    return outputs
