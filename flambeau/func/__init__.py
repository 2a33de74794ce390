"""torch.func: function transforms (grad, vjp, jvp, vmap), and modules as pure functions."""

from __future__ import annotations

from typing import Any

from .batch_norm import replace_all_batch_norm_modules_
from .functional_call import functional_call, stack_module_state
from .functionalize import functionalize
from .per_sample_gradients import call_for_per_sample_grads
from .rearrange import rearrange
from .transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from .vmap import vmap

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
    "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp",
    "vmap",
]
