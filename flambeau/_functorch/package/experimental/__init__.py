"""functorch.experimental: names that torch.func has had since."""

from ....tensor.absent import make_absent_getattr
from ...apis import chunk_vmap
from ...batch_norm_replacement import replace_all_batch_norm_modules_
from ...eager_transforms import functionalize, hessian, jacfwd, jvp

__all__ = [
    "chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_",
]

__getattr__ = make_absent_getattr("functorch.experimental")
