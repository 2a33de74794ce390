"""The cost model of the graph compiler: what passes, fusion and scheduling assume of a machine.

cost_model.py is its counterpart for the code generator. Costs are in bytes, in operations or in
cycles of a register tile; numbers were tuned on two to four cores with 1 to 2 MB of L2 each, and
on up to 32 threads.
"""

from __future__ import annotations

from itertools import product

from .load_balance import TYPICAL_THREADS, utilization

# ------------------------------------------------------------------------ caches and vectors

CACHE_LINE_ELEMENTS = 16  # of float32
VECTOR_COLUMNS = 16  # of a full AVX-512 vector of float32
DEPTHWISE_COLUMNS = 4  # of a result that share a load of the weights and hide a sum's latency
MAX_NARROW_COLUMNS = 4  # far too few to fill a vector
SECOND_PASS_CACHED_BYTES = 256 << 10  # of an array that a second pass still finds in L2
COLUMN_BLOCK_ELEMENTS = 64  # adjacent columns that are folded together
COLUMN_BLOCK_SIZES = (COLUMN_BLOCK_ELEMENTS, 32, 16)  # in order of preference; they divide the row
MAX_ROW_SCRATCH_ELEMENTS = 8192  # of a row that a kernel keeps from one stage to the next
MAX_BUFFERS_READ = 28  # by one kernel: each address occupies a register

# ----------------------------------------------------------------------- threads and launches

KERNEL_LAUNCH_COST = 1 << 14  # of a barrier and its kernel, in half cycles of a tile
CHUNK_ELEMENTS = 8192  # of a pointwise kernel, that one thread takes at a time
MIN_CHUNK_ELEMENTS = 1024  # the same where larger chunks would leave threads idle
MAX_SHARED_COLUMN_ROUNDS = 8  # of outer loops; with as many, threads need not share the columns
MIN_MERGED_ROWS = 16  # of a merged kernel, for threads to share
MAX_SERIAL_ELEMENTS = 1 << 15  # of a domain that one thread may iterate over alone
MIN_PARALLEL_ELEMENTS = 1 << 13  # (or multiply-adds / 16) below which a task runs on one thread
FLOPS_PER_WORK = 32  # of products, that cost as much as one element of a pointwise kernel
MIN_PARALLEL_EXTENT = 256  # of a loop in a merged kernel that threads share
MAX_DELAYED_BYTES = 1 << 14  # of the arena that a kernel may occupy while it is delayed
MAX_FUSED_LOOPS = 64  # groups of one kernel
MIN_PARALLEL_WORK = 1 << 17  # operations of a whole program that pay for waking a second thread
MAX_ZEROED_ELEMENTS = 1 << 14  # zeroing more takes as long as computing them
GROWING_MEMORY_RATIO = 2  # memory of a growing program over the current step's needs
MAX_ARENA_WASTE_RATIO = 1.25  # of a free stretch's size to the size of the value placed in it
MAX_COPIED_TO_COMPARE_BYTES = 1024  # of two arrays that are compared as byte strings
COMPARED_BLOCK_BYTES = 1 << 18  # compared at a time, so that the temporary mask stays small
MAX_COMPARED_WHOLE_ELEMENTS = 4096  # of two arrays compared at once in float64

# -------------------------------------------------------------- stored, recomputed, transposed

MAX_RECOMPUTE_OPERATIONS = 5  # per element; beyond, a shared value is stored
EXPENSIVE_OPERATION = 10  # of a division or a function, in operations
MIN_BLOCKED_TRANSPOSE_ELEMENTS = 1 << 14  # from here on a transpose runs in square blocks
MIN_TRANSPOSED_COPY_ELEMENTS = 1 << 15  # of a window's operand that is copied in another order
MIN_TRANSPOSE_READERS = 4  # products that share a transposed copy of an operand
MIN_TRANSPOSE_ROWS, MAX_TRANSPOSE_ROWS = 24, 96  # fewer read b unpacked, more hide the packing
NEGLIGIBLE_PERMUTE_RATIO = 32  # an input this many times smaller than the result is free
MAX_GATHERED_ARRAYS = 2  # that the factor of a pool's gradient may be computed from
MAX_SELECT_CHAIN_POSITIONS = 16  # along an axis, for a scatter to become a chain of selects
MAX_POSITION_TABLE_ELEMENTS = 1 << 22  # of the table from positions to the indices that name them
MAX_MULTIPLIED_POWER = 8  # up to here a power is a product

# ----------------------------------------------------------------------------- parts of sums

MIN_SPLIT_ELEMENTS = 1 << 15  # of a reduction; below, one thread is as fast
MIN_WIDE_SPLIT_ELEMENTS = 1 << 20  # the same for many columns, which threads could share
WIDE_COLUMNS = 256
PREFERRED_PARTS = 16
PART_COUNTS = (PREFERRED_PARTS, 32, 8, 24, 12, 10, 6, 4, 2)  # in order of preference
MIN_EXTENT_PER_PART = 32
MAX_SUM_CHAIN = 4096  # additions in sequence: rounding errors grow with it
MAX_ADDED_PARTS = 8  # of a weight gradient; more are reduced by a separate kernel
MAX_WEIGHT_PARTS = 64
RELATIVE_COST_PER_ROUND = 0.04  # of the time of all parts of a weight gradient
MIN_READ_RATIO = 16  # operands are at least this many times larger than two parts together

