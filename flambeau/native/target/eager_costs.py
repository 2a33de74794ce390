"""The cost model of eager kernels: blocks that they share with their callers, and thresholds.

graph_costs.py is its counterpart for the graph compiler. Numbers were tuned on two to four cores
with 1 to 2 MB of L2 each. MAX_NUMPY_X: size up to which NumPy is as fast as a kernel.
MIN_THREADED_X: size from which threads share the work. X_CALLS_BEFORE_COMPILING: a form used less
often is not worth compiling. X_CALLS_BEFORE_USE: the first call to use the kernel, however long
compiling took.
"""

from __future__ import annotations

# ----------------------------------- rows, blocks and lanes, which kernels and their callers share

ELEMENTS_PER_PARTIAL_SUM = 1 << 12  # summed into one partial sum, before those are summed
SCANNED_ROWS = 4  # scanned together: steps of one row depend on each other
SAMPLED_POINTS_PER_BLOCK = 256  # grid points whose taps a thread holds at a time
POOLED_LANES = 32  # columns, or channels where these are innermost, computed at a time
DEPTHWISE_COPY_LANES = 32  # columns of a depthwise convolution copied at a time
DEPTHWISE_FLAT_LANES = 64  # its results computed at a time
MAX_DEPTHWISE_TAPS = 1024
MAX_DEPTHWISE_IMAGES = 16  # computed together
MAX_INSERTION_SORT_LENGTH = 16  # elements that introsort leaves to insertion sort

# ------------------------------------------------------------------------ blocks that fit a cache

BLOCK_ELEMENTS = 1 << 14  # a few temporaries of this size fit the L2 cache
SOFTMAX_BLOCK_ELEMENTS = 1 << 15  # stay in the L2 cache between passes
NORM_BLOCK_ELEMENTS = 1 << 16  # the same, of a normalization in NumPy
IM2COL_BLOCK_BYTES = 1 << 20  # columns of a convolution in NumPy, kept in the L2 cache
SCORES_PER_NUMPY_BLOCK = 1 << 16  # attention scores computed at a time in NumPy
SCORES_PER_BATCH_BLOCK = 1 << 20  # the same by kernels, for every TYPICAL_THREADS threads
BOX_PAIRS_PER_BLOCK = 1 << 18  # pairs of boxes compared at a time
ROTATED_PAIRS_PER_BLOCK = 1 << 14  # pairs of rotated boxes intersected at a time
BOXES_COMPARED_FIRST = 256  # top boxes that suppress others before the rest are examined
TAPS_PER_BLOCK = 1 << 20  # sampling taps of regions computed at a time
GATHERED_ELEMENTS_PER_BLOCK = 1 << 22  # elements of pixels or rows gathered at a time
DIFFERENCES_PER_BLOCK = 1 << 22  # elements of differences, of pairwise distances, held at a time

# ----------------------------------------------------------------------------- memory that is held

MAX_MATERIALIZED_SCORES = 1 << 24  # attention scores computed whole
MAX_SAVED_PROBABILITIES = 1 << 26  # attention probabilities saved for the backward pass
MAX_CACHED_NUMBERS = 4096  # Python numbers as arrays
MAX_CACHED_LAYOUTS = 4096  # answers of output_layout.py
MAX_POINTWISE_KERNELS = 1024
MAX_KERNELS_BY_NUMBERS = 4  # of a body; beyond, its numbers are operands
MAX_ROW_KERNELS = 1024
MAX_STATIC_SHAPES = 512  # with specialized kernels
MAX_PRODUCT_FORMS = 512
MAX_PRODUCT_PLANS = 4096
MAX_RECURRENT_FORMS = 256
MAX_POOLING_FORMS = 64
MAX_RESAMPLING_FORMS = 64

# ------------------------------------------------------------------------------------- thresholds

MAX_NUMPY_POINTWISE_ELEMENTS = 1 << 15
MAX_NUMPY_CHEAP_ELEMENTS = 1 << 16  # of memory-bound bodies
MAX_NUMPY_COSTLY_ELEMENTS = 1 << 12  # of bodies with several NumPy calls, or slow ones
CALLS_BEFORE_COMPILING = 32  # of pointwise and row kernels, for arrays of medium size
CALLS_BEFORE_USE = 256
RECORDED_CALLS_BEFORE_COMPILING = 64  # in one recorded step, whose program replaces its calls
MAX_NUMPY_ROW_ELEMENTS = 1 << 12
MAX_NUMPY_SUM_ELEMENTS = 1 << 13
MAX_NUMPY_SUM_ROWS = 192  # of an array whose axes are reduced
MAX_COUNTED_ROW_ELEMENTS = 1 << 15  # up to here a row kernel waits for CALLS_BEFORE_COMPILING
MAX_NUMPY_MEAN_ELEMENTS = MAX_COUNTED_ROW_ELEMENTS  # up to here NumPy adds and divides
MAX_NUMPY_ATTENTION_SCORES = 1 << 15
MAX_NUMPY_EMBEDDING_ELEMENTS = 1 << 15
MIN_SORTED_ROW_ELEMENTS = 1 << 10  # of gradients whose rows are sorted before they are added
MAX_PADDED_BAG_RATIO = 4  # of padding bags to the longest: up to here maxima go row by row
MAX_NUMPY_GATHER_ELEMENTS = 1 << 10
MAX_NUMPY_TRANSPOSE_ELEMENTS = 1 << 14
MAX_NUMPY_RESAMPLED_ELEMENTS = 1 << 15
MAX_RESAMPLING_TAPS = 8  # of kernels that resample
MAX_SCIPY_ERF_ELEMENTS = 1 << 10  # up to here SciPy's loop is faster than twenty NumPy calls
MAX_TWICE_WRITTEN_ELEMENTS = 1 << 10  # of a padded array: filling it whole costs less than edges
MAX_MATRICES_FACTORED_SINGLY = 32  # up to here one LAPACK call each is fast enough
MAX_COLUMNS_FACTORED_TOGETHER = 16  # of a batch; beyond, LAPACK's blocks pay for their calls
MAX_COUNTED_RANGE_RATIO = 4  # range of integers over their number, to count them in a table
MAX_SORTED_TIE_ELEMENTS = 1 << 16  # of rows with ties that are sorted in PyTorch's order
MAX_SELECTED_TIE_ELEMENTS = 1 << 22  # the same if one pass is enough
MIN_THREADED_COPY_BYTES = 1 << 20  # below, one thread's memcpy is as fast
MIN_FILL_BYTES = 1 << 18  # with a number
MIN_STRIDED_COPY_BYTES = 1 << 15  # of rows that memcpy cannot copy
MAX_TRANSPOSED_AXES = 5  # after merging adjacent ones
MAX_NUMPY_INNER_STRIDE = 4  # elements between neighbours up to which NumPy copies as fast
MIN_TRANSPOSED_EXTENT = 8  # of both axes
MIN_SHARED_COPY_ROWS = 64  # rows of a copy that threads share
MIN_THREADED_FFT_ELEMENTS = 1 << 15
MIN_KERNEL_GROUPS = 8  # of a group norm, which threads share
MIN_GROUP_PIXELS = 16  # contiguous pixels of a group
MIN_POOLED_ELEMENTS = 1 << 14
MIN_SAMPLED_VALUES = 256

