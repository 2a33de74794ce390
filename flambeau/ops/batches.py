"""Kernels that are made for a number of images, and serve other numbers too.

An epoch's last batch, or an evaluation's, would have every convolution's kernel made anew. It takes
one that is there, for as many images at a time as that is made for, the last ones with empty images
behind them; a number that comes up often gets a kernel of its own in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..native.eager import Policy
from .registry import Array

_PATIENT = 16  # calls with a number of images before it gets a kernel of its own
_MANY = 16  # images at a time that keep all threads busy

_made: dict[tuple, list[int]] = {}  # by kind of call: the numbers of images that have kernels
_calls: dict[tuple, int] = {}  # how often a number was served by another one's kernel


def served(
    kind: tuple, build: Callable[[int], Any], arrays: Sequence[Array], fixed: Sequence[int] = (),
    summed: bool = False,
) -> bool:  # fmt: skip
    """Runs a kernel on arrays, its buffers; False where there is none yet.

    `kind` and a number of images say which kernel it is, `build` makes it. The first array and all
    others go image by image, but those at the places `fixed`. The last is the result: a sum over
    the images where `summed`.
    """
    from .conv_native import kernel_for, run_kernel

    count, function = len(arrays[0]), None
    other = _other(kind, count)
    if other is None or _often((*kind, count)):
        function = kernel_for((*kind, count), lambda: build(count))
    if function is not None:
        numbers = _made.setdefault(kind, [])
        if count not in numbers:
            numbers.append(count)
        run_kernel(function, arrays)
        return True
    if other is None:
        return False
    function = kernel_for((*kind, other), lambda: build(other))
    if function is None:
        return False
    _in_parts(lambda part: run_kernel(function, part), other, list(arrays), fixed, summed)
    return True


def _other(kind: tuple, count: int) -> int | None:
    """The number of images of a kernel that may serve this one: with the fewest empty images."""
    numbers = _made.get(kind, ())
    if count in numbers or not Policy.allowed:
        return None
    fit = [n for n in numbers if n <= 2 * count and (n >= _MANY or 4 * n >= count)]
    return min(fit, key=lambda n: (-(-count // n) * n, -n)) if fit else None


def _often(key: tuple) -> bool:
    """Whether it is time for a kernel of its own: a matter of the calls alone."""
    _calls[key] = _calls.get(key, 0) + 1
    return _calls[key] > _PATIENT


def _in_parts(
    run: Callable[[list[Array]], None], each: int, arrays: list[Array], fixed: Sequence[int],
    summed: bool,
) -> None:  # fmt: skip
    """So many images at a time; what a sum over images adds up are zeros for empty ones."""
    count, result = len(arrays[0]), arrays[-1]
    moving = [i for i in range(len(arrays) - summed) if i not in fixed]
    part = np.empty_like(result) if summed else result
    for first in range(0, count, each):
        number = min(each, count - first)
        some = list(arrays)
        for i in moving:
            some[i] = arrays[i][first : first + number]
            if number < each:
                some[i] = np.zeros_like(arrays[i], shape=(each, *arrays[i].shape[1:]))
                some[i][:number] = arrays[i][first : first + number]
        if summed and first:
            some[-1] = part
        run(some)
        if summed and first:
            result += part
        elif not summed and number < each:
            result[first : first + number] = some[-1][:number]
