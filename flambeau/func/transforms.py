"""grad, vjp, jvp, Jacobians and Hessians as function transforms.

The differentiated arguments are replaced by aliases. Results keep their history only if it leads to
a tensor from outside (a captured weight, an enclosing transform).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import ops
from ..autograd import enable_grad, is_grad_enabled
from ..autograd import grad as autograd_grad
from ..autograd.backward import require_gradients
from ..autograd.mode import MODE, differentiating, transforming
from ..autograd.outputs import Output
from ..autograd.tangents import (
    LEVELS, alias_history, attach, carry, get_primal, get_tangent, give, match_strides, pop_level,
    push_level, tangents_of,
)
from ..ops.interception.batching import detach_inside, is_inside, leave, with_below
from ..tensor import Tensor
from ..tensor.printing import Suffixes
from ..tensor.tree import get_leaves, map_leaves
from ..tensor.windows.batched_window import is_example
from .checks import (
    are_tensors, check_cotangents, check_real, check_scalar, check_tangents, list_outputs,
    parse_argnums, split_aux,
)
from .structure import list_tensors, rebuild
from .vmap import map_calls

Argnums = int | tuple[int, ...]
_JVP = "jvp(f, primals, tangents)"


def grad(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes the gradient of `func` with respect to `argnums`.

    `func` returns a scalar, or with `has_aux` a pair (scalar, aux); then the result is a pair
    (gradient, aux).

    >>> torch.func.grad(torch.sin)(torch.tensor(0.))
    tensor(1.)
    >>> torch.func.grad(torch.func.grad(lambda x: x**3))(torch.tensor(2.))
    tensor(12.)
    """
    gradient_and_value = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result, value = gradient_and_value(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return wrapper


def grad_and_value(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes (gradient, value), or (gradient, (value, aux)).

    >>> torch.func.grad_and_value(lambda x: (x * x).sum())(torch.ones(2))
    (tensor([2., 2.]), tensor(2.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        recorded = is_grad_enabled()
        with enable_grad():
            level = _Level(args, argnums, recorded)
            with differentiating(), level.running():
                result = func(*level.args, **kwargs)
            y, aux = split_aux(result, has_aux, "grad_and_value(f)(*args)")
            check_scalar(y)
            match = level.gradients([y], None)
        result = level.like_arguments(level.freed(match))
        value = level.freed([y])[0]
        return result, ((value, map_leaves(level.free_one, aux)) if has_aux else value)

    return wrapper


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """Return (func(*primals), function from cotangents to gradients), plus aux with `has_aux`.

    >>> y, pull = torch.func.vjp(torch.sin, torch.zeros(2))
    >>> pull(torch.ones(2))
    (tensor([1., 1.]),)
    """
    recorded = is_grad_enabled()
    with enable_grad():
        level = _Level(primals, tuple(range(len(primals))), recorded)
        with differentiating(), level.running():
            result = func(*level.args)
        y, aux = split_aux(result, has_aux, "vjp(f, *primals)")
        outputs = list_outputs(y, "vjp(f, *primals)")

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple:
        check_cotangents(cotangents, y)
        supplied = list_tensors(cotangents, "vjp_fn(cotangents)")
        level.recorded = is_grad_enabled()
        with enable_grad():
            match = level.gradients(outputs, supplied)
        return tuple(level.like_arguments(level.freed(match)))

    result = rebuild(y, iter(level.freed(outputs)))
    return (result, pull, map_leaves(level.free_one, aux)) if has_aux else (result, pull)


def jvp(
    func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple:
    """Return (func(*primals), Jacobian times tangents), plus aux with `has_aux`.

    >>> torch.func.jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),))
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    check_tangents(primals, tangents)
    level = push_level()
    enabled, LEVELS.enabled = LEVELS.enabled, True
    try:
        if primals.__class__ is tuple and are_tensors(primals):
            arguments = [_create_dual(x, t, level) for x, t in zip(primals, tangents, strict=True)]
        else:
            duals = (_create_dual(x, t, level)
                     for x, t in zip(get_leaves(primals), get_leaves(tangents), strict=True))
            arguments = rebuild(primals, duals)
        with transforming():
            y = func(*arguments)
        if isinstance(y, Tensor) and not has_aux and not strict:
            value, product = get_primal(y, level), get_tangent(y, level)
            return value, ops.zeros_like(value) if product is None else product
        y, aux = split_aux(y, has_aux, _JVP)
        outputs = [y] if isinstance(y, Tensor) else list_outputs(y, _JVP)
        result = [get_tangent(t, level) for t in outputs]
        if strict and any(t is None for t in result):
            raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is "
                               "independent of the inputs")
        values = [get_primal(t, level) for t in outputs]
        new = [ops.zeros_like(x) if t is None else t for x, t in zip(values, result, strict=True)]
    finally:
        LEVELS.enabled = enabled
        pop_level(level)
    value, product = (values[0], new[0]) if isinstance(y, Tensor) else \
        (rebuild(y, iter(values)), rebuild(y, iter(new)))
    if not has_aux:
        return value, product
    return value, product, map_leaves(lambda x: get_primal(x, level), aux)


def _create_dual(x: Tensor, tangent: Tensor, level: int) -> Tensor:
    """Return a new tensor object equal to `x` that carries a tangent."""
    dual = alias_history(x)
    attach(dual, level, x, match_strides(tangent, x))
    return dual


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """Return (func(*primals), function from tangents to Jacobian times tangents at `primals`).

    >>> y, tangent = torch.func.linearize(lambda x: x ** 2, torch.tensor(3.))
    >>> y, tangent(torch.tensor(1.))
    (tensor(9.), tensor(6.))
    """

    with enable_grad():
        level = _Level(primals, tuple(range(len(primals))))
        with transforming():
            y = func(*level.args)
        outputs = list_outputs(y, "linearize(f, *primals)")
        slots = [require_gradients(ops.zeros_like(t)) for t in outputs]
        gradients = level.gradients(outputs, slots)

    def push(*tangents: Any) -> Any:
        """Return the jvp, computed as the vjp of the vjp, which is linear in its cotangents."""
        tangent_leaves = get_leaves(tangents)
        pairs = [(g, t) for g, t in zip(gradients, tangent_leaves, strict=True) if g.requires_grad]
        result: Sequence[Tensor | None] = [None] * len(slots)
        if pairs:
            gs, ts = zip(*pairs, strict=True)
            result = autograd_grad(gs, slots, ts, retain_graph=True, allow_unused=True)
        new = [ops.zeros_like(t) if g is None else g for g, t in zip(result, outputs, strict=True)]
        return rebuild(y, iter(new))

    return map_leaves(level.free_one, y), push


def jacrev(
    func: Callable, argnums: Argnums = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, _preallocate_and_copy: bool = False,
) -> Callable:
    """Return a function that computes the Jacobian of `func`: shape (*output, *input).

    >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        check_real(args, "jacrev", "inputs")
        with enable_grad():
            level = _Level(args, argnums)
            with differentiating(), level.running():
                result = func(*level.args, **kwargs)
            y, aux = split_aux(result, has_aux, "vjp(f, *primals)")
            outputs = list_outputs(y, "vjp(f, *primals)")
            check_real(outputs, "jacrev", "outputs")
            rows = [_compute_rows(t, level, chunk_size) for t in outputs]
            matrix = [level.like_arguments(level.freed(new)) for new in rows]
        matrices = rebuild(y, iter(matrix))
        return (matrices, map_leaves(level.free_one, aux)) if has_aux else matrices

    return wrapper


def jacfwd(
    func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """Return a function that computes the Jacobian of `func` by jvps, one per input element.

    >>> torch.func.jacfwd(lambda x: x ** 2)(torch.tensor([1., 3.]))
    tensor([[2., 0.],
            [0., 6.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        check_real(args, "jacfwd", "inputs")
        chosen_at = parse_argnums(argnums, len(args))
        supplied = tuple(args[i] for i in chosen_at)

        def chosen(*inputs: Any) -> Any:
            replaced = list(args)
            for i, x in zip(chosen_at, inputs, strict=True):
                replaced[i] = x
            return func(*replaced, **kwargs)

        y, columns, aux = _compute_columns(chosen, supplied, has_aux, randomness)
        per_output = [restore_structure(supplied, column) for column in columns]
        result = [new[0] if isinstance(argnums, int) else new for new in per_output]
        matrices = rebuild(y, iter(result))
        return (matrices, aux) if has_aux else matrices

    return wrapper


def _compute_columns(
    func: Callable, supplied: tuple, has_aux: bool, randomness: str
) -> tuple[Any, list[list[Tensor]], Any]:
    """Return (result, per output its Jacobians with respect to each input, aux)."""
    inputs = list_tensors(supplied, "jacfwd(f): the inputs")
    zeros = [ops.zeros_like(x) for x in inputs]
    last: list[Any] = []

    def push(position: int, tangent: Tensor) -> tuple[Tensor, ...]:
        tangents = [*zeros[:position], tangent, *zeros[position + 1 :]]
        last[:] = jvp(func, supplied, rebuild(supplied, iter(tangents)), has_aux=has_aux)
        last[2:] = [map_leaves(leave, aux) for aux in last[2:]]
        return tuple(list_tensors(last[1], "jacfwd(f): the outputs of f"))

    columns = []
    for i, x in enumerate(inputs):
        basis = ops.eye(x.numel(), dtype=x.dtype).reshape(x.numel(), *x.shape)
        columns.append(map_calls(functools.partial(push, i), 0, -1, randomness)(basis))
    y, aux = last[0], last[2] if has_aux else None
    outputs = list_tensors(y, "jacfwd(f): the outputs of f")
    check_real(outputs, "jacfwd", "outputs")
    matches = [
        [column[j].reshape((*t.shape, *x.shape)) for column, x in zip(columns, inputs, strict=True)]
        for j, t in enumerate(outputs)
    ]
    return y, matches, aux


def restore_structure(arguments: tuple, parts: list[Tensor]) -> tuple:
    """Return the parts, one per tensor, in the structure of the arguments."""
    ends = iter(parts)
    return tuple(rebuild(x, ends) for x in arguments)


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """Return a function that computes the Hessian of `func`: shape (*output, *input, *input).

    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _compute_rows(y: Tensor, level: _Level, chunk_size: int | None) -> list[Tensor]:
    """Return the Jacobians of one output with respect to each input, by a vjp per element."""
    if not y.numel():
        return [x.new_zeros((*y.shape, *x.shape)) for x in level.wanted]

    def row(g: Tensor) -> tuple[Tensor, ...]:
        return tuple(level.gradients([y], [g]))

    basis = ops.eye(y.numel(), dtype=y.dtype).reshape(y.numel(), *y.shape)
    if chunk_size == 1:  # runs without vmap, and so without its limits
        rows = tuple(ops.stack(column) for column in zip(*map(row, basis), strict=True))
    else:
        rows = map_calls(row, 0, 0, "error", chunk_size=chunk_size)(basis)
    return [column.reshape((*y.shape, *x.shape))
            for column, x in zip(rows, level.wanted, strict=True)]


class _Level:
    """One running transform: its differentiated arguments replaced by aliases.

    `recorded`: whether grad mode is on around the transform; inside, it is always on.
    """

    def __init__(self, args: tuple, argnums: Argnums, recorded: bool = True) -> None:
        self.argnums, self.recorded = argnums, recorded
        self.positions = parse_argnums(argnums, len(args))
        self.arguments = [args[i] for i in self.positions]
        self.own: list[Tensor] = [_alias(x) for x in list_tensors(self.arguments, "the inputs")]
        self.wanted = list(self.own)
        ends = iter(self.own)
        self.args = list(args)
        for i, x in zip(self.positions, self.arguments, strict=True):
            self.args[i] = rebuild(x, ends)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Context of the function that the transform calls, in which its tensors print as such."""
        self.number = MODE.transforms
        _RUNNING.levels.append(self)
        try:
            yield
        finally:
            _RUNNING.levels.pop()

    def tracks(self, x: Tensor) -> bool:
        """Return whether `x` is an argument of this level or computed from one."""
        ends = {id(_find_end(t)) for t in self.own}
        return any(id(end) in ends for end in _walk_history(x))

    def gradients(self, outputs: list[Tensor], cotangents: list[Tensor] | None) -> list[Tensor]:
        """Return recorded gradients of the arguments, zeros for arguments without influence."""
        seeds: Sequence[Any] = cotangents if cotangents is not None else [None] * len(outputs)
        pairs = [(y, g) for y, g in zip(outputs, seeds, strict=True) if y.requires_grad]
        if not pairs:
            return [ops.zeros_like(x) for x in self.wanted]
        ys, gs = zip(*pairs, strict=True)
        result = autograd_grad(ys, self.wanted, gs, create_graph=True, allow_unused=True)
        return [ops.zeros_like(x) if g is None else g
                for g, x in zip(result, self.wanted, strict=True)]

    def like_arguments(self, results: list[Tensor]) -> Any:
        """Return results in the structure of the arguments: one, or a tuple with one per argnum."""
        ends = iter(results)
        result = tuple(rebuild(x, ends) for x in self.arguments)
        return result[0] if isinstance(self.argnums, int) else result

    def freed(self, tensors: list[Tensor]) -> list[Tensor]:
        """Detach tensors whose history leads only to this level's inputs."""
        return [self.free_one(t) for t in tensors]

    def free_one(self, x: Any) -> Any:
        """Detach a tensor whose history leads only to this level's inputs."""
        if not isinstance(x, Tensor):
            return x
        tangents = {n: (None, self.free_one(t)) for n, (_, t) in tangents_of(x).items()}
        if self.recorded and x.requires_grad \
                and _leads_outside(x, {id(t) for t in self.own if t.is_leaf}):
            return give(tangents, x)
        example = with_below(x, self.free_one)
        if example is None:
            example = x.detach() if x.requires_grad else x
        return give(tangents, example)


def _alias(x: Tensor) -> Tensor:
    inner = detach_inside(x)
    if x.requires_grad and (inner is None or is_inside(x)):
        return x.view_as(x)
    return require_gradients(carry(x, x.detach() if inner is None else inner))


def _find_end(x: Tensor) -> Any:
    """Return the node that computed a tensor, or a leaf itself."""
    target: Any = x._history() or x
    return target.node if target.__class__ is Output else target


def _walk_history(x: Tensor) -> Iterator[Any]:
    """Yield the nodes and leaves that a tensor was computed from."""
    stack: list[Any] = [_find_end(x)]
    visited: set[int] = set()
    while stack:
        target = stack.pop()
        end = target.node if target.__class__ is Output else target
        if end is None or id(end) in visited:
            continue
        visited.add(id(end))
        yield end
        if not isinstance(end, Tensor):
            stack.extend(end.edges)


def _leads_outside(x: Tensor, own_ids: set[int]) -> bool:
    """Return whether the history of `x` reaches a leaf whose id is not in `own_ids`."""
    return any(isinstance(end, Tensor) and id(end) not in own_ids for end in _walk_history(x))


class _Running(threading.local):
    """This thread's levels whose functions run, innermost last."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []


_RUNNING = _Running()


def _find_shown_levels(x: Tensor) -> tuple[list[int], Tensor]:
    """Return the numbers of the levels that track a tensor, down to the vmap whose example it is,
    and the tensor without its history in them."""
    window: Any = x._array
    lowest = window.batch.level if is_example(window) else 0
    levels = [level for level in _RUNNING.levels if level.number > lowest and level.tracks(x)]
    if levels:
        own_ids = {id(t) for level in levels for t in level.own if t.is_leaf}
        if is_example(window):
            x = window.batch.wrap(window.below, window.is_shared)
            below: Any = x._array
            below.axis = window.axis
        elif not _leads_outside(x, own_ids):
            x = x.detach()
    return [level.number for level in levels], x


Suffixes.levels = staticmethod(_find_shown_levels)