# --------------------------------------------------------------------- products and convolutions

LARGE_WEIGHT_ELEMENTS = 1 << 17  # from here on packing a convolution's weight dominates
HUGE_WEIGHT_ELEMENTS = 1 << 20
MAX_MATMUL_PIXELS = 128  # of all images, for a convolution to become a product
MAX_MATMUL_PIXELS_INFERENCE = 256  # no weight gradient reads channels-last, weight not huge
MAX_MATMUL_TAPS = 25  # windows are written out one tap at a time
MIN_GATHER_REPEATS = 4  # of a table row, on average, before products move below the gather
MIN_GATHERED_DEPTH = 16  # multiplications saved per gathered element
MOMENT_SAMPLE_ROWS = 8  # neighboring rows whose mean is the estimate of the mean
MIN_OUTPUTS_PER_WEIGHT = 16  # below, recomputing a convolution's sample costs too much
MIN_SPLIT_K_DEPTH = 256  # per part
MAX_SPLIT_K_RELATIVE_COST = 0.85  # of the unsplit product's
TILE_ROWS, TILE_COLUMNS = 8, 48  # of a register tile
# In half cycles: a step of a tile, loading a column or a row for a step, moving a partial sum.
TILE_STEP, COLUMN_LOAD, ROW_LOAD, SUM_MOVE = 24, 1, 1, 1

# --------------------------------------------------------------------------------- attention

ATTENTION_LOCAL_BYTES = 60 << 10  # for the blocks of one thread
ATTENTION_LANES = 16  # extents of blocks are whole vectors
ATTENTION_BLOCK = 64  # at most, rows and columns of a block
ATTENTION_DIAGONAL_STEP = 16  # by which products on the diagonal grow or shrink
MAX_UNBLOCKED_ATTENTION = 96  # rows and columns up to this are one block, if they fit
MAX_STORED_SCORE_BYTES = 16 << 20  # larger scores are recomputed instead of stored
MIN_ATTENTION_BLOCK = 32  # rows and columns of a block; smaller ones do not pay
FEW_ATTENTION_MATRICES = 4  # too few to split well among threads
MAX_FLASH_DEPTH, MIN_FLASH_COLUMNS = 32, 128  # between which a training step stores its scores


# ----------------------------------------------- how many parts of a reduction threads compute


def choose_extent_parts(extent: int) -> int:
    """Return how many equal parts an axis is reduced in; 1 if it is too short or indivisible."""
    parts = next((p for p in PART_COUNTS if extent % p == 0), 1)
    return parts if extent // parts >= MIN_EXTENT_PER_PART else 1


def choose_image_parts(images: int, threads: int) -> int:
    """Return how many equal parts keep the threads evenly busy in few rounds; 1 if none do."""
    if threads <= TYPICAL_THREADS:
        return threads if images % threads == 0 else 1
    max_parts = min(4 * threads, images, MAX_WEIGHT_PARTS)
    divisors = [p for p in range(1, max_parts + 1) if images % p == 0]

    def gain(parts: int) -> float:
        return utilization(parts, threads) - RELATIVE_COST_PER_ROUND * -(-parts // threads)

    return max(divisors, key=gain)


def choose_depth_split(m: int, n: int, k: int, threads: int) -> tuple[int, int]:
    """Return (parts of a product's depth, row blocks of each part); (1, 1) if splitting costs more.

    It pays when there are more threads than result tiles.
    """
    best = 1, 1
    if threads <= TYPICAL_THREADS:
        return best
    best_cost = MAX_SPLIT_K_RELATIVE_COST * unsplit_cost(m, n, k, threads)
    depths = [p for p in range(2, threads + 1) if k % p == 0 and k // p >= MIN_SPLIT_K_DEPTH]
    for parts, blocks in product(depths, [r for r in range(1, threads + 1) if m % r == 0]):
        if threads // 2 < parts * blocks <= 2 * threads:
            cost = split_cost(m, n, k, threads, parts, blocks)
            if cost < best_cost:
                best, best_cost = (parts, blocks), cost
    return best


def unsplit_cost(m: int, n: int, k: int, threads: int) -> float:
    """Return the busiest thread's half cycles if threads share a product on the best grid."""
    groups, panels = -(-m // TILE_ROWS), -(-n // TILE_COLUMNS)
    return min(_estimate_tile_cost(-(-groups // down), -(-panels // across), k)
               for across in range(1, threads + 1) for down in [threads // across])


def split_cost(m: int, n: int, k: int, threads: int, parts: int, blocks: int) -> float:
    """Return a thread's half cycles for its depth parts and its share of the final addition."""
    rounds = -(-parts * blocks // threads)
    part_cost = _estimate_tile_cost(-(-m // blocks // TILE_ROWS), -(-n // TILE_COLUMNS), k // parts)
    return rounds * part_cost + 2 * SUM_MOVE * m * n * parts / threads + KERNEL_LAUNCH_COST


def _estimate_tile_cost(groups: int, panels: int, depth: int) -> float:
    loads = groups * TILE_ROWS * ROW_LOAD + panels * TILE_COLUMNS * COLUMN_LOAD
    return depth * (groups * panels * TILE_STEP + loads)


def predict_seconds(flops: float, moved_bytes: float, limits: tuple[float, float]) -> float:
    """Return a kernel's least time at a machine's limits, flops and bytes per second."""
    return max(flops / limits[0], moved_bytes / limits[1])
