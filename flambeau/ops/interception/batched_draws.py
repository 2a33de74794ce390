"""Random numbers and new tensors inside vmap.

By `randomness`, a draw returns different numbers for each example ("different"), the same for all
("same"), or raises ("error"). `new_zeros` and similar functions create one tensor per example.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.backward import require_gradients
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch, find_innermost_batch
from ..core.operator import OPERATORS, PUBLIC
from ..creation import dropout
from ..creation.random import IN_PLACE_DRAWS
from ..view.join import stack
from .batching import OTHER_TARGETS, STATE, refuse_write, write

_SAME_REFUSED = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an "
    "issue with functorch"
)
_UNBATCHED_TARGET = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
    "like same randomness. If this is necessary for your usage, please file an issue with "
    "functorch."
)


@contextmanager
def _enter_enclosing(batch: Batch) -> Iterator[None]:
    """Context in which draws belong to the enclosing vmaps of `batch`."""
    inner = STATE.batches
    STATE.batches = [b for b in inner if b.number < batch.number]
    try:
        yield
    finally:
        STATE.batches = inner


def _find_drawing_batch(args: tuple, kwargs: dict[str, Any]) -> Batch | None:
    """Return the batch that a draw belongs to, or None; RuntimeError if it must not draw."""
    batch = find_innermost_batch((*args, *kwargs.values()))
    if batch is None and STATE.batches:
        batch = STATE.batches[-1]
    if batch is not None and batch.randomness == "error":
        raise RuntimeError(batch.refusal)
    return batch


def _draws_for_batch(draw: Callable) -> Callable:
    """Return a handler of functions that draw: outside of any vmap it calls the original.

    `draw` takes the batch, then the handler's arguments but for the original. Its own draws belong
    to the enclosing vmaps.
    """
    @functools.wraps(draw)
    def handle(*bound: Any) -> Any:
        *own, original, args, kwargs = bound
        batch = _find_drawing_batch(args, kwargs)
        if batch is None:
            return original(*args, **kwargs)
        with _enter_enclosing(batch):
            return draw(batch, *own, args, kwargs)

    return handle


# ------------------------------------------------------------------------------ from a shape


@_draws_for_batch
def _draw_shape(
    batch: Batch, function: Callable, position: int, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """rand and similar functions, whose shape starts at argument `position` or is last."""
    if batch.randomness == "same":
        return function(*args, **kwargs)
    if "size" in kwargs:
        kwargs = {**kwargs, "size": (batch.size, *kwargs["size"])}
    elif position < 0:
        args = (*args[:position], (batch.size, *args[position]))
    elif not isinstance(args[position], int):
        args = ((batch.size, *args[position]),)
    else:
        args = (batch.size, *args)
    return batch.wrap(function(*args, **kwargs))


@_draws_for_batch
def _draw_permutation(
    batch: Batch, function: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    if batch.randomness == "same":
        return function(*args, **kwargs)
    return batch.wrap(stack([function(*args, **kwargs) for _ in range(batch.size)]))


# ------------------------------------------------------------------------------ from tensors


@_draws_for_batch
def _draw_like(batch: Batch, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """rand_like and similar functions, which only use the shape and dtype of the first argument."""
    pattern, rest = args[0], args[1:]
    if batch.randomness == "same":
        return function(_get_example(batch, pattern), *rest, **kwargs)
    return batch.wrap(function(batch.expand(pattern), *rest, **kwargs))


def _get_example(batch: Batch, x: Tensor) -> Tensor:
    """Return a tensor of one example, whose values do not matter."""
    below = batch.lower(x)
    return below.select(0, 0) if batch.holds(x) else below


@_draws_for_batch
def _draw_from(batch: Batch, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Draw one number per element of tensors that hold the distribution's parameters."""
    if batch.randomness == "same":
        if batch.holds_any((*args, *kwargs.values())):
            raise RuntimeError(_SAME_REFUSED)
        return function(*batch.lower_all(args), **kwargs)
    values = (*args, *kwargs.values())
    dims = max([v.dim() for v in values if isinstance(v, Tensor)], default=0)
    expanded = [_expand(batch, v, dims) for v in values]
    named = dict(zip(kwargs, expanded[len(args):], strict=True))
    return batch.wrap(function(*expanded[: len(args)], **named))


