"""torch.autograd.forward_ad: forward-mode derivatives, which flambeau does not have yet."""

from ..tensor.absent import lacking

__all__: list[str] = []

_NAMES = (
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
)  # fmt: skip

__getattr__ = lacking(__name__, _NAMES)
