"""torch._higher_order_ops.associative_scan: all prefixes of a product, in logarithmic depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..func.vmap import vmap
from ..ops.core.operator import PUBLIC
from ..ops.registration.custom_operators import get_namespace
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .active_export import active_recorder

__all__ = ["associative_scan", "associative_scan_op"]


def associative_scan(combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False,
                     combine_mode: str = "pointwise") -> Any:
    """Return `x0, combine_fn(x0, x1), combine_fn(combine_fn(x0, x1), x2), ...` along `dim`.

    `combine_fn` is associative, and takes and gives slices of `xs`, a tensor or a tree of tensors.
    `combine_mode`: "generic"; PyTorch's "pointwise" is for GPUs.
    Raises ValueError for other arguments, RuntimeError for a `reverse` that is no bool.
    Blelloch, "Prefix Sums and Their Applications", 1990.

    >>> from flambeau._higher_order_ops.associative_scan import associative_scan
    >>> associative_scan(lambda a, b: a * b, torch.arange(1, 6), 0, combine_mode="generic")
    tensor([  1,   2,   6,  24, 120])
    """
    leaves, spec = pytree.tree_flatten(xs)
    _check(combine_fn, leaves, dim, reverse, combine_mode)
    dim %= leaves[0].ndim
    count = len(leaves)

    def step(*flat: Any) -> tuple[Any, ...]:
        result = combine_fn(pytree.tree_unflatten(list(flat[:count]), spec),
                            pytree.tree_unflatten(list(flat[count:]), spec))
        parts, structure = pytree.tree_flatten(result)
        if structure != spec:
            raise RuntimeError("The tree structure of the xs and the outs of the combine_fn are "
                               f"not identical!\nxs: {spec}\ncombine_fn: {structure}")
        return tuple(parts)

    rows = [x.movedim(dim, 0) if dim else x for x in leaves]
    rows = [x.flip(0) for x in rows] if reverse else rows
    recorder = active_recorder()
    run = associative_scan_op if recorder is None else recorder.combine_over
    results = list(run(step, rows, ()))
    results = [y.flip(0) for y in results] if reverse else results
    results = [y.movedim(0, dim) if dim else y for y in results]
    return pytree.tree_unflatten(results, spec)


def associative_scan_op(combine_fn: Callable[..., Any], xs: Any, additional_inputs: Any = ()
                        ) -> tuple[Any, ...]:
    """The operator in exported graphs: `combine_fn` takes and returns flat slices of two rows."""
    combine_rows = vmap(lambda *slices: tuple(combine_fn(*slices, *additional_inputs)))

    def combine(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        parts = list(combine_rows(*a, *b))
        for x, y in zip(a, parts, strict=True):
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                raise RuntimeError(
                    "Expected xs and combine_fn output to have same metadata but found:\n"
                    f"{tuple(x.shape[1:])} of {x.dtype} and {tuple(y.shape[1:])} of {y.dtype}"
                )
        return parts

    return tuple(_prefixes(combine, list(xs)))


associative_scan_op.__name__ = "associative_scan"
associative_scan_op.__module__ = "torch.ops.higher_order"
setattr(get_namespace("higher_order"), "associative_scan", associative_scan_op)  # noqa: B010


def _check(combine_fn: Any, leaves: list[Any], dim: Any, reverse: Any, mode: Any) -> None:
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError("xs leaves must be a Tensor")
    if mode == "pointwise":
        error = ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or "
                           "XPU")
        error.add_note("Write combine_mode='generic'.")
        raise error
    if any(x.is_sparse for x in leaves):
        raise ValueError("xs leaves must dense Tensors, consider using `to_dense()`")
    rank = leaves[0].ndim
    if not -rank <= dim < max(rank, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, "
                         f"{rank - 1}], but got {dim})")
    axis = dim % max(rank, 1)
    if any(x.ndim <= axis or not x.shape[axis] for x in leaves):
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions and scan "
                         "dimension > 0")


def _prefixes(combine: Callable[..., list[Tensor]], rows: list[Tensor]) -> list[Tensor]:
    """Combine pairs of rows, find the prefixes of the pairs, and those between from them."""
    count = len(rows[0])
    if count < 2:
        return rows
    pairs = combine([x[:count - 1:2] for x in rows], [x[1::2] for x in rows])
    odd = _prefixes(combine, pairs)
    if count == 2:
        even = [x[:1] for x in rows]
    else:
        before = [y[:-1] for y in odd] if count % 2 == 0 else odd
        following = combine(before, [x[2::2] for x in rows])
        cat = PUBLIC["torch"]["cat"]
        even = [cat([x[:1], y]) for x, y in zip(rows, following, strict=True)]
    return [_interleave(a, b) for a, b in zip(even, odd, strict=True)]


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    """Rows of both in turn; the first may have one more."""
    torch = PUBLIC["torch"]
    pairs = torch["stack"]([even[:len(odd)], odd], 1).flatten(0, 1)
    result: Tensor = torch["cat"]([pairs, even[len(odd):]])
    return result
