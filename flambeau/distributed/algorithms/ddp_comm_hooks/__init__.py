"""Communication hooks: other ways than a plain sum to average the gradients of a bucket."""

from enum import Enum
from functools import partial
from typing import Any

from . import default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "default_hooks", "powerSGD_hook", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks that `register_ddp_comm_hook` takes."""

    ALLREDUCE = partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(default_hooks.bf16_compress_hook)
    POWER_SGD = partial(powerSGD_hook.powerSGD_hook)
    NOOP = partial(default_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Has a DistributedDataParallel use a hook of this enumeration."""
    model.register_comm_hook(state, comm_hook_type.value.func)