def _draw_from_or_shape(
    function: Callable, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """normal and similar functions, whose parameters may be numbers beside a shape."""
    if any(isinstance(a, Tensor) for a in (*args, *kwargs.values())):
        return _draw_from(function, original, args, kwargs)
    return _draw_shape(function, -1, original, args, kwargs)


def _expand(batch: Batch, value: Any, dims: int = 0) -> Any:
    """Return all examples of a tensor, each with at least `dims` axes, of length 1 in front."""
    if not isinstance(value, Tensor):
        return value
    y, missing = batch.expand(value), dims - value.dim()
    return y[(slice(None), *[None] * missing)] if missing > 0 else y


@_draws_for_batch
def _draw_indices(batch: Batch, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """multinomial: a row of indices for each row of weights."""
    weights, rest = args[0], args[1:]
    if batch.randomness == "same":
        if batch.holds(weights):
            raise RuntimeError(_SAME_REFUSED)
        return function(batch.lower(weights), *rest, **kwargs)
    below = batch.expand(weights)
    if weights.dim() == 1:
        return batch.wrap(function(below, *rest, **kwargs))
    drawn = function(below.flatten(0, 1), *rest, **kwargs)
    return batch.wrap(drawn.reshape(batch.size, -1, drawn.shape[-1]))


def _draw_in_place(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    batch = _find_drawing_batch(args, kwargs)
    if batch is None:
        return original(*args, **kwargs)
    target, rest = args[0], args[1:]
    method = getattr(Tensor, original.__name__)
    with _enter_enclosing(batch):
        if batch.randomness == "same" and batch.holds_any(rest):
            raise RuntimeError(_SAME_REFUSED)
        if not batch.holds(target):
            if batch.holds_any(rest):
                refuse_write(original.__name__.removesuffix("_"))
            if batch.randomness == "different":
                raise RuntimeError(_UNBATCHED_TARGET)
            method(batch.lower(target), *rest, **kwargs)
            return target
        below = batch.lower(target).detach()
        if batch.randomness == "same":
            drawn = method(below.select(0, 0).clone(), *rest, **kwargs).expand(below.shape)
        else:
            rest = tuple([_expand(batch, a, target.dim()) for a in rest])
            drawn = method(below.clone(), *rest, **kwargs)
    return write(target, batch.wrap(drawn), original.__name__)


@_draws_for_batch
def _draw_noise(batch: Batch, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Draw the factors of dropout."""
    input, channels, fill = args
    if batch.randomness == "same":
        return dropout.draw_noise(_get_example(batch, input), channels, fill)
    below = batch.expand(input)
    if not channels:
        return batch.wrap(dropout.draw_noise(below, False, fill))
    noise = dropout.draw_noise(below.flatten(0, 1), True, fill)
    return batch.wrap(noise.reshape(batch.size, -1, *noise.shape[1:]))


def _drop(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """native_dropout: return (result, mask of kept elements)."""
    batch = find_innermost_batch(args) or (STATE.batches[-1] if STATE.batches else None)
    if batch is None:
        return original(*args, **kwargs)
    input, p, train = args
    if train and p:
        _find_drawing_batch(args, kwargs)
    mask = PUBLIC["torch"]["ones_like"](input)
    if train and p:
        mask = mask.bernoulli_(1 - p) if batch.holds(input) else \
            PUBLIC["torch"]["bernoulli"](mask * (1 - p))
    scale = 1 if not train else 0 if p == 1 else 1 / (1 - p)
    return input * mask * scale, mask != 0


# ------------------------------------------------------------------------------- new tensors


def _fill(create: Callable) -> Callable:
    """Return a handler of functions that create a tensor like their first argument.

    `create(function, batch, *args, **kwargs)` returns one tensor per example of the batch.
    """
    def handle(function: Callable, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        batch = find_innermost_batch(args[:1])
        if batch is None:
            return original(*args, **kwargs)
        options = {k: v for k, v in kwargs.items() if k != "requires_grad"}
        result = batch.wrap(create(function, batch, *args, **options))
        return require_gradients(result) if kwargs.get("requires_grad") else result

    return handle


@_fill
def _fill_like(function: Callable, batch: Batch, x: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    """zeros_like and similar functions."""
    return function(batch.expand(x), *rest, **kwargs)


@_fill
def _fill_new(function: Callable, batch: Batch, x: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    """new_zeros and similar functions, of the first argument's dtype."""
    if "size" in kwargs:
        kwargs["size"] = (batch.size, *kwargs["size"])
    elif isinstance(rest[0], int):
        rest = (batch.size, *rest)
    else:
        rest = ((batch.size, *rest[0]), *rest[1:])
    return function(batch.lower(x), *rest, **kwargs)


@_fill
def _fill_strided(
    function: Callable, batch: Batch, x: Tensor, size: Any, stride: Any, **kwargs: Any
) -> Tensor:
    """new_empty_strided: each example has memory of its own."""
    spans = [(n - 1) * step for n, step in zip(size, stride, strict=True)]
    elements = 0 if 0 in size else 1 + sum(spans)
    return function(batch.lower(x), (batch.size, *size), (elements, *stride), **kwargs)


def _find_targets() -> dict[Any, Callable]:
    torch, methods = PUBLIC["torch"], PUBLIC["Tensor"]
    result: dict[Any, Callable] = {}

    def register(handle: Callable, function: Callable, *first: Any) -> None:
        result[function] = functools.partial(handle, function, *first)

    for name in ("rand", "randn"):
        register(_draw_shape, torch[name], 0)
    register(_draw_shape, torch["randint"], -1)
    register(_draw_permutation, torch["randperm"])
    for name in ("rand_like", "randn_like", "randint_like"):
        register(_draw_like, torch[name])
    for name in ("normal", "bernoulli", "poisson", "binomial", "_standard_gamma",
                 "_sample_dirichlet"):
        if name in torch:
            register(_draw_from_or_shape, torch[name])
    register(_draw_indices, torch["multinomial"])
    result |= dict.fromkeys(IN_PLACE_DRAWS, _draw_in_place)
    result[dropout.draw_noise] = _draw_noise
    result[OPERATORS["native_dropout"].function] = _drop
    for name in ("empty_like", "zeros_like", "ones_like", "full_like"):
        register(_fill_like, torch[name])
    for name in ("new_empty", "new_zeros", "new_ones", "new_full"):
        register(_fill_new, methods[name])
    register(_fill_strided, methods["new_empty_strided"])
    return result


OTHER_TARGETS.append(_find_targets)
