"""A look at values by the library itself, for a check: it does not keep a compiled step eager."""

from __future__ import annotations

import numpy as np

from .tensor import Tensor


def peek(x: Tensor) -> np.ndarray:
    """The values of x. What is done must not depend on them, but for an error that is raised."""
    return x._array
