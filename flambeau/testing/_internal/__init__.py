"""torch.testing._internal: of PyTorch's test harness, what libraries use to test their operators.
"""

from . import optests

__all__ = ["optests"]
