"""torch.testing: assert_close, tensors to test with, texts that are looked for."""

from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor
from .file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
