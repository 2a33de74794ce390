"""Which of PyTorch's implementations of attention a call would get, by the settings of the program.

flambeau has one implementation for all of them. A call that PyTorch refuses, because what it allows
does not take these arguments, is refused here too.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from ...tensor.tensor import Tensor
from ..creation.creation import public


class SDPBackend(Enum):
    """PyTorch's implementations of scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value


class AttentionSettings:
    """What `torch.nn.attention.sdpa_kernel` and `torch.backends.cuda.enable_*_sdp` allow."""

    allowed: ClassVar[dict[str, bool]] = {
        "flash": True, "math": True, "mem_efficient": True, "cudnn": True,
    }

    @classmethod
    def allow(cls, **kinds: bool) -> None:
        """Allow or forbid kinds of implementations."""
        cls.allowed = {**cls.allowed, **kinds}


def choose(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float
) -> SDPBackend:
    """Return PyTorch's choice on a CPU; RuntimeError if no allowed backend takes the arguments."""
    allowed = AttentionSettings.allowed
    if not (allowed["math"] or allowed["flash"]):
        return SDPBackend.ERROR
    if allowed["flash"] and not dropout_p and _fits_flash(query, key, value):
        return SDPBackend.FLASH_ATTENTION
    if not allowed["math"]:
        raise RuntimeError("No available kernel.  Aborting execution.")
    return SDPBackend.MATH


def _fits_flash(query: Tensor, key: Tensor, value: Tensor) -> bool:
    shapes = [x._array.shape for x in (query, key, value)]
    return (
        all(len(shape) == 4 and shape[2] for shape in shapes)
        and len({shape[0] for shape in shapes}) == 1
        and len({shape[-1] for shape in shapes}) == 1
        and all(x.stride(-1) == 1 for x in (query, key, value))
    )


def check_choice(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float,
    is_causal: bool,
) -> None:
    """Raise RuntimeError if PyTorch's implementation would refuse these arguments."""
    choice = choose(query, key, value, attn_mask, dropout_p)
    if choice is SDPBackend.ERROR:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to "
            "turning off both the math kernel and the fused kernels."
        )
    if choice is SDPBackend.MATH and is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )


@public(explains=True)
def _fused_sdp_choice(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    """Return the number of the implementation that PyTorch would choose.

    >>> x = torch.ones(1, 1, 2, 8)
    >>> torch._fused_sdp_choice(x, x, x)
    1
    """
    return int(choose(query, key, value, attn_mask, dropout_p))
