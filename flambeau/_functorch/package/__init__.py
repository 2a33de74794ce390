"""The package `functorch`, which PyTorch installs beside torch: older names of torch.func."""

from ...fx.experimental.proxy_tensor import make_fx
from ...tensor.absent import make_absent_getattr
from ...version import __version__
from ..deprecated import (
    combine_state_for_ensemble, functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp,
    make_functional, make_functional_with_buffers, vjp, vmap,
)
from ..make_functional import FunctionalModule, FunctionalModuleWithBuffers

__getattr__ = make_absent_getattr("functorch")
__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "__version__",
    "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "make_fx", "vjp", "vmap",
]
