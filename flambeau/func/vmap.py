"""vmap: a function of one example as a function of a batch, an example at a time.

The result is what PyTorch's vmap gives; the speed is that of a loop. Writes into tensors that the
function closes over happen once for each example.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .. import ops
from ..ops.core.axes import canonical_dim
from ..tensor import Tensor
from ..tensor.random.generator import default_generator
from ..tensor.tree import leaves
from .structure import rebuild, spread


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable:
    """`func` over the axes `in_dims` of its arguments; results are stacked along `out_dims`.

    None in `in_dims` hands an argument to every call as it is.

    >>> torch.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError("Only allowed values for randomness are 'error', 'different', or "
                           f"'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    return map_calls(func, in_dims, out_dims, randomness)


_DRAWN = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)


def map_calls(
    func: Callable, in_dims: Any, out_dims: Any, randomness: str, lets_none_pass: bool = False,
    on_draw: str = _DRAWN,
) -> Callable:
    """vmap without checks of its settings. on_draw: what the error of a drawn number says."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims = _input_dims(in_dims, args, func)
        size = _size(dims, args, func)
        shared = [x for dim, x in zip(dims, leaves(args), strict=True)
                  if dim is None and isinstance(x, Tensor)]
        versions = [x._version for x in shared]
        results = []
        for i in _guarded(range(size), randomness, on_draw):
            results.append(func(*rebuild(args, _slices(args, dims, i)), **kwargs))
            if versions != [x._version for x in shared]:
                raise _written_in_place()
        return _stacked(results, out_dims, func, lets_none_pass)

    return wrapper


def _name(func: Callable) -> str:
    return getattr(func, "__name__", repr(func))


def _input_dims(in_dims: Any, args: tuple, func: Callable) -> list[int | None]:
    """The axis of each end of the arguments."""
    called = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(f"{called}: expected `in_dims` to be int or a (potentially nested) tuple "
                         f"matching the structure of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"{called}: got no inputs. Maybe you forgot to add inputs, or you are "
                         "trying to vmap over a function with no inputs. The latter is "
                         "unsupported.")
    prefix = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    result = spread(prefix, args, f"{called}: in_dims")
    for dim, x in zip(result, leaves(args), strict=True):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(f"{called}: Got in_dim={dim} for an input but in_dim must be either "
                             "an integer dimension or None.")
        if not isinstance(x, Tensor):
            raise ValueError(f"{called}: Got in_dim={dim} for an input but the input is of type "
                             f"{type(x)}. We cannot vmap over non-Tensor arguments, please use "
                             "None as the respective in_dim")
        if not -x.dim() <= dim < x.dim():
            raise ValueError(f"{called}: Got in_dim={dim} for some input, but that input is a "
                             f"Tensor of dimensionality {x.dim()} so expected in_dim to satisfy "
                             f"-{x.dim()} <= in_dim < {x.dim()}.")
    return result


def _size(dims: list[int | None], args: tuple, func: Callable) -> int:
    pairs = zip(dims, leaves(args), strict=True)
    sizes = [x.size(dim) for dim, x in pairs if dim is not None]
    if not sizes:
        raise ValueError("vmap: at least one input must have a dimension to map over; in_dims "
                         "are all None")
    if len(set(sizes)) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped "
                         f"dimension, got sizes {sizes} for the mapped dimension")
    return sizes[0]


def _slices(args: tuple, dims: list[int | None], i: int) -> Iterator[Any]:
    for dim, x in zip(dims, leaves(args), strict=True):
        yield x if dim is None else x.select(dim, i)


def _written_in_place() -> RuntimeError:
    """What an example's write into an argument of all examples raises."""
    error = RuntimeError(
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor "
        "`other` in extra_args that has more elements than `self`. This happened due to `other` "
        "being vmapped over but `self` not being vmapped over in a vmap. Please try to use "
        "out-of-place operators instead of inplace arithmetic. If said operator is being called "
        "inside the PyTorch framework, please file a bug report instead."
    )
    error.add_note("flambeau calls the function once for each example: a write into an argument "
                   "whose in_dims is None would happen as often.")
    return error


def _guarded(indices: range, randomness: str, on_draw: str) -> Iterator[int]:
    """The indices, while the generator is watched (error), let run (different) or reset (same)."""
    if randomness == "different":
        yield from indices
        return
    state = default_generator.get_state()
    for i in indices:
        if randomness == "same":
            default_generator.set_state(state)
        yield i
        if randomness == "error" and not ops.equal(default_generator.get_state(), state):
            raise RuntimeError(on_draw)


def _stacked(
    results: list[Any], out_dims: Any, func: Callable, lets_none_pass: bool
) -> Any:
    if not results:
        raise NotImplementedError("vmap over a dimension of size 0 is not implemented")
    first = results[0]
    dims = spread(list(out_dims) if isinstance(first, list) and isinstance(out_dims, tuple)
                  else out_dims, first, f"vmap({_name(func)}, ..., out_dims)")
    columns = zip(*[leaves(result) for result in results], strict=True)
    new: list[Any] = []
    for dim, column in zip(dims, columns, strict=True):
        if column[0] is None and lets_none_pass:
            new.append(None)
            continue
        if not isinstance(column[0], Tensor):
            raise ValueError(f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, "
                             f"got type {type(column[0])}.")
        if dim is None:
            new.append(column[0])
            continue
        new.append(ops.stack(column, canonical_dim(dim, column[0].dim() + 1)))
    return rebuild(first, iter(new))
