"""The cost model of compilation: how many calls, programs and seconds a compiled step may cost.

graph_costs.py is its counterpart for what the programs compute. Times were measured on two to four
cores; no number here changes a result.
"""

from __future__ import annotations

# --------------------------------------------------------------------------------------- recordings

MAX_RECORDED_CALLS = 4  # all different, before a step counts as not static
MAX_ACCUMULATING_CALLS = 64  # that may differ while gradients accumulate
MAX_UNUSED_PROGRAMS = 2  # in a row whose guards failed before any call
MAX_MEASURING_SECONDS = 2.0  # after which explain() starts no further run

# ---------------------------------------------------------------------------------- specializations

MAX_SPECIALIZATIONS = 8  # combinations of shapes and flags, each with its own program
MAX_DYNAMIC_SPECIALIZATIONS = 32  # with dynamic=True
EVICTION_CALLS = 16  # calls of a waiting key during which the victim was not called
MAX_WAITING_KEYS = 64
MAX_CARRIED_PLACES = 256  # whose tensors a step takes over from the call before
MAX_CARRYING_RESTARTS = 8  # of recording, as more such places turn up
GROWING_SPECIALIZATIONS = 3  # in a row, each larger than the last, before calls are followed

# ------------------------------------------------------------------------------------------- guards

MAX_GUARDS = 2000
MAX_SYMBOL_CHARACTERS = 1000  # of the expression of a number that decides something or is an input
MAX_INLINE_GUARDS = 64  # tensors whose checks are unrolled: fastest, but more code
MAX_UNROLLED_GUARD_MEMBERS = 24  # of a container; longer ones are compared in a loop
MAX_GUARDED_ARRAY_BYTES = 512  # of a NumPy array that each call compares
MAX_UNREAD_INDICES = 8  # in an array whose indices are checked together, per index that is read

# ----------------------------------------------------------------------------------- followed calls

TIMED_CALLS = 6  # of each kind in a trial
MIN_TIMED_CALLS = 2
MAX_TIMED_SECONDS = 0.5  # of each kind, after MIN_TIMED_CALLS
MAX_FOLLOWED_RELATIVE_TIME = 1.02  # of a followed call, as surrounding code gains, too
MAX_FOLLOWED_PROGRAMS = 48  # of a function
WATCHED_FROM_PROGRAMS = 12  # beyond, at least half of WATCHED_CALLS must take known paths
WATCHED_CALLS = 16
MAX_SEGMENTS_PER_EXIT = 8
MAX_COPIED_OWNER_RATIO = 4  # of an input's owner, which is copied whole, to the input
COPIED_OWNER_SLACK_BYTES = 4096  # that an owner may be larger in any case
MAX_PROGRAMS_PER_EXIT = 4  # different sets of tensors may outlive it
MAX_FAILED_RECORDINGS = 2  # at an exit, before it is closed
LENGTHS_BEFORE_MERGING = 3  # recorded at an exit, before their segments may merge
COMPARED_GROWING_CALLS = 3  # of a growing program and eager, before it runs alone
GROWING_CAPACITY = 4096  # the length up to which threads have scratch
MAX_WAIT_FOR_USER_CODE_S = 1.0  # for a followed call of another thread to reach user code

# -------------------------------------------------------------------------------- the cache on disk

CACHED_PROGRAM_WAIT_SECONDS = 0.2  # to load a program, even on a busy machine
MIN_CACHED_PLAN_SECONDS = 0.005  # a plan that takes longer is stored
MAX_CACHED_GRAPH_BYTES = 8 << 20

# ------------------------------------------------------------------- compiler threads and processes

FIRST_PRODUCT_COMPILE_S = 0.045  # of a kernel's first product
OTHER_KERNEL_COMPILE_S = 0.012  # of each further product, usually smaller, and of other kernels
WORKER_START_S = 0.1  # of a compiler process, which starts while kernels are planned
WORK_PER_WORKER_S = 0.3  # that pays for one more process
MIN_BACKGROUND_WORK_S = 0.3  # with less, workers slow the program more than they save
IN_PROCESS_TIME_RATIO = 0.57  # of threads on two or more processors to one thread
PROCESSORS_PER_BACKGROUND_WORKER = 4  # while the program computes
MAX_LLVM_THREADS_PER_EMITTER = 3  # Python runs one of them at a time
BACKGROUND_SWITCH_INTERVAL_S = 2e-4  # how long a background compiler may hold the GIL
BACKGROUND_NICENESS = 5  # a third of a normal thread's CPU share
WORKER_START_TIMEOUT_S = 30.0
WORKER_IDLE_TIMEOUT_S = 10.0  # after which an idle process exits
PARENT_CHECK_S = 1.0  # between checks that the parent lives
COLLECT_AFTER_IR_CHARACTERS = 2 << 20  # whose nodes take 30 times as many bytes
COLLECT_AFTER_KERNEL_OBJECTS = 200_000  # some 40 MB
LLVM_LOADER_TABLE_BYTES = 1 << 20  # overhead of LLVM's loader
