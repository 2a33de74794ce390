"""torch._dynamo.eval_frame: the class of compiled modules, which programs look for."""

from __future__ import annotations

from ..compiler.driver.optimized_module import OptimizedModule

__all__ = ["OptimizedModule"]


def is_dynamo_supported() -> bool:
    """False: there is no Dynamo."""
    return False
