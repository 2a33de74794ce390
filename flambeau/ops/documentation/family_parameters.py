"""Parameters whose names mean something else in one family of operators, or can be told better.

A section is a folder or a file of `flambeau/ops`; the narrower one counts.
"""

FAMILIES = """
[activation]
input | Tensor | The input, of any shape.

[activation.exponential_units]
alpha | number | The scale of the exponential part.

[activation.gates]
dim | int | The axis to halve; its length must be even.
lower | number | The least slope.
training | bool | Whether to draw slopes. Otherwise their mean is the slope.
upper | number | The greatest slope.
weight | Tensor | The slope below 0: one element, or one for each channel, (c,).

[activation.rectifiers]
value | number | What elements up to the threshold become.

[activation.softmax]
dim | int | The axis that is normalized; negative numbers count from the last.
eps | float | Deprecated; has no effect.

[activation.softplus]
beta | number | How sharp the bend is; larger values are closer to relu.
threshold | number | Where beta * input is above it, the result is the input.

[attention.multihead]
attn_mask | Tensor | (queries, keys), or also by (batch * heads); True: ignore, or floats to add.
key | Tensor | The keys, (keys, batch, kdim) or (keys, kdim).
query | Tensor | The queries, (queries, batch, embedding) or (queries, embedding).
value | Tensor | The values, (keys, batch, vdim) or (keys, vdim).

[attention.scaled_dot_product]
key | Tensor | The keys, (..., heads, s, d).
query | Tensor | The queries, (..., heads, l, d).
value | Tensor | The values, (..., heads, s, e).

[core.aten]
args | arguments | The arguments of the operator, by position.
indices | tuple of Tensors | An index for each axis; None: the whole axis.

[core.attributes]
other | Tensor | The other tensor.

[creation.sequences]
end | number | Where the sequence ends.
step | number | The distance between neighbours, not 0.

[pointwise.python_callback]
tensor | Tensor | The second operand, broadcast to this tensor's shape.
x | Tensor | The second operand, broadcast to this tensor's shape.
y | Tensor | The third operand, broadcast to this tensor's shape.

[registration.removed_functions]
args | arguments | Nothing is read.
kwargs | arguments | Nothing is read.

[creation.conversion]
kwargs | arguments | `async`, the old name of `non_blocking`.
other | Tensor | The tensor whose dtype to take.

[creation.copies]
memory_format | memory_format | The order of the axes in memory.
src | Tensor | The values to copy, broadcast to the shape of `self`.

[creation.creation]
input | Tensor | The tensor whose shape, dtype and layout to take.
n | int | The number of rows.
kwargs | arguments | `size`, the shape by name.
s | number | The number.
stride | tuple of ints | How many elements lie between neighbours of each axis.

[creation.dropout]
grad_output | Tensor | The gradient with respect to the result of native_dropout.
mask | Tensor | The mask that native_dropout returned.
p | float | The probability with which an element, or a channel, is dropped, in [0, 1].
scale | float | The factor of what was not dropped, 1 / (1 - p).
training | bool | Whether to drop anything. False: the result is the input.

[creation.fill]
input | Tensor | The tensor to change.
size | tuple of ints | The shape. None: all elements, in one axis.
sizes | ints, or a tuple of ints | The new shape.
source | Tensor or storage | Whose memory to use. None: new memory without elements.
stride | tuple of ints | How many elements lie between neighbours of each axis. None: in order.
value | number or Tensor | The value, or a tensor without axes.

[creation.interchange]
count | int | The number of elements to read; -1: all that follow `offset`.
offset | int | Where to begin, in bytes.
size | int | The number of elements to map.
tensor | Tensor | The tensor whose memory to share.

[creation.random]
count | Tensor | The number of trials.
input | Tensor | The tensor whose shape and dtype to take.
n | int | The number of elements, which are 0 to n - 1.
kwargs | arguments | The arguments by name.
p | float | The probability of 1 for all elements, instead of those of `input`.

[fft]
dim | int or tuple of ints | The axes to transform; negative numbers count from the last.
input | Tensor | The signal, real or complex.
n | int | The length of the transform; the input is cut or filled with zeros. None: the input's.

[fft.stft]
length | int | The length of the result, in samples. None: what the frames cover.

[fft.window_functions]
alpha | float | The constant term of the window.
beta | float | The shape of the window.

[indexing.embedding]
grad_output | Tensor | The gradient of the looked-up rows, (*indices.shape, width).
weight | Tensor | The table, (rows, width).

[indexing.embedding_bag]
indices | Tensor | The indices of all bags, (n,), int64 or int32.
mode | str | 'sum', 'mean' or 'max': how the rows of a bag are combined.
offsets | Tensor | Where each bag begins among the indices, (bags,).
weight | Tensor | The table, (rows, width).

[indexing.gather]
args | arguments | The arguments of `{base}`, by position.
index | Tensor | Indices along `dim`, int64, with as many axes as `input`.
kwargs | arguments | The arguments of `{base}`, by name.
reduce | str | How to combine: 'sum', 'prod', 'mean', 'amax' or 'amin'.
src | Tensor | The values, at least as long as `index` along each axis.

[indexing.index]
indices | tuple of Tensors | An index for each axis; None: the whole axis.
values | Tensor | The values to write, broadcast to the shape of the positions.

[indexing.index_select]
alpha | number | The factor of `source`.
args | arguments | The arguments of `{base}`, by position.
index | Tensor | The indices of the slices, (k,), int64 or int32.
kwargs | arguments | The arguments of `{base}`, by name.
reduce | str | How to combine: 'prod', 'mean', 'amax' or 'amin'.
source | Tensor | The slices to write, of length k along `dim`.
value | number or Tensor | The value, or a tensor without axes.

[indexing.mask]
fill_value | int | What fills the rest of the result.
size | int | The number of rows of the result.
source | Tensor | The values, of the dtype of the input, at least as many as are written.
value | number or Tensor | The value, or a tensor without axes.

[indexing.segments]
axis | int | The axis that is cut into segments.
data | Tensor | The values.
lengths | Tensor | The length of each segment.
offsets | Tensor | Where each segment begins, and where the last one ends.
reduce | str | 'sum', 'mean', 'max', 'min' or 'prod'.

[linalg]
input | Tensor | A matrix, or a batch of matrices of shape (..., m, n).
n | int | The exponent.

[linalg.cholesky]
A | Tensor | Symmetric or Hermitian positive-definite matrices, (..., n, n).
upper | bool | Whether the factor is upper triangular.

[linalg.eigen]
A | Tensor | Square matrices, (..., n, n).

[linalg.einsum]
args | str and Tensors | The subscripts and the tensors, or tensors with lists of axes in between.

[linalg.grouped]
bias | Tensor | Accepted for compatibility with PyTorch; must be None.

[linalg.ldl]
A | Tensor | Symmetric or Hermitian matrices, (..., n, n).

[linalg.linear]
bias | Tensor | What is added to the result, (out,). None: nothing.
input | Tensor | The input, (..., in).
input1 | Tensor | The first input, (..., n).
input2 | Tensor | The second input, (..., m).
weight | Tensor | The weight, (out, in) or (in,).

[linalg.low_rank]
B | Tensor | A positive-definite matrix, (n, n). None: the identity.
X | Tensor | (n, k); only the number of columns is read.
center | bool | Whether to subtract the mean of the rows first.
iK | Tensor | Accepted for compatibility with PyTorch; has no effect.
k | int | The number of eigenvalues. None: as many as `X` has columns, or 1.
n | int | Accepted for compatibility with PyTorch; has no effect.
q | int | The number of singular values. None: min(6, m, n).
tol | float | Accepted for compatibility with PyTorch; has no effect.

[linalg.matmul]
input | Tensor | The first factor.
other | Tensor | The second factor.
tensor | Tensor | The second vector, (n,).

[linalg.matrix_functions]
p | number or str | The order of the norm, as in `matrix_norm`. None: 2.
x | Tensor | The bases of the powers.

[linalg.products]
alpha | number | The factor of the product.
dim | int | The axis that is summed.
input | Tensor | The tensor to add to, broadcast to the shape of the product.
other | Tensor | The second factor.
x | Tensor | The first vectors, conjugated.
y | Tensor | The second vectors.

[linalg.qr]
left | bool | Whether Q stands to the left of `other`.
mode | str | 'reduced', 'complete' or 'r'.
other | Tensor | The matrices to multiply, (..., m, n).
tau | Tensor | The scales of the reflections, (..., k).
transpose | bool | Whether to multiply with Q^H.

[linalg.solves]
A | Tensor | Square matrices, (..., n, n).
input | Tensor | The right-hand sides, (..., n, k).
transpose | bool | Whether to solve with the transpose of A.

[linalg.vector_distance]
dim | int | The axis of the vectors.
eps | float | A small number that is added, or that divisors do not fall below.
input | Tensor | The vectors.
x1 | Tensor | The first vectors, broadcast with the second.
x2 | Tensor | The second vectors.

[linalg.vectors]
compute_mode | str | Whether to use products of matrices for p=2; 'donot_use_...': never.
dim | int | The axis of the vectors.
input | Tensor | The input.
other | Tensor | The second operand, broadcast with the first.
x1 | Tensor | The first vectors, (..., m, d).
x2 | Tensor | The second vectors, (..., n, d).

[loss]
input | Tensor | The predictions.
log_target | bool | Whether `target` holds logarithms.
margin | number | How far apart the two cases should be.
reduction | str | 'mean' or 'sum' of the losses, or 'none' for each of them.
target | Tensor | The targets, of the shape of `input`.
weight | Tensor | A factor of each loss, broadcast to it. None: 1.

[loss.cross_entropy]
input | Tensor | The scores, (classes,), (n, classes) or (n, classes, ...).
target | Tensor | Class indices, int64, of the input's shape without the classes.
weight | Tensor | A factor for each class, (classes,). None: 1.

[loss.elementwise]
beta | number | Where the loss changes from quadratic to linear, not negative.

[loss.linear_cross_entropy]
input | Tensor | The features, (in,) or (n, in).
options | object | How PyTorch saves memory; changes nothing here.
target | Tensor | Class indices, int64, or probabilities of the shape of the scores.
weight | Tensor | A factor for each class, (classes,). None: 1.

[loss.margin]
input | Tensor | The scores, (n, classes) or (classes,).
input1 | Tensor | The first of each pair.
input2 | Tensor | The second of each pair.
p | number | The p of the p-norm.
target | Tensor | 1 or -1 for each pair.
weight | Tensor | A factor for each class, (classes,). None: 1.

[normalization]
bias | Tensor | What is added to each channel, (c,). None: nothing.
input | Tensor | The input, (n, c, ...).
training | bool | Whether to normalize with the batch's statistics and to update the running ones.
weight | Tensor | The factor of each channel, (c,). None: 1.

[normalization.group_norm]
N | int | The number of images.

[normalization.layer_norm]
alpha | float | The factor of the mean of squares.
beta | float | The exponent.
bias | Tensor | What is added, of shape `normalized_shape`. None: nothing.
input | Tensor | The input, (..., *normalized_shape).
k | float | What is added before the power is taken.
size | int | The number of neighbouring channels.
weight | Tensor | The factor, of shape `normalized_shape`. None: 1.

[pointwise]
input | Tensor | The input, of any shape.

[pointwise.combination]
end | Tensor | The second end, broadcast with `input`.
tensor1 | Tensor | The first factor, or the dividend.
tensor2 | Tensor | The second factor, or the divisor.
value | number | The factor of the product or quotient.
weight | Tensor or number | How far to go from `input` to `end`: 0 is `input`, 1 is `end`.

[pointwise.rounding]
values | Tensor | The result where the input is 0, broadcast with it.

[quantized]
averaging_const | float | How far the extremes go towards those of `input`.
axis | int | The axis of the channels.
bit_width | int | How many bits an integer has: 4 or 2.
ch_axis | int | The axis of the channels, of which `per_row_fake_quant` speaks.
fake_quant_on | Tensor | One number: 0 where nothing is rounded.
n_bins | int | How many steps the range is divided into.
numel | int | How many elements of `input` to look at.
observer_on | Tensor | One number: 0 where the extremes stay as they are.
per_row_fake_quant | bool | Whether each place along `ch_axis` is rounded by itself.
quant_max | int | The greatest integer.
quant_min | int | The least integer.
ratio | float | By which share of the range it may become narrower.
running_max | Tensor | The greatest values, which are written.
running_min | Tensor | The least values, which are written.
symmetric_quant | bool | Whether steps are even around zero.
dtype | dtype | A quantized dtype: qint8, quint8 or qint32.
input | Tensor | The tensor, quantized where the text says so.
scale | float or Tensor | The distance between neighbouring numbers.
zero_point | int or Tensor | The integer that stands for 0.

[quantized.recurrent]
args | arguments | The other arguments, in the order that `quantized_lstm` lists.
dtype | dtype | Accepted for compatibility with PyTorch; has no effect.
input | Tensor | The sequence, (time, batch, features), or (batch, time, features).

[recurrent]
args | arguments | As listed above.
hx | Tensor | The hidden state, (batch, hidden).
input | Tensor | The input of the step, (batch, features).
kwargs | arguments | The same by name.

[reduction]
dim | int or tuple of ints | The axes to reduce; negative numbers count from the last. None: all.
dtype | dtype | The dtype to compute and to return. None: the input's; int64 for integers and bools.
input | Tensor | The tensor to reduce.

[reduction.extremes]
other | Tensor | The tensor to compare with, element by element.

[reduction.histograms]
bins | int, ints or Tensors | The number of bins, or their edges; for each axis of a point.
input | Tensor | The input.
max | number | The upper end.
min | number | The lower end.
weight | Tensor | The weight of each element or point. None: 1.

[reduction.reduce]
size | ints, or a tuple of ints | The shape, to which that of `input` was broadcast.

[reduction.scan]
dim | int | The axis to work along; negative numbers count from the last.
input | Tensor | The input, of any shape.
n | int | How many times to take differences.
x | Tensor | The coordinates of the points along `dim`. None: `dx` apart.
y | Tensor | The values, of any shape.

[reduction.sort]
dim | int | The axis to work along; negative numbers count from the last.
input | Tensor | The input, of any shape.
k | int | How many elements to return.

[reduction.statistics]
dim | int or tuple of ints | The axes to work along. None: all.
input | Tensor | The input.

[reduction.unique]
dim | int | The axis whose slices are compared. None: the flattened elements.
input | Tensor | The input, of any shape.

[reduction.vector_norms]
p | number or str | The order of the norm: 'fro', 'nuc' or a number.
x | Tensor | The tensor to reduce.

[sparse.entry]
args | arguments | The arguments, by position; none where the text names none.
layout | layout | A sparse layout. None: torch.sparse_coo.
mask | Tensor | A sparse tensor of the same shape.
kwargs | arguments | The same by name.

[spatial]
groups | int | The number of groups of channels that are convolved apart.
indices | Tensor | The places of the maxima in the flattened image, as max_pool returns them.
input | Tensor | The images, (n, c, ...) or (c, ...).
return_indices | bool | Whether to return the indices of the maxima in the flattened image, too.
stride | int or tuple of ints | The step between windows. None: `kernel_size`.

[spatial.convolution]
bias | Tensor | What is added to each output channel, (o,). None: nothing.
input | Tensor | The input, (n, c, ...) or (c, ...).
padding | int, tuple of ints or str | Zeros on both sides; 'valid': none; 'same': to keep the size.
stride | int or tuple of ints | The step between windows, for all axes or for each.
weight | Tensor | The kernels, (o, c / groups, ...).

[spatial.fold]
input | Tensor | The input.
stride | int or tuple of ints | The step between windows, for all axes or for each.

[spatial.grid_sample]
input | Tensor | The images, (n, c, h, w) or (n, c, d, h, w).
mode | str | 'bilinear', 'nearest' or 'bicubic'.
padding_mode | str | What lies outside: 'zeros', 'border' or 'reflection'.
size | tuple of ints | The shape of the images, (n, c, h, w) or (n, c, d, h, w).

[spatial.interpolation]
align_corners | bool | Whether the corner pixels keep their values. None: False.
input | Tensor | The images, (n, c, w), (n, c, h, w) or (n, c, d, h, w).
mode | str | 'nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic', 'trilinear' or 'area'.
size | int or tuple of ints | The size of the result, without batch and channels.

[special]
input | Tensor | The input, of any shape.

[special.entropy]
eps | float | Input is clipped to [eps, 1 - eps] first. None: it is not.

[special.gamma]
n | int | The order of the derivative, not negative.
p | int | The dimension, at least 1.

[special.polynomials]
n | Tensor or number | The degree, broadcast with `input`.

[view]
input | Tensor | The tensor to look at.

[view.expand]
dim | int or tuple of ints | The axis; negative numbers count from the last.
other | Tensor | The tensor whose shape to take.
size | ints, or a tuple of ints | The shape of the result; -1: the axis as it is.

[view.join]
dim | int | The axis along which to join; negative numbers count from the last.
dims | tuple of ints | The axes; negative numbers count from the last.
input | Tensor | The input.
k | int | The number of quarter turns, from the first of `dims` towards the second.
tensors | sequence of Tensors | The tensors to join.

[view.padding]
input | Tensor | The tensor to pad.
mode | str | 'constant', 'reflect', 'replicate' or 'circular'.
value | number | What to pad with, in mode 'constant'. None: 0.

[view.reshape]
dim | int or tuple of ints | The axis; negative numbers count from the last.
other | Tensor | The tensor whose shape to take.
size | ints, or a tuple of ints | The shape of the result; -1: the axis as it is.

[view.sections]
dim | int | The axis to cut; negative numbers count from the last.
indices | tuple of ints or Tensor | The indices at which to cut.
input | Tensor | The tensor to cut.
tensor | Tensor | The tensor to cut.

[view.shuffle]
input | Tensor | The images.

[view.slices]
index | int | The index; negative numbers count from the end.
length | int | How many indices to take.
start | int or Tensor | The first index; negative numbers count from the end.

[view.strided]
size | int, or a tuple of ints | The length of a window, or the shape of the result.
step | int | The number of elements between windows.
stride | tuple of ints | How many elements of the storage lie between neighbours of each axis.

[view.transpose]
dim0 | int | One of the axes to exchange.
dim1 | int | The other one.
source | int or tuple of ints | The axes to move.

[view.triangles]
dim1 | int | The axis that the rows become.
dim2 | int | The axis that the columns become.
input | Tensor | The input.

[view.unravel]
dim | int | The axis to cut; negative numbers count from the last.
indices | Tensor | Flat indices, int64.
input | Tensor | The tensor to cut.
shape | int or tuple of ints | The shape that the indices point into.
tensor | Tensor | The tensor to cut.

[view.view_copy]
args | arguments | The other arguments of `{base}`, by position.
dim | int | The axis; negative numbers count from the last.
end | int | The first index left out. None: the length of the axis.
index | int | The index along `dim`.
kwargs | arguments | The other arguments of `{base}`, by name.
size | tuple of ints | The shape of the window.
src | Tensor | What to write, of the shape of the view.
start | int | The first index. None: 0.
step | int | The distance between indices, above 0.
stride | tuple of ints | How many elements of the storage lie between neighbours of each axis.

[view.view_inplace]
args | arguments | The arguments of `{base}`, by position.
kwargs | arguments | The arguments of `{base}`, by name.
"""
