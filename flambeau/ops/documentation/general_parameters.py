"""What a parameter means, by its name: one line for each name, `name | type | sentence`.

`family_parameters` has other sentences for families in which a name means something else. An
operator overrides both with a section `Args:` in its own docstring.
"""

GENERAL = """
A | Tensor | A matrix, or a batch of matrices of shape (..., m, n).
B | Tensor | The right-hand sides, (..., m) or (..., m, k).
C | int | The number of channels.
HxW | int | The number of elements in each channel.
L | Tensor | The Cholesky factor, (..., n, n).
LD | Tensor | L and D in one array, as `ldl_factor` returns them.
LU | Tensor | L and U in one array, as `lu_factor` returns them.
LU_data | Tensor | L and U in one array, as `lu_factor` returns them.
LU_pivots | Tensor | The row exchanges, as `lu_factor` returns them.
M | Tensor | The matrix to subtract from A. None: nothing.
N | int | The number of columns. None: as many as there are elements.
UPLO | str | The triangle to read: 'L', the lower, or 'U', the upper.
_random_samples | Tensor | Numbers in [0, 1), (n, c, axes), that place the windows. None: drawn.
_stacklevel | int | The caller that a warning points to.
a | Tensor | The first factor.
abs | Tensor | The magnitudes.
accumulate | bool | Whether to add to what is there instead of replacing it.
add_zero_attn | bool | Whether to append a key and a value of zeros.
adjoint | bool | Whether to solve with the conjugate transpose of A.
align_corners | bool | Whether -1 and 1 are the centres of the corner pixels, not their edges.
align_to_window | bool | Whether to align frames to the window. Only without `center`.
alpha | number | The factor of the second operand.
ambiguity_check | bool or list | Whether to raise unless one order, or one format of the list, fits.
anchor | Tensor | The points from which distances are measured, (n, d).
angle | Tensor | The angles in radians.
antialias | bool | Whether to filter before shrinking. Only for 'bilinear' and 'bicubic'.
append | Tensor | What to append along `dim` first. None: nothing.
approximate | str | 'none': the exact formula; 'tanh': an approximation that is cheaper.
args | arguments | The arguments, by position.
as_tuple | bool | Whether to return a vector of indices for each axis.
assume_unique | bool | Whether both tensors are known to have no element twice.
atol | float | The absolute tolerance.
attn_mask | Tensor | A mask that is broadcast to the scores: bool (True: attend), or floats to add.
average_attn_weights | bool | Whether to average the weights over the heads.
aweights | Tensor | The weight of each observation, (n,).
axis | int | The axis to work along: another name of `dim`.
b | Tensor | The second factor.
b_hh | Tensor | The bias of the hidden state, (g * hidden,). None: zeros.
b_ih | Tensor | The bias of the input, (g * hidden,). None: zeros.
base | float | The base of the powers.
batch1 | Tensor | The first batch of matrices, (b, n, m).
batch2 | Tensor | The second batch of matrices, (b, m, p).
beta | number | The factor of `input`. With 0, `input` is not read.
bias | Tensor | What is added to each channel of the result. None: nothing.
bias_k | Tensor | A key to append to the sequence, (1, 1, embedding). None: nothing.
bias_v | Tensor | A value to append to the sequence, (1, 1, embedding). None: nothing.
bins | int | The number of bins.
blank | int | The class that stands for no label.
blocksize | tuple of ints | The height and width of a block, in the blocked layouts.
boundaries | Tensor | The edges of the buckets, in ascending order.
buffer | object | An object with Python's buffer protocol, such as bytes or an array.
callable | function | Called with Python numbers, returns one.
ceil_mode | bool | Whether to round the number of windows up rather than down.
center | bool | Whether to pad the signal so that frame t is centred at t * hop_length.
check_errors | bool | Whether to raise LinAlgError where `info` is not 0.
chunks | int | The number of pieces, at most.
cls | type | A subclass of Tensor.
col | int | The number of columns.
compute_mode | str | Accepted for compatibility with PyTorch; has no effect on the result.
compute_uv | bool | Whether to compute the singular vectors.
condition | Tensor | The condition, a tensor of bools.
copy | bool | True: always copy; False: never, or raise ValueError; None: only where it must be.
correction | number | Subtracted from the number of elements before dividing. None: 1.
count | int | The number of elements to read; -1: all of them.
count_include_pad | bool | Whether padding counts as elements of a window.
cudnn_enable | bool | Accepted for compatibility with PyTorch; has no effect.
cudnn_enabled | bool | Accepted for compatibility with PyTorch; has no effect.
d | float | The distance between samples.
data | number, sequence, array or Tensor | The values.
decimals | int | The number of decimal places; negative: places left of the point.
delta | float | Where the loss changes from quadratic to linear.
dense_dim | int | The number of trailing axes that stay dense.
density | bool | Whether to divide so that the histogram integrates to 1.
descending | bool | Whether to sort from the largest to the smallest.
destination | int or tuple of ints | The places that the axes move to.
device | device or str | The device of the result. None: the default device, 'cpu'.
diagonal | int | The diagonal: 0 is the main one, positive ones are above it.
dilation | int or tuple of ints | The distance between a window's taps, for all axes or for each.
dim | int | The axis to work along; negative numbers count from the last.
dim0 | int | The first axis.
dim1 | int | The first of the two axes.
dim2 | int | The second of the two axes.
dimension | int | The axis to cut windows from.
dims | tuple of ints | The axes; negative numbers count from the last.
dims_ | ints | How often to repeat along each axis.
distance_function | function | Called with two tensors, returns their distances. None: the 2-norm.
divisor_override | int | What to divide by instead of the number of elements in a window.
downscale_factor | int | The factor r by which height and width shrink.
driver | str | The LAPACK routine to use. None: the default one.
dropout_p | float | The probability with which an attention weight is dropped.
dtype | dtype | The dtype of the result. None: as described under Returns.
dx | number | The distance between neighbouring points. None: 1.
edge_order | int | 1 or 2: the order of the differences at the borders.
elements | Tensor or number | The elements to look up.
embed_dim_to_check | int | The width of the embedding that `query` must have.
enable_gqa | bool | Whether `query` may have a multiple of the heads of `key` and `value`.
end | number | Where the sequence ends.
end_dim | int | The last axis to merge.
eps | float | A small number that keeps divisors away from 0.
equal_nan | bool | Whether NaN equals NaN.
exponent | Tensor or number | The exponent.
ext_tensor | object | An object with `__dlpack__`, or a DLPack capsule.
filename | str | The path of the file.
fill_value | number | The value to fill with.
force | bool | Whether to detach and copy where a view is impossible.
full | bool | Whether to add the constant term of the loss.
full_matrices | bool | Whether U and Vh are square.
fweights | Tensor | How often each observation occurs, (n,), integers.
generator | Generator | The source of random numbers. None: the default generator.
get_infos | bool | Whether to return the places of zero pivots, too.
grad_output | Tensor | The gradient with respect to the result.
grid | Tensor | The points to sample at, coordinates in [-1, 1], (n, h', w', 2).
group | int | The number of groups of channels.
groups | int | The number of groups of channels.
hard | bool | Whether to return one-hot vectors, with the gradient of the soft ones.
hermitian | bool | Whether A is Hermitian (symmetric, if real).
hop_length | int | The number of samples between frames. None: n_fft // 4.
hx | Tensor | The hidden state, (batch, hidden).
ignore_index | int | A class whose targets count for nothing.
ignored | arguments | Accepted for compatibility with PyTorch; has no effect.
imag | Tensor | The imaginary parts, of the dtype and shape of `real`.
implicit | bool | Accepted for compatibility with PyTorch; has no effect.
in_proj_bias | Tensor | The biases of query, key and value, (3 * embedding,).
in_proj_weight | Tensor | The weights of query, key and value, (3 * embedding, embedding).
include_last_offset | bool | Whether `offsets` has one more entry, the number of indices.
include_self | bool | Whether the elements of `input` take part in the reduction.
increasing | bool | Whether powers grow from left to right.
ind | int | The number of leading axes that form the rows.
index | Tensor | Indices along `dim`, int64.
indexing | str | 'ij': the first vector varies along axis 0; 'xy': along axis 1. None: 'ij'.
indices | Tensor | Indices, int64.
indices_or_sections | int, or ints or Tensor | How many pieces, or the indices at which to cut.
initial | number | What the reduction of a segment starts from. None: its identity.
inplace | bool | Whether to write the result over `input`.
input | Tensor | The input.
input1 | Tensor | The first input.
input2 | Tensor | The second input.
input_lengths | Tensor or ints | The number of time steps of each sequence, (batch,).
interpolation | str | Between two elements: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'.
interpolation_mode | int | 0: bilinear, 1: nearest, 2: bicubic.
invert | bool | Whether to return the opposite.
is_causal | bool | Whether position i attends to positions up to i only.
k | int | The number of elements.
k_proj_weight | Tensor | The weight of the keys, (embedding, kdim).
keepdim | bool | Whether the reduced axes stay, with length 1.
kernel_size | int or tuple of ints | The size of a window, for all axes or for each.
key | Tensor | The keys.
key_padding_mask | Tensor | Keys to ignore, (batch, keys): True, or -inf.
kwargs | arguments | The arguments, by name.
label_smoothing | float | How much of each target goes to all classes evenly, in [0, 1].
lambd | number | The threshold, not negative.
largest | bool | Whether to take the largest rather than the smallest.
layout | layout | The memory layout. None: torch.strided.
left | bool | Whether A stands to the left of X.
length | int | The number of elements.
lengths | Tensor | The length of each segment.
linear_bias | Tensor | The bias of the linear layer, (classes,). None: nothing.
linear_weight | Tensor | The weight of the linear layer, (classes, in).
log_input | bool | Whether `input` holds logarithms of the rates.
log_probs | Tensor | Log probabilities, (time, batch, classes) or (time, classes).
log_target | bool | Whether `target` holds logarithms, too.
logits | Tensor | Unnormalized log probabilities, (..., classes).
lower | number | The lower end of the range of slopes.
m | int | The number of columns. None: n.
margin | number | The margin.
mask | Tensor | A tensor of bools that broadcasts to the shape of `input`.
masked_grad | bool | Accepted for compatibility with PyTorch; has no effect.
mat | Tensor | The matrix, (n, m).
mat1 | Tensor | The first matrix, (n, m).
mat2 | Tensor | The second matrix, (m, p).
mat_a | Tensor | The first factor, (m, k) or (g, m, k).
mat_b | Tensor | The second factor, (k, n) or (g, k, n).
matrices | Tensors | The matrices to multiply, in order.
max | Tensor or number | The upper bound. None: no bound.
max_norm | float | Rows with a longer norm are scaled down to it, in place. None: no limit.
max_val | number | The upper bound.
maxnorm | number | The largest norm that a slice may have.
mean | Tensor or float | The mean of each number.
memory_format | memory_format | The order of the axes in memory.
method | str | Accepted for compatibility with PyTorch; has no effect.
min | Tensor or number | The lower bound. None: no bound.
min_val | number | The lower bound.
minlength | int | The least length of the result.
mode | str | How to compute it.
momentum | float | How far running statistics move towards those of the batch.
n | int | The number of elements.
n_fft | int | The length of a transform, in samples.
nan | number | What replaces NaN.
ndarray | numpy.ndarray | The array whose memory to share.
need_weights | bool | Whether to return the attention weights.
negative | Tensor | Points that should be far from the anchors, (n, d).
negative_slope | number | The slope below 0.
neginf | number | What replaces -infinity. None: the least number of the dtype.
new_state | Tensor | A state that `get_rng_state` returned.
niter | int | The number of iterations.
non_blocking | bool | Accepted for compatibility with PyTorch; has no effect.
norm | str | Where to divide by n: 'backward': in the inverse; 'forward'; 'ortho': both by sqrt(n).
norm_type | float | The p of the p-norm.
normalized | bool | Whether to divide by the square root of n_fft.
normalized_shape | int or tuple of ints | The lengths of the trailing axes to normalize over.
num_classes | int | The number of classes; -1: the largest index plus one.
num_groups | int | The number of groups, a divisor of the channels.
num_heads | int | The number of heads, a divisor of the embedding's width.
num_samples | int | The number of indices to draw from each row.
num_weights | int | The number of rows of the table.
obj | object | The object.
offs | Tensor | Where each group ends, (g,), int32.
offset | int | The diagonal: 0 is the main one, positive ones are above it.
offsets | Tensor | Where each piece begins.
onesided | bool | Whether to hold half of the frequencies. None: for real signals.
options | arguments | The other arguments of the operator, by name.
ord | number or str | The order of the norm.
ortho_bparams | dict | Accepted for compatibility with PyTorch; has no effect.
ortho_fparams | dict | Accepted for compatibility with PyTorch; has no effect.
ortho_iparams | dict | Accepted for compatibility with PyTorch; has no effect.
other | Tensor or number | The second operand, broadcast with the first.
out | Tensor | Where to write the result; resized if its shape differs.
out_dtype | dtype | The dtype of the result. None: that of the factors.
out_int32 | bool | Whether the result is int32 rather than int64.
out_proj_bias | Tensor | The bias of the output projection, (embedding,).
out_proj_weight | Tensor | The weight of the output projection, (embedding, embedding).
output_padding | int or tuple of ints | How much longer the result is at the end of each axis.
output_ratio | float or tuple of floats | The result's size as a fraction of the input's.
output_size | int or tuple of ints | The size of the result, without batch and channels.
p | number | The p of the p-norm.
pad | tuple of ints | (before, after) for each axis from the last one; negative: to cut off.
pad_mode | str | How `center` pads the signal: a mode of `nn.functional.pad`.
padding | int or tuple of ints | The padding on both sides, for all axes or for each.
padding_idx | int | A row that gets no gradient. None: none.
padding_mode | str | What lies outside: 'zeros', 'border' or 'reflection'.
per_sample_weights | Tensor | A weight for each index; only for sums. None: 1.
periodic | bool | Whether the window is one period, for transforms, rather than symmetric.
physical_layout | tuple of ints | The axes, from the outermost in memory to the innermost.
pin_memory | bool | Accepted for compatibility with PyTorch; has no effect.
pivot | bool | Whether to exchange rows.
pivots | Tensor | The row exchanges that the factorization returned.
pos_weight | Tensor | A factor of the positive term for each class. None: 1.
posinf | number | What replaces infinity. None: the greatest number of the dtype.
positive | Tensor | Points that should be near the anchors, (n, d).
pow | number | The p of the p-norm.
prepend | Tensor | What to prepend along `dim` first. None: nothing.
prob | Tensor | The probability of success, broadcast with `count`.
q | number or Tensor | The fractions, in [0, 1].
q_proj_weight | Tensor | The weight of the queries, (embedding, embedding).
qtensor | Tensor | The tensor whose scale, zero point and dtype to take.
quant_max | int | The greatest of the integers.
quant_min | int | The least of the integers.
query | Tensor | The queries.
r | int | The number of elements in a combination.
range | tuple of numbers | The least and the greatest value that count. None: those of `input`.
rcond | float | Singular values up to this fraction of the largest count as 0.
real | Tensor | The real parts.
recompute_scale_factor | bool | Whether to use the ratio of the sizes rather than `scale_factor`.
reduce | bool | Deprecated, use `reduction`. False: 'none'.
reduce_range | bool | Whether the integers have one bit less.
reduction | str | 'mean' or 'sum' of the losses, or 'none' for each of them.
repeats | int or Tensor | How often to repeat each element, or each of them.
replacement | bool | Whether an index may be drawn twice.
requires_grad | bool | Whether autograd records what happens to the result.
return_complex | bool | Whether the result is complex.
return_counts | bool | Whether to return how often each value occurs.
return_indices | bool | Whether to return the indices of the maxima, too.
return_inverse | bool | Whether to return the place of each element among the values.
right | bool | Whether equal values go to the right of an edge.
rounding_mode | str | None: no rounding; 'floor': down; 'trunc': towards 0.
row | int | The number of rows.
rtol | float | The relative tolerance.
running_mean | Tensor | The running mean of each channel, (c,), updated in place. None: none.
running_var | Tensor | The running variance of each channel, (c,), updated in place. None: none.
s | tuple of ints | The length of each axis, cut or filled with zeros. None: the input's.
scale | float | The factor of the scores. None: 1 / sqrt(d).
scale_factor | float or tuple of floats | The factor by which each axis grows, instead of `size`.
scale_grad_by_freq | bool | Whether to divide a row's gradient by how often it was used.
scales | Tensor | The scale of each place along `axis`, (n,).
sections | int | How many pieces.
seed | int | The seed, in [-2**63, 2**64).
self | Tensor | The tensor itself.
shape | tuple of ints | The shape of the result; -1 in one place: what is left.
shape_ | ints | The shape of the result; -1 in one place: what is left.
shapes | tuples of ints | The shapes to combine.
shared | bool | Whether writes go to the file.
shifts | int or tuple of ints | How far to move along each of `dims`.
side | str | 'left' or 'right': the other way to say `right`. None: what `right` says.
size | ints, or a tuple of ints | The shape of the result.
size_average | bool | Deprecated, use `reduction`. False: 'sum'.
sizes | ints, or a tuple of ints | The lengths of the new axes.
some | bool | Whether to return the reduced factors only.
sorted | bool | Whether the result is sorted.
sorted_sequence | Tensor | Rows in ascending order, (..., n).
sorter | Tensor | The indices that sort `sorted_sequence`, if it is not sorted. None: it is.
source | Tensor | The values to write.
spacing | number, numbers or Tensors | The points' distance, or coordinates for each axis. None: 1.
sparse | bool | Whether the gradient of `weight` is a sparse tensor.
sparse_dim | int | The number of leading axes that become sparse. None: all.
sparse_grad | bool | Accepted for compatibility with PyTorch; has no effect.
split_size | int, or a list of ints | The length of a piece, or the length of each.
split_size_or_sections | int, or a list of ints | The length of a piece, or the length of each.
split_sizes | list of ints | The length of each piece.
src | Tensor | The values to write.
stable | bool | Whether equal elements keep their order.
start | number | Where the sequence begins.
start_dim | int | The first axis to merge.
static_k | Tensor | Keys already projected, (batch * heads, keys, d). None: none.
static_v | Tensor | Values already projected, (batch * heads, keys, d). None: none.
std | Tensor or float | The standard deviation of each number.
step | number | The distance between neighbours.
steps | int | The number of elements.
storage_offset | int | The first element, counted in the storage.
stride | int or tuple of ints | The step between windows, for all axes or for each.
swap | bool | Whether to use the distance of positive and negative where it is smaller.
target | Tensor | The target.
target_lengths | Tensor or ints | The number of labels of each sequence, (batch,).
targets | Tensor | The labels, (batch, labels), or all of them in one axis.
tau | number | The temperature, above 0.
tensor | Tensor | The tensor.
tensor1 | Tensor | The first factor.
tensor2 | Tensor | The second factor.
tensors | Tensors | The tensors.
test_elements | Tensor or number | The elements to look for.
the_template | Tensor | The tensor whose shape to take.
theta | Tensor | The affine maps, (n, 2, 3), or (n, 3, 4) for volumes.
threshold | number | The threshold.
tol | float | Deprecated, use `atol` and `rtol`.
tracker | function | Accepted for compatibility with PyTorch; has no effect.
train | bool | Whether to drop anything. False: the result is the input.
training | bool | Whether the model is being trained.
transpose | bool | Whether to use the transpose.
transposed | bool | Whether to compute the transposed convolution.
unbiased | bool | Deprecated, use `correction`. False: 0.
unitriangular | bool | Whether the diagonal of A counts as ones.
unpack_data | bool | Whether to return L and U.
unpack_pivots | bool | Whether to return P.
unsafe | bool | Whether to skip the check of `lengths`.
upper | bool | Whether the triangle is the upper one.
upscale_factor | int | The factor r by which height and width grow.
use_dynamic | bool | Accepted for compatibility with PyTorch; has no effect.
use_input_stats | bool | Whether to normalize with the statistics of the input.
use_separate_proj_weight | bool | Whether query, key and value have weights of their own.
v | Tensor | The tensor.
v_proj_weight | Tensor | The weight of the values, (embedding, vdim).
value | Tensor | The values.
values | Tensor | The values to write.
var | Tensor or float | The variances, of the shape of `input` or broadcast to it.
vec | Tensor | The vector, (m,).
vec1 | Tensor | The first vector, (n,).
vec2 | Tensor | The second vector, (m,).
w_hh | Tensor | The weight of the hidden state, (g * hidden, hidden).
w_ih | Tensor | The weight of the input, (g * hidden, features), g being 4, 3 or 1 gates.
weight | Tensor | The weight.
weights | Tensor | The weight of each element. None: 1.
win_length | int | The length of the window. None: n_fft.
window | Tensor | The window, (win_length,). None: ones.
window_length | int | The number of points.
with_replacement | bool | Whether an element may be used twice.
wrap | bool | Whether the diagonal starts again below a tall matrix.
x | Tensor | The input.
x1 | Tensor | The first vectors.
x2 | Tensor | The second vectors.
y | Tensor | The values.
zero_infinity | bool | Whether infinite losses and their gradients become 0.
zero_point | int or Tensor | The integer that stands for 0.
zero_points | Tensor | The zero point of each place along `axis`, (n,), integers.
"""
