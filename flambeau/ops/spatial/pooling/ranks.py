"""Functions that PyTorch names for one, two and three spatial axes, written once."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from ...core.operator import publish

_AXES = {1: "length", 2: "h, w", 3: "d, h, w"}


def publish_for_ranks(
    pattern: str, ranks: Sequence[int] = (1, 2, 3), spaces: Sequence[str] = ("nn.functional",),
    torch_ranks: Sequence[int] = (),
) -> Callable[[Callable], Callable]:
    """Publish a function of `n` spatial axes, a parameter by name only, once for each rank.

    `torch_ranks`: the ranks whose functions `torch` has, too.

    `pattern` is the name, with "{n}". The docstring may have, for n = 2, `{axes}` for "h, w", and
    in examples `{row}` for (1, 1, 4), an image of four pixels, `{pair}` for (1, 2), a window of two
    of them, and `{half}` for (None, 2), a result of two.
    """

    def declare(function: Callable) -> Callable:
        for n in ranks:
            name = pattern.format(n=n)
            all_spaces = (*spaces, "torch") if n in torch_ranks else spaces
            publish(_fix_rank(function, n, name), (name,), all_spaces)
        return function

    return declare


def _fix_rank(function: Any, n: int, name: str) -> Callable:
    """Return the function for n axes, as if it were written for them: at no cost per call."""
    result = types.FunctionType(function.__code__, function.__globals__, name,
                                function.__defaults__, function.__closure__)
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "n"]
    result.__kwdefaults__ = {**(function.__kwdefaults__ or {}), "n": n}
    result.__annotations__ = {k: v for k, v in function.__annotations__.items() if k != "n"}
    result.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    result.__qualname__ = name
    ones = (1,) * (n - 1)
    if function.__doc__ is not None:  # under -OO it is
        result.__doc__ = function.__doc__.format(
            n=n, axes=_AXES[n], row=(1, *ones, 4), pair=(*ones, 2) if ones else 2,
            half=(*(None for _ in ones), 2) if ones else 2)
    return result