# ------------------------------------------------------------ products, convolutions, recurrences

MIN_PRODUCT_LHS_ELEMENTS = 1 << 10  # of `a`: smaller products do not look for a kernel
MIN_PRODUCT_MULTIPLICATIONS = 1 << 18
MIN_THREADED_PRODUCT_MULTIPLICATIONS = 1 << 18
MAX_SPECIALIZED_PRODUCT_ROWS = 8  # each number of rows up to this has its own kernel
MAX_UNPACKED_OPERAND_BYTES = 128 << 10
MAX_UNPACKED_DEPTH = 256
MIN_PACKED_ROWS = 128
MIN_PRODUCT_BLOCK_ROWS = 64  # rows of a block if threads share the products of a stack
MIN_PRODUCT_UTILIZATION = 0.9  # of the threads; above, no smaller blocks are tried
PRODUCT_CALLS_BEFORE_COMPILING = 2
PRODUCT_CALLS_BEFORE_USE = 8
MULTIPLICATIONS_PER_ELEMENT = 16  # of a convolution, as costly as other work on an element
MIN_CONV_MULTIPLICATIONS = 1 << 14  # times groups; below, a program need not compile the kernel
MIN_STATIC_CONV_MULTIPLICATIONS = 1 << 22  # from here on a shape gets its own kernel
CONV_MULTIPLICATIONS_PER_CALL = 1 << 25  # count as one more call, in a step that is recorded once
CONV_CALLS_BEFORE_COMPILING = 16
CONV_CALLS_BEFORE_USE = 40
MIN_RECURRENT_MULTIPLICATIONS = 1 << 17  # of all steps
MIN_TANGENT_RECURRENT_MULTIPLICATIONS = 1 << 10  # with tangents, a step in NumPy costs 2.5 times
MIN_SINGLE_STEP_ROWS = 8  # of a layer of one step
MIN_THREADED_RECURRENT_MULTIPLICATIONS = 1 << 20
RECURRENT_CALLS_BEFORE_COMPILING = 2
MIN_PREFETCHED_GATE_BYTES = 1 << 10  # per row: from here on the next step's gates are prefetched
MAX_THREAD_WEIGHT_BYTES = 4 << 20  # recurrent weights that each thread reads at each step

# ---------------------------------------------------------------------------------- random numbers

MIN_DRAW_KERNEL_ELEMENTS = 1 << 13  # drawn at once
SMALL_DRAWS_BEFORE_COMPILING = 256  # after this many smaller draws a kernel pays off
MAX_PYTHON_LIBM_CALLS = 512  # numbers for which C's functions are called from Python

# ----------------------------------------------------------------------- kernels of small arrays

MIN_BIT_BLEND_ELEMENTS = 1 << 10  # from here on np.where's branches cost more than a blend of bits
MAX_SMALL_ELEMENTS = 1 << 12  # of arrays whose kernels save NumPy's calls
MIN_REDUCED_RATIO = 16  # elements reduced into one, so that little is left for NumPy
MIN_STRIDED_ROW_ELEMENTS = 16  # from here on a row is read in place
MAX_SHORT_ROW_ELEMENTS = 16  # up to here NumPy's reductions along a row are slow
MIN_COPIED_ROW_BYTES = 128  # of a row copied in one iteration
MAX_KEYS_SORTED_WHOLE = 1 << 10  # up to here sorting all keys costs least
MAX_HEAP_ELEMENTS = 32  # up to here a heap finds the least elements of a row fastest
MIN_GRID_ROW_POINTS = 32  # in a row; shorter rows are joined

# -------------------------------------------------------------------------------------- threads

MAX_SINGLE_THREAD_ELEMENTS = 1 << 16  # one thread finishes before another could wake up


def lanes_of(step: int | None) -> int:
    """Return how many columns a pooling computes at a time: fewer if a table gives their distance,
    and they are gathered."""
    return POOLED_LANES if step is not None else POOLED_LANES // 2
