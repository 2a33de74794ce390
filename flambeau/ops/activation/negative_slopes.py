"""In-place activations with a negative slope, whose backward PyTorch refuses.

PyTorch's derivatives read the sign of the result, which tells nothing about that of the input.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ...tensor.tensor import Tensor

_CALLED = (
    "backward calculation is triggered with a negative slope which is not supported. This is "
    "caused by calling in-place forward function with a negative slope, please call out-of-place "
    "version instead."
)
_TEXTS = {
    "elu": f"In-place elu {_CALLED}",
    "leaky_relu": f"In-place leakyReLu {_CALLED} File an issue at "
                  "https://github.com/pytorch/pytorch if you do require supporting in-place "
                  "leakRelu backward calculation with negative slope",
}


def refuse_backward(result: Tensor, slope: Any, name: str) -> Tensor:
    """Return the result of an in-place activation, whose backward raises for a negative slope."""
    if isinstance(slope, (int, float)) and slope < 0 and result.requires_grad:
        node = result.grad_fn
        while node.name() in ("AsStridedBackward0", "CopySlices"):
            node = node.next_functions[-1][0]

        def refuse(_: Any) -> NoReturn:
            raise RuntimeError(_TEXTS[name])

        node.register_prehook(refuse)
    return result
