"""The order of arguments of PyTorch before 1.5, numbers first: `x.add_(2, y)`, `addmm(2, m, a, b)`.

Old programs use it and PyTorch still accepts it. Functions whose tensors may follow numbers have a
starred parameter for excess arguments, so the current order costs nothing, and call `in_order`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....native.foundation.user_frames import warn_once
from ....tensor.tensor import Tensor

# The factors that may come first, and the tensors that follow them, by operator.
_FACTORS: dict[str, tuple[str, ...]] = {
    "add": ("alpha",), "sub": ("alpha",), "addcmul": ("value",), "addcdiv": ("value",),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), ("beta", "alpha")),
}
_TENSORS: dict[str, tuple[str, ...]] = {
    "add": ("other",), "sub": ("other",),
    **dict.fromkeys(("addcmul", "addcdiv"), ("tensor1", "tensor2")),
    "addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "addr": ("vec1", "vec2"),
    **dict.fromkeys(("addbmm", "baddbmm"), ("batch1", "batch2")),
}
OLD_ORDERED = frozenset(_FACTORS)


ONCE = "the order of arguments before 1.5"  # all functions share one warning


def in_order(function: Callable, name: str, positional: tuple, named: dict[str, Any]) -> Any:
    """Call `function`, known as `name`, with numbers that came before tensors by their names.

    `positional` are the positional arguments, `named` the named ones. Raises TypeError if they are
    not in the old order either.
    """
    plain = name.rstrip("_")
    factors, tensors = _FACTORS[plain], _TENSORS[plain]
    result = _split(positional, factors, tensors)
    if result is None:
        limit, came = len(tensors), len(positional) - 1
        raise TypeError(
            f"{name}() takes {limit} positional argument{'s' * (limit > 1)} but {came} "
            f"{'was' if came == 1 else 'were'} given"
        )
    for factor, value in result[1].items():
        if named.get(factor, 1) != 1:
            raise TypeError(f"{name}() got multiple values for argument '{factor}'")
        named[factor] = value
    _warn(name, positional, named.get("out"), result[1])
    named = {key: value for key, value in named.items() if key != "out" or value is not None}
    return function(*result[0], **named)


def _split(
    args: tuple, factors: tuple[str, ...], tensors: tuple[str, ...]
) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the tensors and, by name, the numbers of a call in the old order, else None."""
    numbers = [_read_number(x) if i != len(args) - 1 else None for i, x in enumerate(args)]
    factor_count = len(args) - 1 - len(tensors)
    if not 1 <= factor_count <= len(factors):
        return None
    first = 0 if len(factors) > 1 and not isinstance(args[0], Tensor) else 1
    # Of the function beta is first and alpha second but one, of the method they are neighbors.
    positions = [first, 2 if first == 0 else first + 1][:factor_count]
    rest = [x for i, x in enumerate(args) if i not in positions]
    if any(numbers[i] is None for i in positions) or not isinstance(rest[0], Tensor):
        return None
    if not all(isinstance(x, Tensor) for x in rest[:-1]) or not _is_operand(rest[-1], tensors):
        return None
    return rest, {factor: numbers[i] for factor, i in zip(factors, positions, strict=False)}


def _read_number(x: Any) -> Any:
    """Return a number, or the value of a 0-dim tensor that does not require grad; else None."""
    if isinstance(x, (bool, int, float, complex)):
        return x
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, Tensor) and x.dim() == 0 and not x.requires_grad:
        return x.item()
    return None


def _is_operand(x: Any, tensors: tuple[str, ...]) -> bool:
    """Whether the last argument is a tensor; of sums it may be a number."""
    return isinstance(x, Tensor) or (tensors == ("other",) and _read_number(x) is not None)


def _warn(name: str, args: tuple, out: Any, factors: dict[str, Any]) -> None:
    """PyTorch's warning, once a process, for the line that called the operator."""
    plain = name.rstrip("_")
    every, tensors = _FACTORS[plain], [f"Tensor {t}" for t in _TENSORS[plain]]
    numbers = [f"Number {f}" for f in factors]
    old, new = [*numbers, *tensors], [*tensors, "*", *(f"Number {f} = 1" for f in every)]
    if out is not None or not isinstance(args[0], Tensor):
        before = len(every) - 1  # beta comes before the input
        old = [*numbers[:before], "Tensor input", *numbers[before:], *tensors, "*"]
        old.append("Tensor out = None")
        new = ["Tensor input", *new, "Tensor out = None"]
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}({', '.join(old)})\n"
        f"Consider using one of the following signatures instead:\n\t{name}({', '.join(new)})",
        ONCE,
    )
