"""torch.testing._internal: of PyTorch's test harness, what libraries use to test their operators.
"""

from . import optests, test_case

__all__ = ["optests", "test_case"]
