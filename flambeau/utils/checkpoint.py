"""Activation checkpointing: recompute tensors in backward instead of saving them.

Non-reentrant (`use_reentrant=False`): the function is recorded as usual, but each saved tensor is
replaced by a ticket. When backward unpacks the first ticket, the function runs again until every
ticket has its tensor. Reentrant: a single autograd node whose backward runs the function and its
backward.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ..autograd import Function, backward, enable_grad, is_grad_enabled, no_grad
from ..autograd.engine import get_task_number, is_checkpoint_valid
from ..autograd.graph import saved_tensors_hooks
from ..native.foundation.user_frames import warn
from ..ops.core.autocast import get_autocast_settings, with_autocast_settings
from ..tensor import Tensor
from ..tensor.random.generator import default_generator
from .checkpoint_debug import CheckpointDebugLogs
from .checkpoint_modes import list_lasting_modes, resume_modes
from .selective_checkpoint import (
    CheckpointPolicy, SelectiveCheckpointContext, _CachedTorchDispatchMode,
    _CachingTorchDispatchMode, create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType",
    "SelectiveCheckpointContext", "_CachedTorchDispatchMode", "_CachingTorchDispatchMode",
    "check_backward_validity", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop", "set_device_states",
]

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(RuntimeError):
    """The recomputation did not save the same tensors as the forward.

    >>> issubclass(torch.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


class _StopRecomputing(Exception):
    """Every ticket has its tensor: stop the recomputation early."""


class _Settings:
    early_stop: bool | None = None
    debug: bool | None = None


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing, for the forward and the recomputation.

    >>> around_first, around_second = torch.utils.checkpoint.noop_context_fn()
    """
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Context that stops recomputation as soon as possible, or with False runs it to the end.

    >>> with torch.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     pass
    """
    previous, _Settings.early_stop = _Settings.early_stop, enable
    try:
        yield
    finally:
        _Settings.early_stop = previous


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Context that overrides `debug`: report mismatches with the operators of both runs, or not.

    >>> with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     pass
    """
    previous, _Settings.debug = _Settings.debug, enabled
    try:
        yield
    finally:
        _Settings.debug = previous


@contextmanager
def _restore_random_state(state: Any) -> Iterator[None]:
    """Context that draws random numbers from `state` (None: no change) and restores the state."""
    if state is None:
        yield
        return
    previous = default_generator.get_state()
    default_generator.set_state(state)
    try:
        yield
    finally:
        default_generator.set_state(previous)


# --------------------------------------------------------------------------- non-reentrant


class _Ticket:
    """Placeholder for a saved tensor."""

    __slots__ = ("__weakref__",)


def _describe(x: Tensor) -> dict[str, Any]:
    return {"shape": tuple(x.shape), "dtype": x.dtype, "device": x.device}


class _Region:
    """One call of a checkpointed function: how to rerun it, and the tickets it issued."""

    def __init__(self, run: Callable[[], Any], check: bool, early_stop: bool) -> None:
        self.run, self.check, self.early_stop = run, check, early_stop
        self.tickets: list[weakref.ref[_Ticket]] = []
        self.descriptions: list[dict[str, Any]] = []
        self.tensors: weakref.WeakKeyDictionary[_Ticket, Tensor] = weakref.WeakKeyDictionary()
        self.count = 0
        # The number of the backward pass that last unpacked each ticket.
        self.unpacked: weakref.WeakKeyDictionary[_Ticket, int] = weakref.WeakKeyDictionary()
        self.complete = False  # whether the first run has ended: a function may run backward inside

    def pack(self, x: Tensor) -> _Ticket:
        """Forward: replace a saved tensor by a ticket."""
        ticket = _Ticket()
        self.tickets.append(weakref.ref(ticket))
        if self.check:
            self.descriptions.append(_describe(x))
        return ticket

    def unpack(self, ticket: _Ticket) -> Tensor:
        """Backward: return the tensor of a ticket, once, so that it can be freed."""
        number = get_task_number()
        if ticket not in self.tensors:
            if number is not None and number == self.unpacked.get(ticket):
                raise CheckpointError(
                    "torch.utils.checkpoint: Unpack is being triggered for a tensor that was "
                    "already unpacked once. If you are calling ctx.saved_tensors in backward, make "
                    "sure to do so only once. Otherwise please open an issue with details on your "
                    "use case."
                )
            self.recompute()
        if number is not None:
            self.unpacked[ticket] = number
        return self.tensors.pop(ticket)

    def recompute(self) -> None:
        """Run the function again and keep the tensors of its tickets."""
        self.count = 0
        try:
            with saved_tensors_hooks(self.keep, lambda x: x), enable_grad():
                self.run()
        except _StopRecomputing:
            pass
        if self.complete and self.count != len(self.tickets):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.tickets)}\n"
                f"Number of tensors saved during recomputation: {self.count}."
            )

    def keep(self, x: Tensor) -> Tensor:
        """Recomputation: store the tensor under the ticket of the same number."""
        number, self.count = self.count, self.count + 1
        if number >= len(self.tickets):
            if not self.complete:
                return x  # saved after the function's inner backward unpacked a ticket
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than "
                f"during the original forward pass, which saved {len(self.tickets)}."
            )
        if self.check and self.descriptions[number] != _describe(x):
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass.\n"
                f"tensor at position {number}:\nsaved metadata: {self.descriptions[number]}\n"
                f"recomputed metadata: {_describe(x)}"
            )
        ticket = self.tickets[number]()
        retained = x.detach() if x.requires_grad else x  # its history would keep the second graph
        if ticket is not None:
            self.tensors[ticket] = retained
        if self.early_stop and self.count == len(self.tickets):
            raise _StopRecomputing
        return retained


def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], preserve: bool,
    context_fn: Callable[[], Contexts], check: bool, early_stop: bool,
    logs: CheckpointDebugLogs | None,
) -> Any:
    outer, inner = context_fn()
    state = default_generator.get_state() if preserve else None
    settings, modes = get_autocast_settings(), list_lasting_modes()

    def run_again() -> None:
        with _restore_random_state(state), with_autocast_settings(settings), \
                resume_modes(modes), inner:
            function(*args, **kwargs)

    if not is_grad_enabled():
        with outer:
            return function(*args, **kwargs)
    region = _Region(run_again, check, early_stop)

    def unpack(ticket: _Ticket) -> Tensor:
        try:
            return region.unpack(ticket)
        except CheckpointError as error:
            if logs is None:
                raise
            raise CheckpointError(str(logs)) from error

    with saved_tensors_hooks(region.pack, unpack), outer:
        result = function(*args, **kwargs)
    region.complete = True
    return result


# ------------------------------------------------------------------------------- reentrant


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detach tensors from their history, keeping requires_grad; return other inputs unchanged.

    >>> x = torch.ones(2, requires_grad=True) * 2
    >>> (y,) = torch.utils.checkpoint.detach_variable((x,))
    >>> y.is_leaf, y.requires_grad
    (True, True)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    detached = []
    for x in inputs:
        if isinstance(x, Tensor):
            leaf = x.detach()
            leaf.requires_grad = x.requires_grad
            detached.append(leaf)
        else:
            detached.append(x)
    return tuple(detached)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad: parameters would get no gradient either.

    >>> torch.utils.checkpoint.check_backward_validity([torch.ones(1, requires_grad=True)])
    """
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warn(
            "None of the inputs have requires_grad=True. Gradients will be None"
        )


class CheckpointFunction(Function):
    """Reentrant checkpointing: unrecorded forward; backward reruns it and backpropagates."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function without recording; save only its inputs."""
        check_backward_validity(args)
        ctx.run_function, ctx.modes = run_function, list_lasting_modes()
        ctx.state = default_generator.get_state() if preserve_rng_state else None
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function again, recorded, and backpropagate through it."""
        if not is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.others)
        for position, x in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[position] = x
        leaves = detach_variable(tuple(inputs))
        with enable_grad(), _restore_random_state(ctx.state), resume_modes(ctx.modes):
            outputs = ctx.run_function(*leaves)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (y, g)
            for y, g in zip(outputs, grads, strict=False)
            if isinstance(y, Tensor) and y.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([y for y, _ in pairs], [g for _, g in pairs])
        return (None, None, *[x.grad if isinstance(x, Tensor) else None for x in leaves])


# --------------------------------------------------------------------------------- public


def _decide_reentrant(use_reentrant: bool | None, name: str) -> bool:
    if use_reentrant is None:
        warn(
            f"{name}: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default "
            "behavior, you can pass use_reentrant=True.",
        )
        return True
    return use_reentrant


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Compute `function(*args, **kwargs)`; recompute its intermediate tensors in backward.

    `preserve_rng_state=True` (a keyword) repeats the random numbers of the first run.
    `determinism_check="none"` skips comparing shapes and dtypes of the two runs. With
    `use_reentrant=True` the function takes no keywords and some argument must require grad. Raises
    CheckpointError in backward if the recomputation saves different tensors.

    Chen et al., 2016.

    >>> calls = []
    >>> def block(x):
    ...     calls.append(len(x))
    ...     return (x * x).sin()
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()
    >>> x.grad, len(calls)  # run again in backward
    (tensor([1.0806, 1.0806]), 2)
    """
    use_reentrant = _decide_reentrant(use_reentrant, "torch.utils.checkpoint")
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        if determinism_check not in ("default", "none"):
            raise ValueError(
                "determinism_check should be one of ['default', 'none'], but got "
                f"{determinism_check}"
            )
        stop = early_stop if _Settings.early_stop is None else _Settings.early_stop
        check = determinism_check == "default"
        logs = None
        if debug if _Settings.debug is None else _Settings.debug:
            if context_fn is not noop_context_fn:
                raise ValueError("debug=True is incompatible with non-default context_fn")
            logs = CheckpointDebugLogs()
            context_fn = logs.contexts
        return _call(function, args, kwargs, preserve, context_fn, check, stop, logs)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a Sequential, or a list of functions, in `segments` parts and checkpoint all but the
    last.

    >>> net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(4)])
    >>> x = torch.ones(1, 4, requires_grad=True)
    >>> y = torch.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False)
    >>> torch.equal(y, net(x))
    True
    """
    use_reentrant = _decide_reentrant(use_reentrant, "torch.utils.checkpoint.checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return forward

    checkpointed = size * (segments - 1)
    for start in range(0, checkpointed, size or 1):
        input = checkpoint(
            part(start, start + size), input, use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return part(checkpointed, len(steps))(input)


class DefaultDeviceType:
    """The device type whose random state is saved besides the CPU's."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the device type."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the random states of the arguments' non-CPU devices: always empty.

    >>> torch.utils.checkpoint.get_device_states(torch.ones(2))
    ([], [])
    """
    return [], []


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: Any = None) -> None:
    """Restore the states from `get_device_states`.

    >>> torch.utils.checkpoint.set_device_states([], [])
    """
