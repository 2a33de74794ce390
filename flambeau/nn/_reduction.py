"""The name or number of a loss's reduction, from its name or from the deprecated flags."""

from __future__ import annotations

from ..native.foundation.user_frames import warn


_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return 0 for none, 1 for mean, 2 for sum; ValueError otherwise."""
    if reduction == "elementwise_mean":
        warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
        )
        return 1
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """Return the reduction that `size_average` and `reduce` mean; warn if `emit_warning`."""
    if reduce is not None and not reduce:
        name = "none"
    else:
        name = "mean" if size_average is None or size_average else "sum"
    if emit_warning:
        warn(
            "size_average and reduce args will be deprecated, "
            f"please use reduction='{name}' instead.",
        )
    return name


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """Return the number of the reduction that `size_average` and `reduce` mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
