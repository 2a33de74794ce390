"""torch._subclasses: tensors without values that only compilers of PyTorch make; there are none."""

from .fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
