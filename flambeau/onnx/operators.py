"""torch.onnx.operators: shapes as tensors, and reshaping by them, preserved in exports."""

from .._namespace.assertions import _shape_as_tensor
from ..tensor.tensor import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """Return the shape as an int64 tensor.

    >>> from flambeau.onnx.operators import shape_as_tensor
    >>> shape_as_tensor(torch.ones(2, 3))
    tensor([2, 3])
    """
    return _shape_as_tensor(x)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """Reshape `x` to the shape in a tensor.

    >>> from flambeau.onnx.operators import reshape_from_tensor_shape
    >>> reshape_from_tensor_shape(torch.ones(4), torch.tensor([2, 2])).shape
    torch.Size([2, 2])
    """
    return x.reshape(shape.tolist())
