"""DistributedDataParallel: a module whose gradients are averaged over the processes of a group."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ..module import Module


class DistributedDataParallel(Module):
    """Holds a module as `module`, so that names in its state_dict start with "module.".

    flambeau's groups have one process: gradients are what they are. ValueError before
    torch.distributed.init_process_group, RuntimeError for a module without trainable parameters.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> net = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    >>> list(net.state_dict())
    ['module.weight', 'module.bias']
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: Any = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None, mixed_precision: Any = None,
        device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
        device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        # By name, not by an import statement: distributed lies above nn.
        importlib.import_module("flambeau.distributed").get_world_size(process_group)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have "
                               "any parameter that requires a gradient.")  # fmt: skip
        if device_ids:
            raise ValueError(
                f"DistributedDataParallel: device_ids={list(device_ids)} names GPUs, and flambeau "
                "has none. Leave device_ids out for modules on the CPU."
            )
        self.module = module
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients made within are not averaged until a backward outside of it."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """For processes with uneven inputs: with one there are none."""
        yield

    def register_comm_hook(self, state: Any, hook: Any) -> NoReturn:
        """NotImplementedError: nothing is communicated."""
        raise NotImplementedError(
            "DistributedDataParallel.register_comm_hook is not implemented in flambeau"
        )
