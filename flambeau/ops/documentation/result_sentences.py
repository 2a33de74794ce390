"""Result descriptions for operators whose kind has no rule: `place | type | sentence`.

A place is a folder or file of `flambeau/ops`, or functions in a file; the narrowest one wins.
Indented lines continue the previous one.
"""

RESULTS = """
activation.gates:glu | Tensor | Of the shape of `input`, half as long along `dim`.
activation.softmax | Tensor | Of the shape of `input`; `dtype`, or the input's.
activation.softmax:logsumexp | Tensor | Of the shape of `input` without the axes `dim`.
activation | Tensor | Of the shape and dtype of `input`.
attention.multihead | tuple of Tensor and Tensor or None | The output, shaped as `query`, and the
    weights.
attention.scaled_dot_product | Tensor | (..., heads, l, e), of the dtype of `query`.
core.aten | Tensor | The result of the operator.
core.attributes:detach | Tensor | A view without history, which shares the memory of `input`.
core.attributes:to_dense | Tensor | The tensor, in `dtype`.
registration.removed_functions | Never | It always raises.
creation.conversion:cuda,pin_memory | Never | It always raises.
creation.conversion:type | str or Tensor | The type's name, or the tensor in `dtype`.
creation.conversion | Tensor | Of the shape of `self`; itself, if nothing changes.
creation.copies:clone | Tensor | Of the shape and dtype of `input`, in memory of its own.
creation.copies:contiguous | Tensor | Of the shape and dtype of `self`.
creation.sequences:arange | Tensor | ceil((end - start) / step) elements; int64 if all arguments are
    integers.
creation.creation:eye | Tensor | (n, m), of `dtype`.
creation.sequences:linspace,logspace | Tensor | (steps,), of `dtype`, or the default one.
creation.sequences:range | Tensor | floor((end - start) / step) + 1 elements.
creation.creation:scalar_tensor | Tensor | Without axes, of `dtype`, or the default one.
creation.dropout:native_dropout | tuple of Tensors | The result and the mask, both of the shape of
    `input`.
creation.dropout | Tensor | Of the shape and dtype of `input`.
creation.fill:fill | Tensor | Of the shape and dtype of `input`.
creation.fill | Tensor | The tensor itself.
creation.interchange:as_tensor | Tensor | Of the shape of `data`.
creation.interchange:tensor | Tensor | Of the shape of `data`; its dtype is inferred unless `dtype`
    says it.
creation.interchange:asarray | Tensor | Of the shape of `obj`.
creation.interchange:from_dlpack | Tensor | Of the shape and dtype of the object.
creation.interchange:from_file | Tensor | (size,), of `dtype`, or the default one.
creation.interchange:from_numpy | Tensor | Of the shape and dtype of `ndarray`.
creation.interchange:frombuffer | Tensor | (count,), of `dtype`.
creation.interchange:numpy | numpy.ndarray | Of the shape and dtype of `self`.
creation.interchange:to_dlpack | capsule | A DLPack capsule, which one consumer may take.
creation.random:bernoulli | Tensor | Of the shape and dtype of `input`, zeros and ones.
creation.random:binomial | Tensor | Of the broadcast shape of `count` and `prob`.
creation.random:multinomial | Tensor | (num_samples,) or (n, num_samples), int64.
creation.random:normal | Tensor | Of `size`, or of the broadcast shape of `mean` and `std`.
creation.random:poisson | Tensor | Of the shape and dtype of `input`.
creation.random:randint | Tensor | Of shape `size`, int64 unless `dtype` says otherwise.
creation.random:randint_like | Tensor | Of the shape of `input`, and of its dtype.
creation.random:randperm | Tensor | (n,), int64 unless `dtype` says otherwise.
creation.random:get_rng_state | Tensor | The state, uint8.
creation.random:initial_seed | int | The seed.
creation.random:seed | int | The new seed.
creation.random:manual_seed | Generator | The default generator.
fft.fft:fftshift,ifftshift | Tensor | Of the shape and dtype of `input`.
fft.fft:fftfreq | Tensor | (n,), in cycles per unit of `d`.
fft.fft:rfftfreq | Tensor | (n // 2 + 1,), in cycles per unit of `d`.
fft.fft:rfft,rfft2,rfftn,ihfft,ihfft2,ihfftn | Tensor | Complex; n // 2 + 1 elements along the last
    of the axes.
fft.fft:irfft,irfft2,irfftn,hfft,hfft2,hfftn | Tensor | Real; n elements along the last of the
    axes, by default 2 * (length - 1).
fft.fft | Tensor | Complex, of the shape of `input` where no length is given.
fft.stft:stft | Tensor | (frequency, frame) or (batch, frequency, frame), complex.
fft.stft:istft | Tensor | (time) or (batch, time), real unless `return_complex`.
fft.window_functions | Tensor | (window_length,), of `dtype`, or the default one.
indexing.embedding:one_hot | Tensor | (*tensor.shape, num_classes), int64.
indexing.embedding:embedding_dense_backward | Tensor | (num_weights, width).
indexing.embedding:embedding | Tensor | One row for each index, (*shape of the indices, width).
indexing.embedding:embedding_renorm_ | Tensor | The table itself.
indexing.embedding_bag:nn.functional.embedding_bag | Tensor | (bags, width), of the dtype of
    `weight`.
indexing.embedding_bag | tuple of Tensors | (bags, width) first; the others serve the derivative.
indexing.gather:gather,take | Tensor | Of the shape of `index` and the dtype of `input`.
indexing.gather:take_along_dim | Tensor | Of the shape of `indices`, broadcast with `input`
    elsewhere.
indexing.gather | Tensor | Of the shape and dtype of `input`.
indexing.index:index | Tensor | The elements at the positions.
indexing.index | Tensor | Of the shape and dtype of `input`.
indexing.index_put:index_put_ | Tensor | `self`, changed.
indexing.index_put | Tensor | Of the shape and dtype of `input`.
indexing.index_select:index_select | Tensor | Of the shape of `input`, of length k along `dim`.
indexing.index_select | Tensor | Of the shape and dtype of `input`.
indexing.mask:argwhere | Tensor | (count, axes of `input`), int64.
indexing.mask:nonzero | Tensor or tuple of Tensors | (count, axes of `input`), int64; with
    `as_tuple` one (count,) an axis.
indexing.mask:nonzero_static | Tensor | (size, axes of `input`), int64.
indexing.mask:masked_select | Tensor | (count,), of the dtype of `input`.
indexing.mask | Tensor | Of the shape and dtype of `input`, broadcast with `mask`.
indexing.segments | Tensor | Of the shape of `data`, with one element along `axis` for each segment.
interception.subclass | Tensor | An object of `cls`.
linalg.cholesky:cholesky_ex | tuple (L, info) | The factors, (..., n, n), and int32 of shape (...).
linalg.cholesky:cholesky_solve | Tensor | Of the shape of `input`.
linalg.cholesky | Tensor | (..., n, n).
linalg.eigen:eig | tuple (eigenvalues, eigenvectors) | (..., n) and, in columns, (..., n, n),
    complex.
linalg.eigen:eigh | tuple (eigenvalues, eigenvectors) | (..., n), real, and, in columns, (..., n,
    n).
linalg.eigen | Tensor | (..., n).
linalg.einsum | Tensor | With the axes that the subscripts name behind `->`.
linalg.grouped | Tensor | The products, in the order of the groups.
linalg.ldl:ldl_solve | Tensor | Of the shape of `B`.
linalg.ldl:ldl_factor_ex | tuple (LD, pivots, info) | (..., n, n), (..., n) and int32 of shape
    (...).
linalg.ldl | tuple (LD, pivots) | (..., n, n) and (..., n), int32.
linalg.linear:bilinear | Tensor | (..., out).
linalg.linear | Tensor | (..., out).
linalg.low_rank:lobpcg | tuple of Tensors | The eigenvalues, (..., k), and eigenvectors, (..., n,
    k).
linalg.low_rank | tuple of Tensors | U (..., m, q), S (..., q) and V (..., n, q).
linalg.lu:det,logdet | Tensor | Of shape (...).
linalg.lu:slogdet | tuple (sign, logabsdet) | Both of shape (...).
linalg.lu:lu_unpack,linalg.lu | tuple (P, L, U) | (..., m, m), (..., m, k) and (..., k, n), k being
    min(m, n).
linalg.lu:lu_solve | Tensor | Of the shape of the right-hand sides.
linalg.lu:lu_factor | tuple (LU, pivots) | (..., m, n) and (..., min(m, n)), int32.
linalg.lu:lu_factor_ex | tuple (LU, pivots, info) | (..., m, n), (..., min(m, n)) and int32 of
    shape (...).
linalg.lu:lu | tuple of Tensors | The factors, (..., m, n), the pivots, and with `get_infos` the
    infos.
linalg.matmul:bmm | Tensor | (b, n, p).
linalg.matmul:dot | Tensor | Without axes.
linalg.matmul:matmul | Tensor | (..., n, p) of (..., n, m) and (..., m, p); without axes of two
    vectors.
linalg.matmul:mm | Tensor | (n, p).
linalg.matmul:mv | Tensor | (n,).
linalg.matrix_functions:cond | Tensor | Real, of shape (...).
linalg.matrix_functions:diagonal | Tensor | A view with the diagonal as its last axis.
linalg.matrix_functions:multi_dot,chain_matmul | Tensor | The product, with the rows of the first
    and the columns of the last.
linalg.matrix_functions:tensorinv | Tensor | A.shape[ind:] + A.shape[:ind].
linalg.matrix_functions:tensorsolve | Tensor | Of the axes of `A` behind those of `B`.
linalg.matrix_functions:vander | Tensor | (..., n, N), of the dtype of `x`.
linalg.matrix_functions | Tensor | Of the shape and dtype of `A`.
linalg.pinv:lstsq | tuple (solution, residuals, rank, singular_values) | The solution is (..., n,
    k).
linalg.pinv:matrix_rank | Tensor | int64, of shape (...).
linalg.pinv | Tensor | (..., n, m).
linalg.products:addmv | Tensor | (n,).
linalg.products:baddbmm | Tensor | (b, n, p).
linalg.products:addbmm,addmm | Tensor | (n, p).
linalg.products:addr,outer | Tensor | (n, m).
linalg.products:inner | Tensor | input.shape[:-1] + other.shape[:-1].
linalg.products:kron | Tensor | As long along each axis as the product of both lengths.
linalg.products:tensordot | Tensor | The axes of `a`, then those of `b`, that are not summed.
linalg.products:vdot | Tensor | Without axes.
linalg.products:vecdot | Tensor | Of the broadcast shape without `dim`.
linalg.qr:geqrf | tuple (a, tau) | (..., m, n) and (..., min(m, n)).
linalg.qr:orgqr,householder_product | Tensor | (..., m, n).
linalg.qr:ormqr | Tensor | Of the shape of `other`.
linalg.qr | tuple (Q, R) | (..., m, k) and (..., k, n), k being min(m, n); m for the complete form.
linalg.solves:inv_ex | tuple (inverse, info) | (..., n, n) and int32 of shape (...).
linalg.solves:inverse,inv | Tensor | (..., n, n).
linalg.solves:solve_ex | tuple (result, info) | Of the shape of `B`, and int32 of shape (...).
linalg.solves:triangular_solve | tuple (solution, cloned_coefficient) | Of the shapes of `input`
    and `A`.
linalg.solves | Tensor | Of the shape of `B`.
linalg.svd:svdvals | Tensor | (..., min(m, n)), real.
linalg.svd | tuple of Tensors | (..., m, k), (..., k) and (..., k, n) or its transpose, k being
    min(m, n).
linalg.vector_distance:normalize | Tensor | Of the shape of `input`.
linalg.vector_distance:pdist | Tensor | (n * (n - 1) / 2,) of (n, d).
linalg.vector_distance:pairwise_distance | Tensor | Of the broadcast shape without the last axis.
linalg.vector_distance | Tensor | Of the broadcast shape without `dim`.
linalg.vectors:cdist | Tensor | (..., m, n).
linalg.vectors:renorm | Tensor | Of the shape and dtype of `input`.
linalg.vectors | Tensor | Of the broadcast shape of both.
normalization.batch_norm:native_batch_norm | tuple of Tensors | The result, the means, and 1 / the
    deviations.
normalization.group_norm:native_group_norm | tuple of Tensors | The result, the means, and 1 / the
    deviations.
normalization.layer_norm:native_layer_norm | tuple of Tensors | The result, the means, and 1 / the
    deviations.
normalization | Tensor | Of the shape and dtype of `input`.
pointwise.python_callback | Tensor | `self`, changed.
pointwise.combination:dist | Tensor | Without axes.
pointwise.compare:allclose | bool | Whether all are.
pointwise.compare:equal | bool | Whether they are.
pointwise.compare:isin | Tensor | bool, of the shape of `elements`.
pointwise.compare:isclose | Tensor | bool, of the broadcast shape of `input` and `other`.
pointwise.complex_numbers:view_as_real | Tensor | A view, (*input.shape, 2), of the floating dtype.
pointwise.complex_numbers:view_as_complex | Tensor | A view, input.shape[:-1], complex.
pointwise.complex_numbers:complex,polar | Tensor | Complex, of the broadcast shape of both.
pointwise.complex_numbers:angle | Tensor | Floating, of the shape of `input`.
pointwise.complex_numbers:imag,real | Tensor | A view of the shape of `input`, of the floating
    dtype.
pointwise.complex_numbers | Tensor | Of the shape and dtype of `input`.
pointwise.division | Tensor | Of the broadcast shape of both.
pointwise.power:float_power | Tensor | float64 or complex128, of the broadcast shape of both.
pointwise.rounding:frexp | tuple (mantissa, exponent) | Both of the shape of `input`; the exponent
    is int32.
pointwise.selection | Tensor | Of the broadcast shape of all three; with `condition` alone, a tuple
    of indices.
pointwise.arithmetic:positive | Tensor | `input`.
pointwise | Tensor | Of the broadcast shape of the operands, in their promoted dtype.
recurrent.lstm:lstm_cell | tuple of Tensors | h and c, each (batch, hidden).
recurrent.lstm | tuple of Tensors | (time, batch, hidden * directions), and h and c, (layers *
    directions, batch, hidden).
recurrent.gru:gru_cell | Tensor | (batch, hidden).
recurrent.elman:rnn_tanh_cell,rnn_relu_cell | Tensor | (batch, hidden).
quantized.conversion:dequantize | Tensor, or tuple of Tensors | float32, of the shape of `input`.
quantized.conversion:int_repr | Tensor | Integers, of the shape of `input`.
quantized.conversion:q_scale | float | The scale.
quantized.conversion:q_per_channel_scales,q_per_channel_zero_points | Tensor | One for each channel.
quantized.conversion:qscheme | qscheme | Per tensor or per channel, affine or symmetric.
quantized.conversion:empty_quantized | Tensor | Of shape `size`, of the dtype of `qtensor`.
quantized.parameter_search:choose_qparams_optimized | tuple of Tensors | The greatest and the least
    value, one number each.
quantized.recurrent | tuple of Tensors | The output, then the states.
quantized.conversion | Tensor | Of the shape of `input`, of `dtype`.
quantized | Tensor | Of the shape of `input`.
recurrent | tuple of Tensors | (time, batch, hidden * directions), and h, (layers * directions,
    batch, hidden).
reduction.extremes:aminmax | tuple (min, max) | Both of the shape of `input` without `dim`.
reduction.extremes:max,min | Tensor, or tuple (values, indices) | With `dim` a tuple, of the shape
    of `input` without it.
reduction.extremes:argmax,argmin | Tensor | int64, of the shape of `input` without `dim`.
reduction.histograms:histc | Tensor | (bins,), of the dtype of `input`.
reduction.histograms:histogram | tuple (hist, bin_edges) | (bins,) and (bins + 1,).
reduction.histograms:histogramdd | tuple (hist, bin_edges) | An axis of bins for each column, and a
    tuple of edges.
reduction.reduce:all,any | Tensor | bool, of the shape of `input` without the axes `dim`.
reduction.reduce:count_nonzero | Tensor | int64, of the shape of `input` without the axes `dim`.
reduction.reduce:sum_to_size | Tensor | Of shape `size`.
reduction.scan:cummax,cummin | tuple (values, indices) | Both of the shape of `input`; the indices
    are int64.
reduction.scan:trapezoid | Tensor | Of the shape of `y` without `dim`.
reduction.scan:cumulative_trapezoid | Tensor | Of the shape of `y`, one less along `dim`.
reduction.scan:diff | Tensor | Of the shape of `input`, n less along `dim`.
reduction.scan | Tensor | Of the shape of `input`; `dtype`, or the input's, int64 for integers and
    bools.
reduction.scan:logcumsumexp | Tensor | Of the shape and dtype of `input`.
reduction.sort:argsort | Tensor | int64, of the shape of `input`.
reduction.sort:bincount | Tensor | As long as the largest element plus one, at least `minlength`.
reduction.sort:bucketize,searchsorted | Tensor | Of the shape of `input`, int64.
reduction.sort:msort | Tensor | Of the shape and dtype of `input`.
reduction.sort:sort | tuple (values, indices) | Both of the shape of `input`; the indices are int64.
reduction.sort:topk | tuple (values, indices) | Both of the shape of `input`, k along `dim`.
reduction.sort:quantile,nanquantile | Tensor | Of the shape of `input` without `dim`, with the axis
    of `q` in front.
reduction.sort:median,nanmedian | Tensor, or tuple (values, indices) | With `dim` a tuple, of the
    shape of `input` without it.
reduction.sort | tuple (values, indices) | Both of the shape of `input` without `dim`.
reduction.statistics:gradient | tuple of Tensors | One for each axis, of the shape of `input`.
reduction.statistics | Tensor | (n, n) for n variables.
reduction.unique | Tensor, or tuple of Tensors | The values, then the inverse and the counts where
    asked for.
reduction.variance:std_mean,var_mean | tuple of Tensors | Both of the shape of `input` without
    the axes `dim`.
reduction.vector_norms:norm_except_dim | Tensor | Of length 1 along every axis but `dim`.
sparse.entry:values | Tensor | The stored values, (nnz, ...).
sparse.entry:is_coalesced | bool | Whether indices are sorted and no two are the same.
sparse.entry:indices | Tensor | (sparse axes, nnz), int64.
sparse.entry:crow_indices | Tensor | Where each row begins, and nnz.
sparse.entry:ccol_indices | Tensor | Where each column begins, and nnz.
sparse.entry:col_indices | Tensor | The column of each value, (nnz,).
sparse.entry:row_indices | Tensor | The row of each value, (nnz,).
sparse.entry | Tensor | A sparse tensor.
spatial.pooling.adaptive_pool:adaptive_max_pool1d | Tensor, or tuple (result, indices) |
    `output_size` long behind batch and channels.
spatial.pooling.adaptive_pool | Tensor | `output_size` long behind batch and channels; of indices
    too, if asked for.
spatial.pooling.fractional_pool | Tensor, or tuple (result, indices) | `output_size` long behind
    batch and channels.
spatial.pooling.avg_pool | Tensor | floor((length + 2 padding - kernel_size) / stride) + 1 along
    each axis.
spatial.pooling.max_pool:max_pool2d_with_indices_backward | Tensor | Of the shape of `input`.
spatial.pooling.max_pool | Tensor, or tuple (result, indices) | floor((length + 2 padding -
    dilation (kernel_size - 1) - 1) / stride) + 1 along each axis.
spatial.convolution:conv_transpose1d,conv_transpose2d,conv_transpose3d | Tensor | (length - 1)
    stride - 2 padding + dilation (kernel - 1) + output_padding + 1 along each axis.
spatial.convolution | Tensor | (n, o, ...), floor((length + 2 padding - dilation (kernel - 1) - 1)
    / stride) + 1 along each axis.
spatial.convolution:conv_tbc | Tensor | (time + 2 pad - kernel + 1, batch, o).
spatial.fold:fold | Tensor | (n, c, *output_size).
spatial.fold:unfold | Tensor | (n, c * kh * kw, positions).
spatial.grid_sample:affine_grid,affine_grid_generator | Tensor | (n, h, w, 2) or (n, d, h, w, 3).
spatial.grid_sample | Tensor | (n, c, h', w') or (n, c, d', h', w').
spatial.interpolation | Tensor | The shape of `input` with `size`, or floor(length * scale_factor),
    at its end.
spatial.pooling.unpool | Tensor | Of `output_size`, or the smallest size that pools to that of
    `input`.
special | Tensor | Of the broadcast shape of the operands.
special.gamma:mvlgamma,polygamma | Tensor | Of the shape of `input`.
view.join:broadcast_shapes | Size | The common shape.
view.join:atleast_1d,atleast_2d,atleast_3d | Tensor, or tuple of Tensors | One for each tensor.
view.join:block_diag | Tensor | As many rows and columns as all matrices have.
view.grids:broadcast_tensors | tuple of Tensors | Views, one for each tensor.
view.grids:meshgrid | tuple of Tensors | Views, one for each vector, with an axis for each vector.
view.grids:cartesian_prod | Tensor | (combinations, vectors).
view.grids:combinations | Tensor | (combinations, r).
view.join:repeat_interleave | Tensor | Of the shape of `input`, longer along `dim`.
view.join:repeat | Tensor | As long along each axis as the length times its `repeats`.
view.join:tile | Tensor | As long along each axis as the length times its `dims`.
view.join:cat | Tensor | As long along `dim` as all tensors together, in their promoted dtype.
view.join:stack | Tensor | With a new axis `dim` as long as there are tensors, in their promoted
    dtype.
view.join:flip,roll | Tensor | Of the shape and dtype of `input`.
view.join:rot90 | Tensor | The dtype of `input`; the two lengths change places where k is odd.
view.join | Tensor | The tensors joined, in their promoted dtype.
view.padding | Tensor | Each axis longer by its two paddings.
view.sections | tuple of Tensors | Views of the tensor.
view.shuffle:channel_shuffle | Tensor | Of the shape of `input`.
view.shuffle:pixel_shuffle | Tensor | (..., c, h r, w r).
view.shuffle:pixel_unshuffle | Tensor | (..., c r r, h, w).
view.triangles:diag | Tensor | (n, n) of (n,), or the diagonal of a matrix.
view.triangles:diag_embed | Tensor | Of one axis more than `input`.
view.triangles:diagflat | Tensor | (n, n) for n elements; larger by |offset|.
view.triangles:trace | Tensor | Without axes.
view.triangles:tril_indices,triu_indices | Tensor | (2, count), int64 unless `dtype` says otherwise.
view.triangles | Tensor | Of the shape and dtype of `input`.
view.unravel:unravel_index | tuple of Tensors | One for each axis, of the shape of `indices`.
view.unravel | tuple of Tensors | Copies of the pieces.
view.reshape:reshape | Tensor | Of the given shape; a view where strides allow it.
view.reshape:flatten | Tensor | The axes merged into one; a view where strides allow it.
view.reshape:ravel | Tensor | One axis; a view where strides allow it.
view.reshape | Tensor | A view: it shares memory with the tensor.
view.transpose | Tensor | A view: it shares memory with the tensor.
view.expand | Tensor | A view: it shares memory with the tensor.
view.slices | Tensor | A view: it shares memory with `input`.
view.strided | Tensor | A view: it shares memory with `input`.
view.view_copy:select_scatter,slice_scatter,diagonal_scatter,as_strided_scatter,index_fill | Tensor
    | Of the shape and dtype of `input`.
view.view_copy:slice | Tensor | A view of `input`.
view.view_copy | Tensor or tuple of Tensors | What the view would hold, in memory of its own.
view.view_inplace | Tensor | `self`, with the new shape.
"""
