"""vmap: turns a function of one example into a function of a batch, run on all examples at once.

Its arguments become batched examples; `ops/interception/batching.py` defines how operators compute
on them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import ops
from ..native.foundation.public_names import class_of
from ..native.foundation.user_frames import add_notes
from ..ops.core.axes import canonicalize_dim
from ..ops.creation.random import get_rng_state, set_rng_state
from ..ops.interception import (  # noqa: F401 they add themselves
    batched_derivatives, batched_draws, batched_functions, batched_index, batched_views,
)
from ..ops.interception.batching import STATE, batch_of
from ..tensor import Tensor
from ..tensor.tree import get_leaves
from ..tensor.windows.batch import Batch
from ..tensor.windows.batched_window import ExampleRead
from ..utils._pytree import tree_leaves, tree_structure
from .structure import rebuild, spread


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable:
    """Map `func` over the axes `in_dims` of its arguments; stack results along `out_dims`.

    None in `in_dims` passes an argument unchanged to every example.

    >>> torch.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError("Only allowed values for randomness are 'error', 'different', or "
                           f"'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    return map_calls(func, in_dims, out_dims, randomness, chunk_size=chunk_size)


_DRAWN = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)


def map_calls(
    func: Callable, in_dims: Any, out_dims: Any, randomness: str, lets_none_pass: bool = False,
    on_draw: str = _DRAWN, chunk_size: int | None = None,
) -> Callable:
    """vmap without argument checks. `on_draw`: error message for random operations."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, structure = PARTS.process(in_dims, args, func)
        if chunk_size is None or chunk_size >= size:
            return _run(leaves, structure, kwargs, dims, size)
        results = []
        state = get_rng_state() if randomness == "same" else None
        for start in range(0, size, chunk_size):
            if state is not None:  # every chunk must draw the same numbers
                set_rng_state(state)
            n = min(chunk_size, size - start)
            chunk = [x if dim is None else x.narrow(dim, start, n)
                     for dim, x in zip(dims, leaves, strict=True)]
            results.append(_run(chunk, structure, kwargs, dims, n))
        prefix = f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>)"
        return _join_chunks(results, out_dims, prefix)

    def _run(leaves: list, structure: Any, kwargs: dict, dims: list, size: int) -> Any:
        try:
            with batch_of(size, randomness, on_draw) as batch:
                level = STATE.batches.index(batch) + 1
                result = func(*PARTS.create(dims, leaves, level, structure), **kwargs)
                if lets_none_pass:
                    return _move_results(result, out_dims, func, True, batch)
                return PARTS.unwrap(result, out_dims, level, size, func)
        except ExampleRead as error:
            raise RuntimeError(*error.args) from error

    return wrapper


def _process_batched_inputs(
    in_dims: Any, args: tuple, func: Callable
) -> tuple[int, list[int | None], list[Any], Any]:
    """Return the number of examples, the mapped axis of each leaf of the arguments, the leaves,
    and their structure, which is the arguments themselves."""
    dims = _list_input_dims(in_dims, args, func)
    return _find_size(dims, args, func), dims, get_leaves(args), args


def _create_batched_inputs(
    flat_in_dims: list[int | None], flat_args: list[Any], vmap_level: int, args_spec: Any
) -> Any:
    """Return the arguments with examples of the vmap of a level as their leaves."""
    batch = STATE.batches[vmap_level - 1]
    return rebuild(args_spec, (
        x if dim is None else wrap_example(batch, x, dim)
        for dim, x in zip(flat_in_dims, flat_args, strict=True)))


def wrap_example(batch: Batch, x: Tensor, dim: int) -> Tensor:
    """Return an example of a tensor whose axis `dim` counts the examples."""
    axis = dim % x.dim()
    example = batch.wrap(x.movedim(axis, 0) if axis else x)
    window: Any = example._array
    window.axis = axis
    return example


def _unwrap_batched(
    batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Callable
) -> Any:
    """Return a function's result for all examples, whose axis is moved to `out_dims`."""
    return _move_results(batched_outputs, out_dims, func, False, STATE.batches[vmap_level - 1])


class _Parts:
    """The parts of vmap that libraries replace by assigning to `torch._functorch.vmap`, as
    tensordict does to map over its dictionaries."""

    def __init__(self) -> None:
        self.process: Callable = _process_batched_inputs
        self.create: Callable = _create_batched_inputs
        self.unwrap: Callable = _unwrap_batched


PARTS = _Parts()


def _name(func: Callable) -> str:
    return getattr(func, "__name__", repr(func))


