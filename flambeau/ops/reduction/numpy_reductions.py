"""NumPy's reductions as functions of positional arguments: (x, axes, dtype, out, keepdims).

NumPy's stubs allow `keepdims` only by name, which costs a small reduction a tenth of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Reduction = Callable[..., Any]

reduce_sum: Reduction = np.add.reduce
reduce_product: Reduction = np.multiply.reduce
reduce_max: Reduction = np.maximum.reduce
reduce_min: Reduction = np.minimum.reduce
