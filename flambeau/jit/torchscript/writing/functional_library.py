"""nn.functional in TorchScript: functions whose signatures differ from aten's operators.

An archive includes those that its code calls. `_reduction` converts a reduction to its number.
"""

from __future__ import annotations

import ast
import functools
import re

from .functional_losses import LOSSES
from .functional_windows import WINDOWS

__all__ = ["list_signatures", "write_definitions"]

_CALLED = re.compile(r"__torch__\.torch\.nn\.functional\.(\w+)\(")
_POINTWISE = '''
def _reduction(name: str) -> int:
  if torch.eq(name, "none"):
    return 0
  if torch.eq(name, "mean"):
    return 1
  return 2
def relu(input: Tensor, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.relu_(input)
  return torch.relu(input)
def dropout(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.dropout_(input, p, training)
  return torch.dropout(input, p, training)
def dropout2d(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.feature_dropout_(input, p, training)
  return torch.feature_dropout(input, p, training)
def dropout1d(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  if torch.eq(torch.dim(input), 2):
    return torch.squeeze(torch.feature_dropout(torch.unsqueeze(input, 0), p, training), 0)
  if inplace:
    return torch.feature_dropout_(input, p, training)
  return torch.feature_dropout(input, p, training)
def dropout3d(input: Tensor, p: float=0.5, training: bool=True, inplace: bool=False) -> Tensor:
  if torch.eq(torch.dim(input), 4):
    return torch.squeeze(torch.feature_dropout(torch.unsqueeze(input, 0), p, training), 0)
  if inplace:
    return torch.feature_dropout_(input, p, training)
  return torch.feature_dropout(input, p, training)
def feature_alpha_dropout(input: Tensor, p: float=0.5, training: bool=False,
    inplace: bool=False) -> Tensor:
  return torch.feature_alpha_dropout(input, p, training)
def rrelu(input: Tensor, lower: float=0.125, upper: float=0.3333333333333333,
    training: bool=False, inplace: bool=False) -> Tensor:
  return torch.rrelu(input, lower, upper, training)
def alpha_dropout(input: Tensor, p: float=0.5, training: bool=False, inplace: bool=False) -> Tensor:
  return torch.alpha_dropout(input, p, training)
def silu(input: Tensor, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.silu_(input)
  return torch.silu(input)
def mish(input: Tensor, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.mish_(input)
  return torch.mish(input)
def hardswish(input: Tensor, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.hardswish_(input)
  return torch.hardswish(input)
def hardsigmoid(input: Tensor, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.hardsigmoid_(input)
  return torch.hardsigmoid(input)
def relu6(input: Tensor, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.relu6_(input)
  return torch.relu6(input)
def hardtanh(input: Tensor, min_val: float=-1.0, max_val: float=1.0, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.hardtanh_(input, min_val, max_val)
  return torch.hardtanh(input, min_val, max_val)
def elu(input: Tensor, alpha: float=1.0, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.elu_(input, alpha)
  return torch.elu(input, alpha)
def selu(input: Tensor, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.selu_(input)
  return torch.selu(input)
def celu(input: Tensor, alpha: float=1.0, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.celu_(input, alpha)
  return torch.celu(input, alpha)
def leaky_relu(input: Tensor, negative_slope: float=0.01, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.leaky_relu_(input, negative_slope)
  return torch.leaky_relu(input, negative_slope)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool=False) -> Tensor:
  if inplace:
    return torch.threshold_(input, threshold, value)
  return torch.threshold(input, threshold, value)
def gelu(input: Tensor, approximate: str="none") -> Tensor:
  return torch.gelu(input, approximate=approximate)
def softplus(input: Tensor, beta: float=1.0, threshold: float=20.0) -> Tensor:
  return torch.softplus(input, beta, threshold)
def glu(input: Tensor, dim: int=-1) -> Tensor:
  return torch.glu(input, dim)
def tanh(input: Tensor) -> Tensor:
  return torch.tanh(input)
def sigmoid(input: Tensor) -> Tensor:
  return torch.sigmoid(input)
def softsign(input: Tensor) -> Tensor:
  return torch.div(input, torch.add(torch.abs(input), 1))
def tanhshrink(input: Tensor) -> Tensor:
  return torch.sub(input, torch.tanh(input))
def hardshrink(input: Tensor, lambd: float=0.5) -> Tensor:
  return torch.hardshrink(input, lambd)
def softshrink(input: Tensor, lambd: float=0.5) -> Tensor:
  return torch.softshrink(input, lambd)
def logsigmoid(input: Tensor) -> Tensor:
  return torch.log_sigmoid(input)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
  return torch.prelu(input, weight)
def softmax(input: Tensor, dim: int, _stacklevel: int=3, dtype: Optional[int]=None) -> Tensor:
  return torch.softmax(input, dim, dtype)
def log_softmax(input: Tensor, dim: int, _stacklevel: int=3, dtype: Optional[int]=None) -> Tensor:
  return torch.log_softmax(input, dim, dtype)
def softmin(input: Tensor, dim: int, _stacklevel: int=3, dtype: Optional[int]=None) -> Tensor:
  return torch.softmax(torch.neg(input), dim, dtype)
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor]=None) -> Tensor:
  return torch.linear(input, weight, bias)
def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor]=None,
    bias: Optional[Tensor]=None, eps: float=1e-05) -> Tensor:
  return torch.layer_norm(input, normalized_shape, weight, bias, eps)
def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor]=None,
    eps: Optional[float]=None) -> Tensor:
  return torch.rms_norm(input, normalized_shape, weight, eps)
def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor]=None,
    bias: Optional[Tensor]=None, eps: float=1e-05) -> Tensor:
  return torch.group_norm(input, num_groups, weight, bias, eps)
def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor],
    weight: Optional[Tensor]=None, bias: Optional[Tensor]=None, training: bool=False,
    momentum: float=0.1, eps: float=1e-05) -> Tensor:
  return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
      False)
def instance_norm(input: Tensor, running_mean: Optional[Tensor]=None,
    running_var: Optional[Tensor]=None, weight: Optional[Tensor]=None,
    bias: Optional[Tensor]=None, use_input_stats: bool=True, momentum: float=0.1,
    eps: float=1e-05) -> Tensor:
  return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats,
      momentum, eps, False)
def normalize(input: Tensor, p: float=2.0, dim: int=1, eps: float=1e-12) -> Tensor:
  denominator = torch.clamp_min(torch.norm(input, p, [dim], True), eps)
  return torch.div(input, torch.expand_as(denominator, input))
def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int]=None,
    max_norm: Optional[float]=None, norm_type: float=2.0, scale_grad_by_freq: bool=False,
    sparse: bool=False) -> Tensor:
  row = -1
  if padding_idx is not None:
    row = padding_idx
  return torch.embedding(weight, input, row, scale_grad_by_freq, sparse)
def one_hot(tensor: Tensor, num_classes: int=-1) -> Tensor:
  return torch.one_hot(tensor, num_classes)
def pad(input: Tensor, pad: List[int], mode: str="constant", value: Optional[float]=None) -> Tensor:
  return torch.pad(input, pad, mode, value)
def gumbel_softmax(logits: Tensor, tau: float=1.0, hard: bool=False, eps: float=1e-10,
    dim: int=-1) -> Tensor:
  gumbels = torch.neg(torch.log(torch.exponential_(torch.empty_like(logits))))
  soft = torch.softmax(torch.div(torch.add(logits, gumbels), tau), dim)
  if hard:
    index = torch.argmax(soft, dim, True)
    chosen = torch.scatter(torch.zeros_like(logits), dim, index, 1.0)
    return torch.add(torch.sub(chosen, torch.detach(soft)), soft)
  return soft
def local_response_norm(input: Tensor, size: int, alpha: float=0.0001, beta: float=0.75,
    k: float=1.0) -> Tensor:
  squares = torch.unsqueeze(torch.mul(input, input), 1)
  before = torch.floordiv(size, 2)
  after = torch.floordiv(torch.sub(size, 1), 2)
  if torch.eq(torch.dim(input), 3):
    padded = torch.constant_pad_nd(squares, [0, 0, before, after])
    mean = torch.squeeze(torch.avg_pool2d(padded, [size, 1], [1, 1]), 1)
  else:
    shape = torch.size(input)
    volume = torch.reshape(squares, [shape[0], 1, shape[1], shape[2], -1])
    padded = torch.constant_pad_nd(volume, [0, 0, 0, 0, before, after])
    pooled = torch.avg_pool3d(padded, [size, 1, 1], [1, 1, 1])
    mean = torch.reshape(torch.squeeze(pooled, 1), shape)
  return torch.div(input, torch.pow(torch.add(torch.mul(mean, alpha), k), beta))
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int=1, eps: float=1e-08) -> Tensor:
  return torch.cosine_similarity(x1, x2, dim, eps)
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor,
    attn_mask: Optional[Tensor]=None, dropout_p: float=0.0, is_causal: bool=False,
    scale: Optional[float]=None, enable_gqa: bool=False) -> Tensor:
  return torch.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
      scale=scale, enable_gqa=enable_gqa)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
  return torch.pixel_shuffle(input, upscale_factor)
'''


@functools.cache
def _parse() -> dict[str, tuple[ast.FunctionDef, str]]:
    text = _POINTWISE + LOSSES + WINDOWS
    lines = text.splitlines(keepends=True)
    return {node.name: (node, "".join(lines[node.lineno - 1 : node.end_lineno]))
            for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def list_signatures() -> dict[str, ast.arguments]:
    """Return the parameters of each function."""
    return {name: node.args for name, (node, _) in _parse().items()}


def write_definitions(names: set[str]) -> str:
    """Return the text of these functions, and of those that they call."""
    wanted, unvisited = set(names), list(names)
    while unvisited:
        called = _CALLED.findall(_parse()[unvisited.pop()][1])
        unvisited += [name for name in called if name not in wanted]
        wanted.update(called)
    return "".join(text for name, (_, text) in _parse().items() if name in wanted)
