"""The cost model: what the code generator assumes about caches, ports and threads.

Kernel templates ask it and hold no machine-dependent numbers themselves. Unless a comment says
otherwise, numbers were tuned on AVX-512 machines with 2 MB of L2 per core. Sizes that vary (L2,
last level) come from the Target.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

# ------------------------------------------------------------------------------------- caches

L1_BYTES = 32 << 10
ASSUMED_L2_BYTES = 1 << 20  # present on any machine; direct convolutions and Winograd plan with it
L2_WAYS = 16
SET_CONFLICT_PADDING_BYTES = 64  # between planes, which would otherwise share a set
SET_CONFLICT_STRIDE_BYTES = 512  # lines at multiples of it share a few sets of L1
MIN_CONFLICTING_STEP_BYTES = 1024  # between the steps of a long depth
PADDED_STRIDE_BYTES = 128  # scratch strides that are multiples of it are padded by a line
MAX_STACK_BYTES = 64 << 10  # of a kernel's workspace; more comes from a scratch slot
SCRATCH_SLOT_BYTES = 8 << 20

# ----------------------------------------------------------------------------------- prefetch

PREFETCH_DISTANCE_BYTES = 2048  # ahead of a stream that comes from L3
FAR_PREFETCH_DISTANCE_BYTES = 8192  # ahead of a stream that comes from DRAM
MIN_STREAM_BYTES = 1 << 20  # of all streams of a loop; less stays in L2
MIN_DRAM_STREAM_BYTES = 16 << 20  # exceeds most L3s; distant slices of larger ones are as slow
MAX_STREAMED_WINDOW_ELEMENTS = 9  # one memory stream per window element: 3 x 3
MIN_EPILOGUE_PREFETCH_BYTES = 128 << 10  # smaller matrices stay in L2 anyway
MIN_PACK_PREFETCH_BYTES = 256 << 10  # spanned by the depth of a panel
PREFETCHES_PER_TILE_ROUND = 2  # adjacent rows of the next group
MAX_PREFETCHED_EPILOGUE_STREAMS = 3

# ------------------------------------------------------------------------ registers and ports

MULTIPLY_ADDS_IN_FLIGHT = 8  # latency 4 on two ports: independent sums that keep both busy
MAX_LANES = 128  # of one vectorized loop
# Loops of which four vectors of every value are in flight: loads and stores, expressions, and
# operations of several instructions.
MAX_SIMPLE_LOOP_ACCESSES, MAX_SIMPLE_LOOP_EXPRESSIONS, MAX_SIMPLE_LOOP_COSTLY = 6, 30, 2
# Most costly operations for which two vectors are in flight, by vector registers. An AVX2 vector
# is half the work of an AVX-512 one, but its dependency chains are as long.
MAX_PAIRED_OPERATIONS = {32: 4, 16: 6}
FMA_PER_CYCLE = 20.0  # float32 multiply-adds that AVX-512 register tiles sustain, of 32
L2_TO_REGISTER_CYCLES = 2.5  # for a vector of b
PORTS = 2  # for loads, and for multiply-adds
MAX_CONV_TILE_VECTORS = 6
MIN_TILE_STEP_CYCLES = 2.0  # of a direct convolution, however small its tile: the loop itself
DECODED_LOAD_PAIRS_PER_CYCLE = 6  # loads with their addresses take part of the decoder
TILE_SUM_CYCLES = 2  # to clear and to store the sums of one row and vector
TILE_SETUP_CYCLES = 20
TILE_KIND_PENALTY = 0.002  # relative, per shape of a tile: the code of each is fetched too
MIN_LONG_SUM_ITERATIONS = 1024  # longer float32 sums are computed in blocks
ITERATIONS_PER_PARTIAL_SUM = 128  # of a long float32 sum, before it is added to a float64 total
MIN_PARTIAL_SUM_ITERATIONS = 16  # shorter inner loops get no separate partial sum

# ----------------------------------------------------------------------- measuring the roofline

PEAK_MULTIPLY_ADD_ROUNDS = 200_000
PEAK_COPY_BYTES = 1 << 26
MIN_PEAK_BURSTS = 4  # measurements of each peak, even on a busy machine

# -------------------------------------------------------------------------------- thread split

MIN_ITERATIONS_TO_SPLIT = 16  # of outer loops; with these, threads are busy without row splits
ITERATIONS_PER_VECTORIZED_BLOCK = 1024  # of a vectorized loop per unit of work
MIN_MULTIPLY_ADDS_TO_SPLIT = 200_000  # about 3 us; less does not pay for a barrier
MAX_SPLIT_RELATIVE_COST = 0.9  # of smaller tiles for many threads, relative to larger tiles
MAX_CONV_BLOCK_STEPS = 512  # depth steps that a direct convolution sums at a time
MAX_CONV_SCRATCH_BYTES = 7 * ASSUMED_L2_BYTES // 2  # for an image that is packed once
MIN_CONV_UTILIZATION = 0.88  # of the threads' time, before units of rows are cut smaller
MIN_CONV_UTILIZATION_GAIN = 0.03  # smaller units cost more than a smaller gain
SMALL_CONV_REGION_BYTES = 5 * L1_BYTES  # of the part of `a` that a unit reads: below, units grow
MAX_CONV_REGION_BYTES = 8 * L1_BYTES  # the same: above, units are cut
IDLE_SPIN_S = 100e-6  # before a worker sleeps; waking it takes 20 to 50 us and more
BARRIER_SPINS_BEFORE_YIELD = 100  # on a busy machine the awaited thread may need this processor
THREAD_LINE_BYTES = 128  # between data of different threads: lines are fetched in pairs
THREAD_STACK_BYTES = 16 << 20  # kernels keep scratch on the stack
MIN_PREFAULT_BYTES = 1 << 20  # threads touch the pages of larger arrays before the first use
PREFAULT_BLOCK_BYTES = 2 << 20  # touched by a thread at a time: one huge page

# --------------------------------------------------------------------------------------- GEMM

# Rows and vectors of register tiles, by number of vector registers.
GEMM_TILES = {32: (6, 4), 16: (4, 3)}  # of rows whose number is known only at run time
NEAR_GEMM_TILES = {32: GEMM_TILES[32], 16: (6, 2)}  # the same in L1: one pointer serves all rows
DYNAMIC_GEMM_TILES = {32: (8, 3), 16: (6, 2)}  # of products whose sizes are all run-time values
MAX_TILE_ROWS, MAX_TILE_VECTORS = 30, 6
ASSUMED_GEMM_DEPTH = 256  # if known only at run time
FULL_TILE_RELATIVE_COST = 1.02  # without spare registers to schedule loads ahead
UNEVEN_PACKING_RELATIVE_COST = 1.06  # of rows side by side that take several stores per step
EVEN_PACKING_ROWS = 8
SPARE_TILE_REGISTERS = 2
MAX_GEMM_UNCUT_DEPTH = 2048  # one panel of b then fits L2
MAX_GEMM_UNCUT_DYNAMIC_DEPTH = 1024  # the same for a depth known at run time
MAX_GEMM_CACHED_DEPTH = 256  # of operands that the caller promises to be in L1
GEMM_BLOCK_DEPTH = 1024  # about; equal blocks if a divisor is close
PACKED_A_BYTES = 4608 << 10  # large, since each block streams all panels of b
PARTIAL_SUM_BYTES = 2 << 20  # of partial sums while the depth is cut
PARTIAL_SUM_BYTES_WITHOUT_A = 3 << 20  # same, if no packed rows of a compete for L2
MAX_UNPACKED_A_DEPTH = 384  # steps on separate lines that stay in L1
MAX_UNPACKED_A_SPAN_BYTES = 1536 << 10  # beyond, the steps touch more pages than the TLB holds
MIN_DEPTH_TO_UNROLL = 64  # below, unrolling only adds code
MIN_ROWS_TO_PACK_FAR_B = 18  # of a, if b exceeds its share of L2
MIN_ROWS_TO_PACK_CACHED_B = 128  # of a, if b fits its share
ASSUMED_COLUMN_VECTORS = 60  # if the number of columns is known only at run time
MAX_UNROLLED_EPILOGUE_OPERATIONS = 6  # emitted once per vector of a tile; longer ones loop
MAX_DOT_TILE_ROWS = {32: 6, 16: 3}  # by vector registers
MIN_TRANSPOSED_RUN_STEPS = 8  # contiguous along the depth, to be packed by transposed squares
PACK_STEPS_AT_ONCE = 16  # depth steps for which adjacent panels are packed together
# Minimum depth by rows, (rows, depth), from which dot products beat packing; by registers.
MIN_DOT_DEPTH_BY_ROWS = {32: ((8, 0), (16, 128), (24, 256)), 16: ((8, 0),)}

# Cost of a depth step relative to its port pressure, by the vectors of a tile: with 32 registers
# and packed panels; with rows of b that lie apart; with 16 registers (AVX2).
STEP_OVERHEAD = {1: 1.15, 2: 1.05, 3: 1.0, 4: 1.01, 5: 1.07, 6: 1.14}
STEP_OVERHEAD_STRIDED_B = {**STEP_OVERHEAD, 4: 1.06}
STEP_OVERHEAD_16_REGISTERS = {1: 1.4, 2: 1.0, 3: 1.02, 4: 1.25, 5: 1.3, 6: 1.4}

# ---------------------------------------------------------------------------------------- AMX

MAX_AMX_UNCUT_DEPTH = 1024
AMX_BLOCK_DEPTH = 512
AMX_TILE_CYCLES = 40  # 16 in theory; operands arrive late if another hyperthread is busy
AMX_PACK_CYCLES_CONTIGUOUS, AMX_PACK_CYCLES_TRANSPOSED = 0.4, 0.8  # per element split into terms
AMX_STARTUP_CYCLES = 500.0  # to configure the tiles and fill the pipeline

# ----------------------------------------------------------------------------------- Winograd

MAX_WIDE_WINOGRAD_CHANNELS = 256  # up to here a tile is four vectors wide
MAX_WINOGRAD_WASTE_RATIO = 1.03  # of a batch's empty tiles, over the smallest waste
MAX_WINOGRAD_RELATIVE_COST = 0.85  # Winograd pays below this share of direct cycles
MAX_SPREAD_INPUT_BYTES = 5 << 20  # of inputs transformed once for all panels
WINOGRAD_BATCH_TILES = 64  # of a weight gradient
MAX_WINOGRAD_SUM_BYTES = 1 << 19  # of a weight gradient's sums at a time

# -------------------------------------------------------------------------- convolution and pooling

CONV_WEIGHT_BLOCK_POSITIONS = 256  # approximate output positions per weight-gradient block
MAX_POOL_ROW_ELEMENTS = 2048  # input columns that a thread holds
MAX_POOL_STRIP_ELEMENTS = 3072  # of several such rows
MAX_POOL_WINDOW_EXTENT = 1024  # rows, and columns, of a window

# ----------------------------------------------------------------------------------- random numbers

TWISTER_BLOCKS_PER_GROUP = 8  # blocks between moves of the state
TWISTER_WORDS_PER_PART = 208  # words updated at a time: whole vectors, fewer than 624 - 397

# ---------------------------------------------------------------------------- recurrent layers

MAX_RECURRENT_BLOCK_ROWS = 16  # two row groups of a tile, whose states stay in L1
MIN_STEP_PREFETCH_BYTES = 16 << 10  # of a time step
RECURRENT_PANEL_WIDTHS = (64, 48, 32, 16)  # columns, in order of preference
MAX_PRIVATE_WEIGHT_BYTES = 1 << 20  # recurrent weights that stay in a thread's own L2
MAX_SHARED_WEIGHT_BYTES = 16 << 20  # ones that stay in 32 MB of shared L3 (measured, AVX2)
MIN_STEP_ROWS_PER_THREAD = 8  # that reuse recurrent weights from memory
MIN_SHARED_STEP_ROWS_PER_THREAD = 2  # that reuse weights from shared L3
MIN_WIDE_WEIGHT_BYTES = 4 << 20  # largest measured with panels of several tiles (AVX-512)


def cache_lines_reached(stride: int, page: int, ways: int) -> int:
    """Return how many lines at a stride a cache holds: strides that divide `page` use few sets."""
    return page // gcd(page, max(stride, 64)) * ways


@dataclass(frozen=True)
class L2Budget:
    """Budgets for parts of an L2 cache of `bytes` bytes, tuned on 2 MB."""

    bytes: int

    @property
    def panels(self) -> int:
        """For packed panels of b that every row tile of a reads."""
        return self.bytes * 35 // 64

    @property
    def row_panels(self) -> int:
        """For packed panels that stay in L2 anyway, so that rows of c are written in long runs."""
        return self.bytes * 3 // 16

    @property
    def a(self) -> int:
        """Rows of a up to this size stay in L2 unpacked."""
        return self.bytes // 4

    @property
    def b(self) -> int:
        """A matrix b up to this size stays in L2 unpacked."""
        return self.bytes * 3 // 8

    def lines(self, stride: int) -> int:
        """Return how many cache lines `stride` bytes apart fit."""
        return cache_lines_reached(stride, self.bytes // L2_WAYS, L2_WAYS)


def tile_cycles(rows: int, vectors: int, packed: bool, registers: int) -> float:
    """Cycles of one depth step: two FMA ports, two load ports, latency hidden."""
    if not rows or not vectors:
        return 0.0
    overhead = STEP_OVERHEAD if packed else STEP_OVERHEAD_STRIDED_B
    if registers == 16:
        overhead = STEP_OVERHEAD_16_REGISTERS
    return max(rows * vectors, rows + vectors, 4.0) / 2 * overhead[vectors]


def split_costs(rows: int, vectors: int, lanes: int) -> tuple[int, int, int]:
    """Return half cycles per depth step of a tile, a column panel and a row group.

    Packing moves two elements per cycle from memory that other kernels wrote.
    """
    return rows * vectors, vectors * lanes, rows


def gemm_cycles(
    m: int, vectors: int, tile: tuple[int, int], depth: int, packed: bool, registers: int
) -> float:
    """Return the cycles of a tiled product of `m` rows and `vectors` column vectors."""
    groups, tail = divmod(m, tile[0])
    panels, edge = divmod(vectors, tile[1])
    cost = 0.0
    for count, rows in ((groups, tile[0]), (1 if tail else 0, tail)):
        for count_of_panels, columns in ((panels, tile[1]), (1 if edge else 0, edge)):
            load_rows = 0.1 * rows  # from L2 to L1
            step = tile_cycles(rows, columns, packed, registers) + load_rows
            # Each step and each tile have a fixed cost.
            cost += count * count_of_panels * (depth * (step + 0.8) + 12 + rows * columns)
    return cost * (1 + 0.01 * (bool(tail) + bool(edge)))


def largest_share_cycles(
    m: int, vectors: int, tile: tuple[int, int], depth: int, lanes: int, packed: bool,
    registers: int, shares: int,
) -> float:
    """Return the largest thread's cycles on the best grid of row groups by column panels."""
    def part(across: int) -> tuple[int, int]:
        rows = min(m, -(-m // (shares // across * tile[0])) * tile[0])
        return rows, min(vectors, -(-vectors // (across * tile[1])) * tile[1])

    return min(gemm_cycles(rows, columns, tile, depth, packed, registers)
               + depth / 2 * (rows + columns * lanes)
               for rows, columns in map(part, range(1, shares + 1)))

# ------------------------------------------------------------------------ products of bytes

# Rows and vectors of a tile, by registers. With 16 a product needs one for its halves, and the
# constant that sums them lies in memory.
BYTE_PRODUCT_BLOCK_QUADS = 1024  # of the depth: a panel of this depth takes a tenth of L2
BYTE_PRODUCT_TILES = {16: (6, 2), 32: (8, 3)}
MIN_BYTE_KERNEL_MULTIPLICATIONS = 1 << 16  # per product; fewer do not pay for a kernel call
MIN_BYTE_PACKING_MULTIPLICATIONS = 1 << 22  # per product; fewer do not pay for packing weights
MIN_PARALLEL_BYTE_WORK = 1 << 20  # multiplications, or bytes to quantize, for several threads
MAX_BYTE_STEP_MULTIPLICATIONS = 1 << 24  # of a recurrent step; more pay for several threads
MAX_SPECIALIZED_BYTE_ROWS = 6  # smaller row counts each have a specialized kernel
BYTE_BLOCK_ROWS = 256  # rows multiplied by a panel of weights while it is in cache

# Loops whose strided loads are transposed in registers (codegen/loops/transposed_loads.py).
MAX_TRANSPOSED_EXPRESSIONS = 12  # of a loop's body: more need registers that the tile takes
MAX_GATHERED_STRIDE = 4  # elements, up to which gathering reads as few lines
