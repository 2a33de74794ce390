"""Views in place: unsqueeze_, squeeze_, transpose_, t_ and as_strided_ turn a tensor's own window.

No memory is written; the version still counts them, and history follows, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.inplace import bump, check_writable, prepare_write
from ...autograd.tangents import LEVELS, carry
from ...tensor.tensor import Tensor
from ..core.errors import wrap_with_explanation
from ..core.operator import publish
from .expand import squeeze, unsqueeze
from .strided import as_strided
from .transpose import t, transpose


def _turn(name: str, function: Callable, aliases: tuple[str, ...] = ()) -> None:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if check_writable(self, name):
            y = function(prepare_write(self, False), *args, **kwargs)
            self._node = y._node
        else:
            y = function(self, *args, **kwargs)
        self._array = y._array
        if LEVELS.active:
            carry(y, self)
        bump(self)
        return self

    method.__name__ = method.__qualname__ = name
    method.turns_window = True  # type: ignore[attr-defined]  # read by the recorder
    method.__doc__ = f"Like `{name.rstrip('_')}`, on the tensor itself."
    publish(method, (name, *aliases), ("Tensor",))


_turn("unsqueeze_", unsqueeze)
_turn("squeeze_", squeeze)
_turn("transpose_", transpose, ("swapaxes_", "swapdims_"))
_turn("t_", t)
_turn("as_strided_", as_strided)
publish(wrap_with_explanation("as_strided_", Tensor.as_strided_), ("as_strided_",), ("torch",))
