"""The training step as one function of the batch, compiled if possible.

Its closure holds only the net, the loss and the optimizers, so that the compiler sees only what
belongs to the step, and not the trainer.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any


from ... import compiler
from ...native.foundation.reference_counts import ARGUMENT_REFERENCES, PARAMETER_REFERENCES
from ...native.foundation.user_frames import warn
from ...nn.utils import clip_grad_norm_, clip_grad_value_
from ...ops.creation.random import get_rng_state, set_rng_state
from ...tensor.tensor import Tensor, wrap
from ..state.data import detach_tensors

Step = Callable[..., Any]
Region = Callable[[], contextlib.AbstractContextManager[Any]]

_warned = False


def call_net(net: Any, x: Any) -> Any:
    """Call the net with one input, several (a tuple or list) or named inputs (a dict)."""
    if type(x) is Tensor:
        return net(x)
    if isinstance(x, (tuple, list)):
        return net(*x)
    return net(**x) if isinstance(x, dict) else net(x)


def check_loss(loss: Any) -> None:
    """Raise TypeError unless the loss is a tensor, and ValueError unless it is a scalar that
    requires grad."""
    if not isinstance(loss, Tensor):
        raise TypeError(f"the loss is a {type(loss).__name__}, but training needs a tensor")
    if loss.ndim:
        raise ValueError(
            f"the loss has shape {tuple(loss.shape)}, but training needs a scalar: take its mean, "
            "or reduction='mean'"
        )
    if not loss.requires_grad:
        raise ValueError(
            "the loss does not require grad: it or the network's output was detached (detach(), "
            "item(), numpy(), no_grad), or it depends on no trainable parameter"
        )


def build_train_step(
    net: Any, loss: Any, optimizers: tuple[Any, ...], clip: Callable[[], None] | None,
    region: Region | None, recorded: bool, count: int = 1,
) -> Step:
    """Return the function `(x, y)` that makes one update and returns the loss and the output.

    If `count` batches make an update together, it also takes `first` and `last`. The results are
    detached: by `detach` if a compiler records the step, else by the much cheaper `_drop_graph`.
    """
    detach: Any = Tensor.detach if recorded else _drop_graph

    def train_step(x: Any, y: Any, first: bool = True, last: bool = True) -> tuple[Any, Any]:
        if first:
            for optimizer in optimizers:
                optimizer.zero_grad()
        if region is None:
            y_pred = net(x) if type(x) is Tensor else call_net(net, x)
            value = loss(y_pred, y)
        else:
            with region():
                y_pred = call_net(net, x)
                value = loss(y_pred, y)
        if type(value) is not Tensor or value._array.ndim or value._node is None:
            check_loss(value)
        (value if count == 1 else value / count).backward()
        if last:
            if clip is not None:
                clip()
            for optimizer in optimizers:
                optimizer.step()
        return detach(value), detach(y_pred) if type(y_pred) is Tensor else detach_tensors(y_pred)

    return train_step


def _drop_graph(tensor: Tensor) -> Tensor:
    """Return the tensor without its graph: itself, if nothing but one variable of the caller refers
    to it, else a new tensor on the same array."""
    if sys.getrefcount(tensor) == _UNSHARED and tensor._node is not None and tensor._base is None:
        tensor._node = None
        tensor._requires_grad = tensor._tracked = False
        return tensor
    return wrap(tensor._array)


# The reference count inside `_drop_graph` of a tensor that only the caller's variable refers to.
_UNSHARED = 1 + PARAMETER_REFERENCES + ARGUMENT_REFERENCES


def build_clip(net: Any, norm: float | None, value: float | None) -> Callable[[], None] | None:
    """Return a function that clips the net's gradients, or None if nothing is clipped."""
    if norm is None and value is None:
        return None

    def clip() -> None:
        if norm is not None:
            clip_grad_norm_(net.parameters(), norm)
        if value is not None:
            clip_grad_value_(net.parameters(), value)

    return clip


def compile_on_first_call(step: Step, adopt: Callable[[Step, float], None]) -> Step:
    """Return a step that tries the compiler at its first call, then calls `adopt` with the step to
    use from then on and the seconds that the call took.

    If the compiler raises NotImplementedError or returns the function unchanged, the plain step
    is used, with one warning.
    """

    def try_compiled(*batch: Any) -> tuple[Any, Any]:
        compiled = try_compile(step)
        random = get_rng_state()
        began = perf_counter()
        try:
            outcome = compiled(*batch)
        except NotImplementedError as error:
            if compiled is step:
                raise
            set_rng_state(random)
            warn_uncompiled(str(error))
            compiled, outcome = step, step(*batch)
        adopt(compiled, perf_counter() - began)
        return outcome

    return try_compiled


def try_compile(step: Step, **options: Any) -> Step:
    """Compile the step with flambeau.compile; if that fails, warn and return the step unchanged."""
    why = "flambeau.compile returned it unchanged"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warn_uncompiled warns instead
        try:
            compiled: Step = compiler.compile(step, **options)
        except NotImplementedError as error:
            compiled, why = step, str(error)
    if compiled is step:
        warn_uncompiled(why)
    return compiled


def warn_uncompiled(why: str) -> None:
    """Warn, once per process, that steps are not compiled, and why."""
    global _warned
    if not _warned:
        _warned = True
        warn(
            f"Trainer: the step is not compiled and runs operator by operator ({why}). Pass "
            "compile=False to silence this warning",
            UserWarning,
        )
