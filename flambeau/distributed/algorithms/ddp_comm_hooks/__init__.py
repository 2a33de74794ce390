"""Communication hooks: alternatives to a plain all-reduce of each gradient bucket."""

from enum import Enum
from functools import partial
from typing import Any

from . import default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "default_hooks", "powerSGD_hook", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks that `register_ddp_comm_hook` accepts."""

    ALLREDUCE = partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(default_hooks.bf16_compress_hook)
    POWER_SGD = partial(powerSGD_hook.powerSGD_hook)
    NOOP = partial(default_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Make a DistributedDataParallel model use one of these hooks."""
    model.register_comm_hook(state, comm_hook_type.value.func)
