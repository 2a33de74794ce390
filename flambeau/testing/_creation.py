"""make_tensor: tensors of random elements between limits, for tests."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..tensor import Tensor, device, dtype
from ..tensor import dtypes as types


def _limits(dtype: dtype, low: float | None, high: float | None) -> tuple[float, float]:
    if dtype is types.bool_:
        default = (0.0, 2.0)
    elif dtype.is_floating_point or dtype.is_complex:
        default = (-9.0, 9.0)
    else:
        default = (max(-9.0, float(types.iinfo(dtype).min)), 10.0)
    found = (default[0] if low is None else low, default[1] if high is None else high)
    if found[0] >= found[1]:
        raise ValueError(f"make_tensor: low must be below high, but got {found[0]} >= {found[1]}")
    return found


def make_tensor(
    *shape: Any, dtype: dtype, device: str | device = "cpu", low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of elements drawn evenly from [low, high): [-9, 9] for floating dtypes, integers
    below 10, truth values.

    >>> torch.testing.make_tensor(2, 3, dtype=torch.float32).shape
    torch.Size([2, 3])
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually "
                         f"exclusive, but got {noncontiguous=} and {memory_format=}")  # fmt: skip
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, "
                         f"but got {dtype=}")  # fmt: skip
    bottom, top = _limits(dtype, low, high)
    wide = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else tuple(shape)
    if dtype.is_complex:
        part = types.float64 if dtype is types.complex128 else types.float32
        made = ops.complex(*(ops.empty(wide, dtype=part).uniform_(bottom, top) for _ in "ri"))
        made = made.to(dtype)
    elif dtype.is_floating_point:
        made = ops.empty(wide, dtype=types.float64).uniform_(bottom, top).to(dtype)
    else:
        made = ops.randint(int(bottom), int(top), wide, dtype=types.int64).to(dtype)
    if noncontiguous and shape:
        made = made[..., ::2]
    if exclude_zero:
        made[made == 0] = True if dtype is types.bool_ else 1
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.to(device).requires_grad_(requires_grad)
