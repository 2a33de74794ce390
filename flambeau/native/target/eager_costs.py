"""The cost model of eager kernels: blocks that they share with their callers, and thresholds.

graph_costs.py is its counterpart for the graph compiler. Numbers were tuned on two to four cores
with 1 to 2 MB of L2 each.
"""

from __future__ import annotations


# ----------------------------------- rows, blocks and lanes, which kernels and their callers share

ELEMENTS_PER_PARTIAL_SUM = 1 << 12  # that are folded into one, before those are
SCANNED_ROWS = 4  # at once: the steps of one row wait for one another, those of several do not
SAMPLED_POINTS_PER_BLOCK = 256  # points of a grid whose taps a thread keeps at a time
POOLED_LANES = 32  # columns, or channels where these are innermost, that are made at a time
MAX_INSERTION_SORT_LENGTH = 16  # elements that introsort leaves to insertion sort

# ------------------------------------------------------------------------------------------ caches

BLOCK_ELEMENTS = 1 << 14  # a few temporaries of this size fit the L2 cache
SOFTMAX_BLOCK_ELEMENTS = 1 << 15  # that stay in the L2 cache between passes
POOL_BLOCK_ELEMENTS = 1 << 17  # the same between the passes of a pooling
MAX_UNPACKED_OPERAND_BYTES = 128 << 10  # of operands of a product that are not packed
MAX_THREAD_WEIGHT_BYTES = 4 << 20  # of recurrent weights that each thread reads at each step

# -------------------------------------------------------------------------- where NumPy is as fast

MIN_BIT_BLEND_ELEMENTS = 1 << 10  # from here on np.where's branches cost more than a blend of bits
MAX_SMALL_ELEMENTS = 1 << 12  # of arrays whose kernels save NumPy's calls
MIN_REDUCED_RATIO = 16  # elements that become one, so that little is left for NumPy
MIN_STRIDED_ROW_ELEMENTS = 16  # of a row from which on it is read where it lies
MAX_SHORT_ROW_ELEMENTS = 16  # rows so short that NumPy's reductions along them are slow
MIN_COPIED_ROW_BYTES = 128  # of a row that is worth a round
MAX_KEYS_SORTED_WHOLE = 1 << 10  # up to which sorting all keys costs least
MAX_HEAP_ELEMENTS = 32  # up to which a heap finds the least of a row soonest
MIN_GRID_ROW_POINTS = 32  # in a row; shorter rows are taken as one
MULTIPLICATIONS_PER_ELEMENT = 16  # of a convolution, that take as long as other work on an element
