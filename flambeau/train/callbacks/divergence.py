"""Stop the run at NaN or infinity, and name the origin."""

from __future__ import annotations

import math
from typing import Any

from ... import ops
from ...native.foundation.user_frames import warn
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ..events.order import Band
from ..state.data import detach_tensors


class TerminateOnNaN:
    """Stop the run when a loss is NaN or infinite, and name the first non-finite parameter.

    Also checks the parameters at the end of each epoch. Warns, and leaves the previous checkpoint
    in place; `raises=True` raises FloatingPointError instead.

    >>> from flambeau.train import Trainer
    >>> watch = TerminateOnNaN(raises=True)
    >>> trainer = Trainer(nn.Linear(1, 1), "sgd", "mse", compile=False, callbacks=[watch])
    >>> trainer.fit((torch.tensor([[float("nan")]]), torch.zeros(1, 1)), epochs=1)
    Traceback (most recent call last):
        ...
    FloatingPointError: epoch 1, step 1: the loss is nan; ...
    """

    band = Band.CONTROL

    def __init__(self, *, raises: bool = False) -> None:
        self.raises = raises

    def on_step_end(self, run: Any) -> None:
        """Check the loss."""
        loss = run.state.loss
        if loss is None:
            output = detach_tensors(run.state.output)
            loss = sum(map(float, output.values())) if isinstance(output, dict) else None
        value = 0.0 if loss is None else float(detach_tensors(loss))
        if not math.isfinite(value):
            self._stop_diverged(run, f"the loss is {value}")

    def on_epoch_end(self, run: Any) -> None:
        """Check the parameters."""
        name = None if run.state.diverged else find_not_finite(run.net)
        if name is not None:
            self._stop_diverged(run, f"the loss is finite, but the net is not: {name}")

    def _stop_diverged(self, run: Any, problem: str) -> None:
        state = run.state
        state.diverged = True
        causes = [_describe_batch(state.batch), _locate_in_net(run.net)]
        position = f"epoch {state.epoch}, step {state.step}"
        message = "; ".join([f"{position}: {problem}", *filter(None, causes)])
        if self.raises:
            raise FloatingPointError(message)
        warn(f"{message}. The run stops here", UserWarning)
        run.stop()


def _describe_batch(batch: Any) -> str:
    finite = all(map(is_finite, collect_leaves(Tensor, batch)))
    return "" if finite else "the batch itself has numbers that are not finite"


def _locate_in_net(net: Any) -> str:
    if net is None:
        return ""
    parameters = list(net.named_parameters())
    for name, parameter in parameters:
        if not is_finite(parameter):
            return f"the first parameter with such numbers is {_describe(name, parameter)}"
    for name, parameter in parameters:
        if parameter.grad is not None and not is_finite(parameter.grad):
            return f"the first gradient with such numbers is {_describe(name, parameter.grad)}"
    return "the parameters are finite"


def find_not_finite(net: Any) -> str | None:
    """Describe the first parameter or buffer with NaN or infinity; None if all are finite."""
    if net is None:
        return None
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        if not is_finite(tensor):
            return _describe(name, tensor)
    return None


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinity."""
    tensor = tensor.detach()
    return not tensor.is_floating_point() or bool(ops.isfinite(tensor).all())


def _describe(name: str, tensor: Tensor) -> str:
    count = int((~ops.isfinite(tensor.detach())).sum())
    return f"'{name}' ({count} of {tensor.numel()} numbers)"