def _list_input_dims(in_dims: Any, args: tuple, func: Callable) -> list[int | None]:
    """Return the mapped axis of each leaf of the arguments. Raise ValueError if one is invalid."""
    prefix = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{prefix}: expected `in_dims` to be int or a (potentially nested) tuple "
                         f"matching the structure of inputs, got: {class_of(in_dims)}.")
    if not args:
        raise ValueError(f"{prefix}: got no inputs. Maybe you forgot to add inputs, or you are "
                         "trying to vmap over a function with no inputs. The latter is "
                         "unsupported.")
    result = _spread_dims(in_dims, args, f"{prefix}: in_dims", "inputs")
    for dim, x in zip(result, get_leaves(args), strict=True):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(f"{prefix}: Got in_dim={dim} for an input but in_dim must be either "
                             "an integer dimension or None.")
        if not isinstance(x, Tensor):
            raise ValueError(f"{prefix}: Got in_dim={dim} for an input but the input is of type "
                             f"{class_of(x)}. We cannot vmap over non-Tensor arguments, please use "
                             "None as the respective in_dim")
        if not -x.dim() <= dim < x.dim():
            raise ValueError(f"{prefix}: Got in_dim={dim} for some input, but that input is a "
                             f"Tensor of dimensionality {x.dim()} so expected in_dim to satisfy "
                             f"-{x.dim()} <= in_dim < {x.dim()}.")
    return result


def _find_size(dims: list[int | None], args: tuple, func: Callable) -> int:
    pairs = zip(dims, get_leaves(args), strict=True)
    sizes = [x.size(dim) for dim, x in pairs if dim is not None]
    if not sizes:
        raise add_notes(ValueError("vmap: Expected at least one Tensor to vmap over"),
                        "in_dims are all None")
    if len(set(sizes)) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped "
                         f"dimension, got sizes {sizes} for the mapped dimension")
    return sizes[0]


def _join_chunks(results: list[Any], out_dims: Any, prefix: str) -> Any:
    """Concatenate the results of chunks along `out_dims`."""
    first = results[0]
    dims = _spread_over(out_dims, first, prefix)
    columns = zip(*map(get_leaves, results), strict=True)
    new = [column[0] if dim is None or column[0] is None else ops.cat(column, dim)
           for dim, column in zip(dims, columns, strict=True)]
    return rebuild(first, iter(new))


def _spread_dims(dims: Any, nested: Any, prefix: str, role: str) -> list[Any]:
    """`spread`, with PyTorch's ValueError if the structures do not match."""
    try:
        return spread(dims, nested, prefix)
    except ValueError:
        raise ValueError(
            f"{prefix} is not compatible with the structure of `{role}`. "
            f"{prefix.rpartition(' ')[2]} has structure {tree_structure(dims)} but {role} has "
            f"structure {tree_structure(nested)}."
        ) from None


def _spread_over(out_dims: Any, result: Any, prefix: str) -> list[Any]:
    """Return the entry of `out_dims` for each leaf of a result."""
    if any(not isinstance(dim, int) and dim is not None for dim in tree_leaves(out_dims)):
        raise ValueError(
            f"{prefix.removesuffix('(<inputs>)')}: `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should "
            "appear."
        )
    dims = out_dims
    if isinstance(dims, tuple) and isinstance(result, Tensor) and len(dims) == 1:
        dims = dims[0]
    elif isinstance(dims, tuple) and isinstance(result, list):
        dims = list(dims)
    return _spread_dims(dims, result, f"{prefix}: out_dims", "outputs")


def _move_results(
    result: Any, out_dims: Any, func: Callable, lets_none_pass: bool, batch: Batch
) -> Any:
    """Return the function's result with the batch axis moved to `out_dims`."""
    prefix = f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>)"
    dims = _spread_over(out_dims, result, prefix)
    new: list[Any] = []
    for dim, x in zip(dims, get_leaves(result), strict=True):
        if x is None and lets_none_pass or dim is None and not isinstance(x, Tensor):
            new.append(x)
            continue
        if not isinstance(x, Tensor):
            raise ValueError(f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, "
                             f"got type {class_of(x)}. Did you mean to set out_dims= to None for "
                             "output?")
        if dim is None:
            if batch.holds(x):
                raise ValueError(f"vmap({_name(func)}, ...): `{_name(func)}` can not return a "
                                 "BatchedTensor when out_dim is None")
            new.append(batch.lower(x))
            continue
        axis = canonicalize_dim(dim, x.dim() + 1)
        expanded = batch.expand(x)
        new.append(expanded.movedim(0, axis) if axis else expanded)
    return rebuild(result, iter(new))
