"""DataParallel: split a batch over a machine's GPUs; without GPUs, call the module.

flambeau computes on the CPU, where PyTorch's DataParallel also just calls its module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..module import Module


def _check_devices(device_ids: Sequence[Any] | None) -> None:
    if device_ids:
        raise AssertionError(
            f"DataParallel: device_ids={list(device_ids)} names GPUs, and flambeau has none. "
            "Check torch.cuda.is_available() first."
        )


class DataParallel(Module):
    """Wrap a module as `module`, so that names in its state_dict start with "module.".

    >>> nn.DataParallel(nn.Identity())(5)
    5
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        _check_devices(device_ids)
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """module(*inputs, **module_kwargs), as `DataParallel` calls it."""
    _check_devices(device_ids)
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
