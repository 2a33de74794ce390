"""torch.library: operators of one's own in PyTorch's registry, which flambeau does not have yet."""

from .tensor.lacking import lacking

__all__: list[str] = []

_NAMES = (
    "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract",
    "opcheck", "register_autocast", "register_autograd", "register_fake", "register_kernel",
    "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
)  # fmt: skip

__getattr__ = lacking(__name__, _NAMES)
