"""nn.functional in TorchScript: pooling, unpooling, folding, grid sampling, interpolation and
embedding bags. What differs only in the number of spatial axes is a template."""

__all__ = ["WINDOWS"]

# {n}: the number of spatial axes. {zeros}, {ones}: a list of as many.
_POOLING = '''
def adaptive_avg_pool{n}d(input: Tensor, output_size: List[int]) -> Tensor:
  return torch.adaptive_avg_pool{n}d(input, output_size)
def max_pool{n}d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]]=None,
    padding: List[int]={zeros}, dilation: List[int]={ones}, ceil_mode: bool=False,
    return_indices: bool=False) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  return torch.max_pool{n}d(input, kernel_size, step, padding, dilation, ceil_mode)
def max_pool{n}d_with_indices(input: Tensor, kernel_size: List[int],
    stride: Optional[List[int]]=None, padding: List[int]={zeros}, dilation: List[int]={ones},
    ceil_mode: bool=False, return_indices: bool=True) -> Tuple[Tensor, Tensor]:
  step = kernel_size
  if stride is not None:
    step = stride
  y, indices = torch.max_pool{n}d_with_indices(input, kernel_size, step, padding, dilation,
      ceil_mode)
  return (y, indices)
def adaptive_max_pool{n}d(input: Tensor, output_size: List[int],
    return_indices: bool=False) -> Tensor:
  y, _ = torch.adaptive_max_pool{n}d(input, output_size)
  return y
def adaptive_max_pool{n}d_with_indices(input: Tensor, output_size: List[int],
    return_indices: bool=True) -> Tuple[Tensor, Tensor]:
  y, indices = torch.adaptive_max_pool{n}d(input, output_size)
  return (y, indices)
'''
_AVERAGE_WITH_DIVISOR = '''
def avg_pool{n}d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]]=None,
    padding: List[int]={zeros}, ceil_mode: bool=False, count_include_pad: bool=True,
    divisor_override: Optional[int]=None) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  return torch.avg_pool{n}d(input, kernel_size, step, padding, ceil_mode, count_include_pad,
      divisor_override)
'''
_FUNCTIONS = '''
def avg_pool1d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]]=None,
    padding: List[int]=[0], ceil_mode: bool=False, count_include_pad: bool=True) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  return torch.avg_pool1d(input, kernel_size, step, padding, ceil_mode, count_include_pad)
def _unpooled_size(input: Tensor, kernel_size: List[int], stride: List[int], padding: List[int],
    output_size: Optional[List[int]]) -> List[int]:
  count = torch.len(kernel_size)
  sizes = annotate(List[int], [])
  for axis in range(count):
    length = torch.size(input, torch.add(torch.neg(count), axis))
    spread = torch.mul(torch.sub(length, 1), stride[axis])
    whole = torch.sub(torch.add(spread, kernel_size[axis]), torch.mul(padding[axis], 2))
    _0 = torch.append(sizes, whole)
  if output_size is not None:
    return torch.slice(output_size, torch.neg(count))
  return sizes
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: List[int],
    stride: Optional[List[int]]=None, padding: List[int]=[0],
    output_size: Optional[List[int]]=None) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  size = __torch__.torch.nn.functional._unpooled_size(input, kernel_size, step, padding,
      output_size)
  y = torch.max_unpool2d(torch.unsqueeze(input, -1), torch.unsqueeze(indices, -1),
      torch.add(size, [1]))
  return torch.squeeze(y, -1)
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: List[int],
    stride: Optional[List[int]]=None, padding: List[int]=[0, 0],
    output_size: Optional[List[int]]=None) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  size = __torch__.torch.nn.functional._unpooled_size(input, kernel_size, step, padding,
      output_size)
  return torch.max_unpool2d(input, indices, size)
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: List[int],
    stride: Optional[List[int]]=None, padding: List[int]=[0, 0, 0],
    output_size: Optional[List[int]]=None) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  size = __torch__.torch.nn.functional._unpooled_size(input, kernel_size, step, padding,
      output_size)
  return torch.max_unpool3d(input, indices, size, step, padding)
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: List[int],
    stride: Optional[List[int]]=None, ceil_mode: bool=False) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  y = torch.avg_pool1d(torch.pow(input, norm_type), kernel_size, step, [0], ceil_mode)
  mean = torch.mul(torch.sign(y), torch.relu(torch.abs(y)))
  return torch.pow(torch.mul(mean, kernel_size[0]), torch.div(1.0, norm_type))
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: List[int],
    stride: Optional[List[int]]=None, ceil_mode: bool=False) -> Tensor:
  step = kernel_size
  if stride is not None:
    step = stride
  y = torch.avg_pool2d(torch.pow(input, norm_type), kernel_size, step, [0, 0], ceil_mode)
  mean = torch.mul(torch.sign(y), torch.relu(torch.abs(y)))
  count = torch.mul(kernel_size[0], kernel_size[1])
  return torch.pow(torch.mul(mean, count), torch.div(1.0, norm_type))
def unfold(input: Tensor, kernel_size: List[int], dilation: List[int]=[1, 1],
    padding: List[int]=[0, 0], stride: List[int]=[1, 1]) -> Tensor:
  return torch.im2col(input, kernel_size, dilation, padding, stride)
def fold(input: Tensor, output_size: List[int], kernel_size: List[int],
    dilation: List[int]=[1, 1], padding: List[int]=[0, 0], stride: List[int]=[1, 1]) -> Tensor:
  return torch.col2im(input, output_size, kernel_size, dilation, padding, stride)
def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool]=None) -> Tensor:
  corners = False
  if align_corners is not None:
    corners = align_corners
  return torch.affine_grid_generator(theta, size, corners)
def grid_sample(input: Tensor, grid: Tensor, mode: str="bilinear", padding_mode: str="zeros",
    align_corners: Optional[bool]=None) -> Tensor:
  corners = False
  if align_corners is not None:
    corners = align_corners
  sampling = 0
  if torch.eq(mode, "nearest"):
    sampling = 1
  if torch.eq(mode, "bicubic"):
    sampling = 2
  outside = 0
  if torch.eq(padding_mode, "border"):
    outside = 1
  if torch.eq(padding_mode, "reflection"):
    outside = 2
  return torch.grid_sampler(input, grid, sampling, outside, corners)
def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor]=None,
    max_norm: Optional[float]=None, norm_type: float=2.0, scale_grad_by_freq: bool=False,
    mode: str="mean", sparse: bool=False, per_sample_weights: Optional[Tensor]=None,
    include_last_offset: bool=False, padding_idx: Optional[int]=None) -> Tensor:
  kind = 1
  if torch.eq(mode, "sum"):
    kind = 0
  if torch.eq(mode, "max"):
    kind = 2
  rows = input
  weights = per_sample_weights
  if offsets is None:
    starts = torch.arange(0, torch.numel(input), torch.size(input, 1), dtype=ops.prim.dtype(input))
    rows = torch.reshape(input, [-1])
    if per_sample_weights is not None:
      weights = torch.reshape(per_sample_weights, [-1])
  else:
    starts = offsets
  y, _, _1, _2 = torch.embedding_bag(weight, rows, starts, scale_grad_by_freq, kind, sparse,
      weights, include_last_offset, padding_idx)
  return y
def upsample_nearest(input: Tensor, size: Optional[List[int]]=None,
    scale_factor: Optional[List[float]]=None) -> Tensor:
  return __torch__.torch.nn.functional.interpolate(input, size, scale_factor)
def upsample_bilinear(input: Tensor, size: Optional[List[int]]=None,
    scale_factor: Optional[List[float]]=None) -> Tensor:
  return __torch__.torch.nn.functional.interpolate(input, size, scale_factor, "bilinear", True)
def upsample(input: Tensor, size: Optional[List[int]]=None,
    scale_factor: Optional[List[float]]=None, mode: str="nearest",
    align_corners: Optional[bool]=None) -> Tensor:
  return __torch__.torch.nn.functional.interpolate(input, size, scale_factor, mode, align_corners)
def _scaled_sizes(input: Tensor, factors: List[float]) -> List[int]:
  sizes = annotate(List[int], [])
  for axis in range(torch.sub(torch.dim(input), 2)):
    length = torch.mul(float(torch.size(input, torch.add(axis, 2))), factors[axis])
    _0 = torch.append(sizes, int(torch.floor(length)))
  return sizes
def interpolate(input: Tensor, size: Optional[List[int]]=None,
    scale_factor: Optional[List[float]]=None, mode: str="nearest",
    align_corners: Optional[bool]=None, recompute_scale_factor: Optional[bool]=None,
    antialias: bool=False) -> Tensor:
  corners = False
  if align_corners is not None:
    corners = align_corners
  axes = torch.sub(torch.dim(input), 2)
  sizes = annotate(Optional[List[int]], None)
  factors = annotate(Optional[List[float]], None)
  if size is not None:
    sizes = torch.slice(size, 0, axes)
  if scale_factor is not None:
    whole = torch.eq(mode, "area")
    if recompute_scale_factor is not None:
      whole = torch.__or__(whole, recompute_scale_factor)
    if whole:
      sizes = __torch__.torch.nn.functional._scaled_sizes(input, scale_factor)
    else:
      factors = torch.slice(scale_factor, 0, axes)
  if torch.eq(axes, 1):
    if torch.eq(mode, "nearest"):
      return torch.upsample_nearest1d(input, sizes, factors)
    if torch.eq(mode, "nearest-exact"):
      return torch._upsample_nearest_exact1d(input, sizes, factors)
    if torch.eq(mode, "area"):
      return torch.adaptive_avg_pool1d(input, unchecked_cast(List[int], sizes))
    return torch.upsample_linear1d(input, sizes, corners, factors)
  if torch.eq(axes, 2):
    if torch.eq(mode, "nearest"):
      return torch.upsample_nearest2d(input, sizes, factors)
    if torch.eq(mode, "nearest-exact"):
      return torch._upsample_nearest_exact2d(input, sizes, factors)
    if torch.eq(mode, "area"):
      return torch.adaptive_avg_pool2d(input, unchecked_cast(List[int], sizes))
    if torch.eq(mode, "bicubic"):
      if antialias:
        return torch._upsample_bicubic2d_aa(input, sizes, corners, factors)
      return torch.upsample_bicubic2d(input, sizes, corners, factors)
    if antialias:
      return torch._upsample_bilinear2d_aa(input, sizes, corners, factors)
    return torch.upsample_bilinear2d(input, sizes, corners, factors)
  if torch.eq(mode, "nearest"):
    return torch.upsample_nearest3d(input, sizes, factors)
  if torch.eq(mode, "nearest-exact"):
    return torch._upsample_nearest_exact3d(input, sizes, factors)
  if torch.eq(mode, "area"):
    return torch.adaptive_avg_pool3d(input, unchecked_cast(List[int], sizes))
  return torch.upsample_trilinear3d(input, sizes, corners, factors)
'''


def _expand_axes(template: str, n: int) -> str:
    zeros, ones = (str([number] * n) for number in (0, 1))
    return template.format(n=n, zeros=zeros, ones=ones)


WINDOWS = "".join([
    *(_expand_axes(_POOLING, n) for n in (1, 2, 3)),
    *(_expand_axes(_AVERAGE_WITH_DIVISOR, n) for n in (2, 3)),
    _FUNCTIONS,
])
