"""rotary_embedding: ONNX's RotaryEmbedding of opset 23."""

from __future__ import annotations

from typing import Any

from ...library import custom_op
from ...ops.core.operator import PUBLIC
from ...tensor.tensor import Tensor

__all__ = ["DECOMPOSITIONS", "ROTARY_EMBEDDING", "rotary_embedding"]

_torch = PUBLIC["torch"]


def _check(condition: bool, text: str) -> None:
    if not condition:
        raise RuntimeError(text)


def _check_positions(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None) -> None:
    if positions is None:
        _check(cos.dim() == sin.dim() == 3, "cos_cache/sin_cache must be 3D when position_ids is "
               f"not provided. Received cos_cache shape {cos.shape}, sin_cache shape {sin.shape}")
        return
    _check(positions.dim() == 2,
           f"position_ids must be 2D when provided. Received shape {positions.shape}")
    _check(positions.shape[0] == x.shape[0], "position_ids first dim (batch) must match "
           f"x.shape[0] ({x.shape[0]}). Received {positions.shape[0]}")
    _check(positions.shape[1] == x.shape[-2], "position_ids second dim (sequence) must match "
           f"x.shape[-2] ({x.shape[-2]}). Received {positions.shape[1]}")
    _check(cos.dim() == sin.dim() == 2, "cos_cache/sin_cache must be 2D when position_ids is "
           f"provided. Received cos_cache shape {cos.shape}, sin_cache shape {sin.shape}")


def _check_cache(name: str, cache: Tensor, x: Tensor, half: int) -> None:
    batch, length = x.shape[:2]  # (batch, length, heads, features)
    _check(cache.shape[:2] == x.shape[:2], f"{name} has shape {cache.shape} but expected "
           f"(batch={batch}, seq={length}, ...)")
    _check(cache.shape[-1] == half, f"Last dimension of {name} cache ({cache.shape[-1]}) should "
           f"match rotary_embedding_dim/2 ({half}).")


def _rotate(
    x: Tensor, cos_cache: Tensor, sin_cache: Tensor, position_ids: Tensor | None = None, *,
    interleaved: bool = False, num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Tensor:
    _check_positions(x, cos_cache, sin_cache, position_ids)
    shape = x.shape
    if x.dim() == 4:
        x = x.permute(0, 2, 1, 3)  # (batch, length, heads, features)
    else:
        _check(num_heads != 0, "num_heads must be provided for 3D inputs. Received input tensor "
               f"with shape {shape}")
        x = x.reshape(shape[0], shape[1], num_heads, shape[2] // num_heads)
    width = rotary_embedding_dim or x.shape[3]
    rotated, rest = x[..., :width], x[..., width:]
    cos, sin = (cache if position_ids is None else cache[position_ids]
                for cache in (cos_cache, sin_cache))
    _check_cache("cos", cos, x, width // 2)
    _check_cache("sin", sin, x, width // 2)
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)  # (batch, length, 1, half of the features)
    a, b = (rotated[..., 0::2], rotated[..., 1::2]) if interleaved else rotated.chunk(2, -1)
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        rotated = _torch["stack"]((real, imaginary), -1).reshape(rotated.shape)
    else:
        rotated = _torch["cat"]((real, imaginary), -1)
    y: Tensor = _torch["cat"]((rotated, rest), -1)
    return y.reshape(shape) if len(shape) == 3 else y.permute(0, 2, 1, 3)


_operator: Any = custom_op("onnx::RotaryEmbedding.opset23", _rotate, mutates_args=())
_operator.register_fake(_rotate)
ROTARY_EMBEDDING = _operator._opoverload
DECOMPOSITIONS: dict[Any, Any] = {ROTARY_EMBEDDING: _rotate}


def rotary_embedding(
    X: Tensor, cos_cache: Tensor, sin_cache: Tensor, position_ids: Tensor | None = None, *,
    interleaved: bool = False, num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Tensor:
    """Rotate pairs of features by angles that depend on their tokens' positions.

    `X`: (batch, heads, length, features), or (batch, length, heads * features) with `num_heads`.
    `cos_cache`, `sin_cache`: (positions, features / 2) with `position_ids` of (batch, length), else
    (batch, length, features / 2). `interleaved`: pairs are neighbours, else halves apart.
    `rotary_embedding_dim`: rotate only so many features. See https://arxiv.org/abs/2104.09864.

    >>> x, angles = torch.ones(1, 1, 1, 2), torch.tensor([[[torch.pi / 2]]])
    >>> torch.onnx.ops.rotary_embedding(x, angles.cos(), angles.sin()).round().flatten()
    tensor([-1.,  1.])
    """
    result: Tensor = ROTARY_EMBEDDING(
        X, cos_cache, sin_cache, position_ids, interleaved=interleaved, num_heads=num_heads,
        rotary_embedding_dim=rotary_embedding_dim)
    return result
