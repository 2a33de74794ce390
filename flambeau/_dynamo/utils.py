"""torch._dynamo.utils: what libraries ask of PyTorch's compiler before they use it."""

from typing import Any

from ..tensor.devices import device

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether `torch.compile` makes programs for a type of device: for the CPU.

    >>> from flambeau._dynamo.utils import is_compile_supported
    >>> is_compile_supported("cpu"), is_compile_supported("cuda")
    (True, False)
    """
    return device(device_type).type == "cpu"
