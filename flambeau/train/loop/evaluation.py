"""Going through data without training: validation, tests, predictions."""

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
    """No gradients, every module in eval mode; afterwards each in the mode that it had."""
    modules = [] if trainer.net is None else [(m, m.training) for m in trainer.net.modules()]
    state, retained = trainer.state, trainer.state.training
    last = {name: getattr(state, name) for name in ("batch", "output", "loss", "y_pred", "y")}
    if trainer.net is not None:
        trainer.net.eval()
    state.training = False
    try:
        with no_grad():
            yield
    finally:
        for module, training in modules:
            module.training = training
        state.training = retained
        vars(state).update(last)


def sweep(
    trainer: Trainer, stage: Stage, data: Any, body: Callable[[Any], Any],
    take: Callable[[Any], None],
) -> int:
    """Call `body` on every batch and `take` on its result; return the number of batches."""
    state, handlers, live = trainer.state, trainer.handlers, trainer.handlers.live
    single, name, n = stage.step, stage.step.name, 0
    for n, batch in enumerate(data, 1):
        state.batch = batch
        frame = None
        try:
            if live[name]:
                frame = handlers.open(single, n)
                handlers.fire(single.start, n)
            state.output = body(batch)
            take(state.output)
            if frame is not None or live[name]:
                handlers.leave(single, n, frame)
        except BaseException as error:
            handlers.fail(single, n, frame, error)
            raise
        if stage is valid and trainer.stopping:
            break
    return n


def join(parts: list[Any]) -> Any:
    """The outputs of all batches as one: tensors along the first axis, inside tuples and dicts."""
    first = parts[0]
    if isinstance(first, Tensor):
        return ops.cat(parts) if first.ndim else ops.stack(parts)
    if isinstance(first, (tuple, list)):
        return tuple(join(list(column)) for column in zip(*parts, strict=True))
    if isinstance(first, dict):
        return {key: join([part[key] for part in parts]) for key in first}
    return parts
