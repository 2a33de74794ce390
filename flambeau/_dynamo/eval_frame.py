"""torch._dynamo.eval_frame: the class of compiled modules, which programs look for."""

from __future__ import annotations

from ..compiler.driver.optimized_module import OptimizedModule

__all__ = ["OptimizedModule"]


def is_dynamo_supported() -> bool:
    """True: flambeau.compile runs on every Python that flambeau runs on."""
    return True
