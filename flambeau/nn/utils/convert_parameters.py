"""Flatten parameters into one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ... import ops
from ...tensor import Tensor
from ..registration import _typename


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate all elements of the parameters into one 1-dim tensor, differentiably.

    >>> nn.utils.parameters_to_vector(nn.Linear(3, 2).parameters()).shape
    torch.Size([8])
    """
    return ops.cat([p.view(-1) for p in _on_one_device(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters views of consecutive slices of `vec`.

    >>> layer = nn.Linear(2, 1)
    >>> nn.utils.vector_to_parameters(torch.tensor([1., 2., 3.]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {_typename(vec)}")
    start = 0
    for parameter in _on_one_device(parameters):
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end


def _on_one_device(parameters: Iterable[Tensor]) -> list[Tensor]:
    parameters = list(parameters)
    if len({p.get_device() for p in parameters}) > 1:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
    return parameters
