"""A loss's reduction: which one a name, a number or the old flags mean, and how it is applied."""

from __future__ import annotations

from typing import Any


from ...native.foundation.user_frames import warn

NONE, MEAN, SUM = 0, 1, 2  # torch.kl_div and its like reduce nothing unless told to
_NUMBERS = {"none": NONE, "mean": MEAN, "sum": SUM, NONE: NONE, MEAN: MEAN, SUM: SUM}


def parse_reduction(reduction: Any, size_average: Any = None, reduce: Any = None) -> int:
    """Return 0 for none, 1 for mean, 2 for sum; raise ValueError for other names."""
    if size_average is not None or reduce is not None:
        reduction = _choose_by_flags(size_average, reduce)
    known = _NUMBERS.get(reduction)
    if known is None:
        if reduction == "elementwise_mean":
            warn("reduction='elementwise_mean' is deprecated. Please use "
                 "reduction='mean' instead.")
            return MEAN
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return known


def _choose_by_flags(size_average: Any, reduce: Any) -> str:
    name = "mean" if size_average is None or size_average else "sum"
    if reduce is not None and not reduce:
        name = "none"
    warn("size_average and reduce args will be deprecated, please use "
         f"reduction='{name}' instead.")
    return name


def reduce_tensor(loss: Any, reduction: int | str) -> Any:
    """Reduce a tensor of losses with recorded operators."""
    if reduction == NONE:
        return loss
    return loss.mean() if reduction == MEAN else loss.sum()


def share(g: Any, reduction: int, count: int, factor: float = 1.0) -> Any:
    """Return the cotangent that each element of a loss receives, times a factor."""
    if reduction == MEAN:
        factor = factor / count if count else float("nan")
    return g if factor == 1.0 else g * factor
