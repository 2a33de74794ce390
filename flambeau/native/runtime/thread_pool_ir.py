"""The native half of thread_pool.py and launch_table.py, in LLVM IR: workers, launches, barriers.

Each thread's state is a block of THREAD_BLOCK_BYTES. Offsets in thread 0's block: the job (0
function, 8 cells, 16 threads), 24 barriers ever passed, 128 workers that have not finished the job.
In a worker's: 0 its ticket, which changes with each job and is negative to stop it, 4 whether it
sleeps, 8 the last ticket whose share was claimed, 128 a mutex, 192 a condition. In all: from 256,
one cache line per round of barrier signals.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from ..target.cost_model import BARRIER_SPINS_BEFORE_YIELD, THREAD_LINE_BYTES

if TYPE_CHECKING:
    from ..target.machine import Target

BARRIER_ROUNDS = 10  # of a barrier, which synchronizes up to 2**BARRIER_ROUNDS threads
MAX_THREADS = 2**BARRIER_ROUNDS
THREAD_BLOCK_BYTES = 2 * THREAD_LINE_BYTES + BARRIER_ROUNDS * THREAD_LINE_BYTES
BARRIER, SERIAL = 1, 2  # flags of a record


# Processor-specific: a pause while spinning, and a clock.
_PAUSE = {
    "x86_64": """
declare void @llvm.x86.sse2.pause()
define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
declare i64 @llvm.readcyclecounter()
define i64 @ticks() {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
""",
    "aarch64": """
declare void @llvm.aarch64.isb(i32)
define internal void @pause() alwaysinline {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}
; LLVM makes readsteadycounter a zero here: the virtual timer is read by its register's name.
declare i64 @llvm.read_volatile_register.i64(metadata)
define i64 @ticks() {
  %now = call i64 @llvm.read_volatile_register.i64(metadata !0)
  ret i64 %now
}
!0 = !{!"cntvct_el0"}
""",
}

# System-specific: how to sleep until a word changes, and how to yield.
_FUTEX = """
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
define i32 @prepare(ptr %box) {
  ret i32 0
}
define internal void @sleep(ptr %box, i32 %last) noinline {
  %asleep = getelementptr i8, ptr %box, i64 4
  store atomic i32 1, ptr %asleep seq_cst, align 4
  %word = sext i32 %last to i64
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %box, i64 128, i64 %word, ptr null, ptr null, i64 0)
  store atomic i32 0, ptr %asleep seq_cst, align 4
  ret void
}
define internal void @rouse(ptr %box) noinline {
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %box, i64 129, i64 1, ptr null, ptr null, i64 0)
  ret void
}
define internal void @yield() noinline {
  %r = call i32 @sched_yield()
  ret void
}
"""  # noqa: E501

_POSIX = """
declare i32 @sched_yield()
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
define i32 @prepare(ptr %box) {
  %mutex = getelementptr i8, ptr %box, i64 128
  %condition = getelementptr i8, ptr %box, i64 192
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %condition, ptr null)
  %r = or i32 %a, %b
  ret i32 %r
}
define internal void @sleep(ptr %box, i32 %last) noinline {
  %asleep = getelementptr i8, ptr %box, i64 4
  %mutex = getelementptr i8, ptr %box, i64 128
  %condition = getelementptr i8, ptr %box, i64 192
  store atomic i32 1, ptr %asleep seq_cst, align 4
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
look:
  %now = load atomic i32, ptr %box seq_cst, align 4
  %same = icmp eq i32 %now, %last
  br i1 %same, label %wait, label %done
wait:
  %b = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
done:
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  store atomic i32 0, ptr %asleep seq_cst, align 4
  ret void
}
define internal void @rouse(ptr %box) noinline {
  %mutex = getelementptr i8, ptr %box, i64 128
  %condition = getelementptr i8, ptr %box, i64 192
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_signal(ptr %condition)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}
define internal void @yield() noinline {
  %r = call i32 @sched_yield()
  ret void
}
"""

_WINDOWS = """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressSingle(ptr)
declare i32 @SwitchToThread()
define i32 @prepare(ptr %box) {
  ret i32 0
}
define internal void @sleep(ptr %box, i32 %last) noinline {
  %asleep = getelementptr i8, ptr %box, i64 4
  %compare = alloca i32, align 4
  store i32 %last, ptr %compare, align 4
  store atomic i32 1, ptr %asleep seq_cst, align 4
  %r = call i32 @WaitOnAddress(ptr %box, ptr %compare, i64 4, i32 -1)
  store atomic i32 0, ptr %asleep seq_cst, align 4
  ret void
}
define internal void @rouse(ptr %box) noinline {
  call void @WakeByAddressSingle(ptr %box)
  ret void
}
define internal void @yield() noinline {
  %r = call i32 @SwitchToThread()
  ret void
}
"""

_POOL = """
define internal void @relax(i64 %round) alwaysinline {
  %long = icmp ugt i64 %round, PATIENT
  br i1 %long, label %give_way, label %spin
give_way:
  call void @yield()
  ret void
spin:
  call void @pause()
  ret void
}

; Whoever claims a share runs it. Tickets are claimed in order, so a late worker gets no old one.
define internal i1 @claim(ptr %box, i32 %ticket) alwaysinline {
  %claimed_at = getelementptr i8, ptr %box, i64 8
  %less = sub i32 %ticket, 1
  %before = and i32 %less, 2147483647
  %pair = cmpxchg ptr %claimed_at, i32 %before, i32 %ticket acq_rel monotonic
  %claimed = extractvalue { i32, i1 } %pair, 1
  ret i1 %claimed
}

define void @worker(ptr %state, i64 %tid, i64 %patience) {
entry:
  %offset = mul i64 %tid, BLOCK
  %box = getelementptr i8, ptr %state, i64 %offset
  %pending = getelementptr i8, ptr %state, i64 128
  %cells_at = getelementptr i8, ptr %state, i64 8
  %threads_at = getelementptr i8, ptr %state, i64 16
  br label %rest
rest:
  %last = phi i32 [0, %entry], [%ticket, %work], [%ticket, %claim]
  %begin = call i64 @ticks()
  br label %look
look:
  %round = phi i64 [0, %rest], [%round_next, %idle], [0, %tired]
  %ticket = load atomic i32, ptr %box acquire, align 4
  %same = icmp eq i32 %ticket, %last
  br i1 %same, label %idle, label %wake
idle:
  call void @relax(i64 %round)
  %round_next = add i64 %round, 1
  %now = call i64 @ticks()
  %waited = sub i64 %now, %begin
  %long = icmp ugt i64 %waited, %patience
  br i1 %long, label %tired, label %look
tired:
  call void @sleep(ptr %box, i32 %last)
  br label %look
wake:
  %stop = icmp slt i32 %ticket, 0
  br i1 %stop, label %end, label %claim
claim:
  %mine = call i1 @claim(ptr %box, i32 %ticket)
  br i1 %mine, label %work, label %rest
work:
  %function = load ptr, ptr %state, align 8
  %cells = load ptr, ptr %cells_at, align 8
  %threads = load i64, ptr %threads_at, align 8
  call void %function(i64 %tid, i64 %threads, ptr %cells)
  %left = atomicrmw sub ptr %pending, i32 1 release
  br label %rest
end:
  ret void
}

define void @stop(ptr %state, i64 %threads) {
entry:
  br label %next
next:
  %tid = phi i64 [1, %entry], [%following, %one]
  %more = icmp slt i64 %tid, %threads
  br i1 %more, label %one, label %end
one:
  %offset = mul i64 %tid, BLOCK
  %box = getelementptr i8, ptr %state, i64 %offset
  store atomic i32 -1, ptr %box seq_cst, align 4
  call void @rouse(ptr %box)
  %following = add i64 %tid, 1
  br label %next
end:
  ret void
}

; Run a function on several threads. Its shares do not wait for each other: the caller runs those
; that no worker has begun when it is done with its own.
define void @launch(ptr %state, ptr %function, ptr %cells, i64 %threads) {
  call void @launch_with(ptr %state, ptr %function, ptr %cells, i64 %threads, i1 true)
  ret void
}

define internal void @launch_with(ptr %state, ptr %function, ptr %cells, i64 %threads, i1 %steals) {
entry:
  %alone = icmp slt i64 %threads, 2
  br i1 %alone, label %single, label %several
single:
  call void %function(i64 0, i64 1, ptr %cells)
  ret void
several:
  %pending = getelementptr i8, ptr %state, i64 128
  %cells_at = getelementptr i8, ptr %state, i64 8
  %threads_at = getelementptr i8, ptr %state, i64 16
  store ptr %function, ptr %state, align 8
  store ptr %cells, ptr %cells_at, align 8
  store i64 %threads, ptr %threads_at, align 8
  %workers = sub i64 %threads, 1
  %count = trunc i64 %workers to i32
  store atomic i32 %count, ptr %pending monotonic, align 4
  br label %hand
hand:
  %h = phi i64 [1, %several], [%h_next, %hand]
  %h_offset = mul i64 %h, BLOCK
  %h_box = getelementptr i8, ptr %state, i64 %h_offset
  %old = load atomic i32, ptr %h_box monotonic, align 4
  %added = add i32 %old, 1
  %ticket = and i32 %added, 2147483647
  store atomic i32 %ticket, ptr %h_box seq_cst, align 4
  %h_next = add i64 %h, 1
  %h_more = icmp slt i64 %h_next, %threads
  br i1 %h_more, label %hand, label %call
call:
  %c = phi i64 [1, %hand], [%c_next, %called]
  %c_offset = mul i64 %c, BLOCK
  %c_box = getelementptr i8, ptr %state, i64 %c_offset
  %asleep_at = getelementptr i8, ptr %c_box, i64 4
  %asleep = load atomic i32, ptr %asleep_at seq_cst, align 4
  %sleeping = icmp ne i32 %asleep, 0
  br i1 %sleeping, label %wake, label %called
wake:
  call void @rouse(ptr %c_box)
  br label %called
called:
  %c_next = add i64 %c, 1
  %c_more = icmp slt i64 %c_next, %threads
  br i1 %c_more, label %call, label %own
own:
  call void %function(i64 0, i64 %threads, ptr %cells)
  br i1 %steals, label %take, label %join
take:
  %s = phi i64 [1, %own], [%s_next, %taken]
  %s_offset = mul i64 %s, BLOCK
  %s_box = getelementptr i8, ptr %state, i64 %s_offset
  %s_ticket = load atomic i32, ptr %s_box monotonic, align 4
  %stolen = call i1 @claim(ptr %s_box, i32 %s_ticket)
  br i1 %stolen, label %steal, label %taken
steal:
  call void %function(i64 %s, i64 %threads, ptr %cells)
  %fewer = atomicrmw sub ptr %pending, i32 1 release
  br label %taken
taken:
  %s_next = add i64 %s, 1
  %s_more = icmp slt i64 %s_next, %threads
  br i1 %s_more, label %take, label %join
join:
  %round = phi i64 [0, %own], [0, %taken], [%round_next, %waiting]
  %left = load atomic i32, ptr %pending acquire, align 4
  %done = icmp eq i32 %left, 0
  br i1 %done, label %end, label %waiting
waiting:
  call void @relax(i64 %round)
  %round_next = add i64 %round, 1
  br label %join
end:
  ret void
}
"""

# In round k each thread signals the thread 2**k after it and waits for the one 2**k before it.
# After the last round it has heard from all, and no two threads write to the same place.
_BARRIER = """
define internal void @barrier(ptr %state, i64 %tid, i64 %threads, i64 %epoch) noinline {
entry:
  %own_offset = mul i64 %tid, BLOCK
  %own = getelementptr i8, ptr %state, i64 %own_offset
  br label %round
round:
  %distance = phi i64 [1, %entry], [%further, %heard]
  %at = phi i64 [256, %entry], [%at_next, %heard]
  %sum = add i64 %tid, %distance
  %beyond = icmp sge i64 %sum, %threads
  %folded = sub i64 %sum, %threads
  %other = select i1 %beyond, i64 %folded, i64 %sum
  %other_offset = mul i64 %other, BLOCK
  %there = add i64 %other_offset, %at
  %signal = getelementptr i8, ptr %state, i64 %there
  store atomic i64 %epoch, ptr %signal release, align 8
  %hear = getelementptr i8, ptr %own, i64 %at
  br label %look
look:
  %spins = phi i64 [0, %round], [%spins_next, %waiting]
  %now = load atomic i64, ptr %hear acquire, align 8
  %early = icmp slt i64 %now, %epoch
  br i1 %early, label %waiting, label %heard
waiting:
  call void @relax(i64 %spins)
  %spins_next = add i64 %spins, 1
  br label %look
heard:
  %further = shl i64 %distance, 1
  %at_next = add i64 %at, 128
  %more = icmp slt i64 %further, %threads
  br i1 %more, label %round, label %end
end:
  ret void
}
"""

# A program: 0 records, 8 their number, 16 patches, 24 their number, 32 the table, 40 the output of
# times, 48 the threads' state, 56 barriers passed when it started, 64 completed runs.
# A record: 0 function, 8 cells, 16 flags. A patch: 0 the cell's address, 8 its slot in the table,
# 16 the offset to add.
# Each thread walks the records. TIME_... is empty, or stores when a record began and ended.
_DRIVER = """
define void @DRIVE(i64 %tid, i64 %threads, ptr %program) {
entry:
  %count_at = getelementptr i8, ptr %program, i64 8
  %state_at = getelementptr i8, ptr %program, i64 48
  %passed_at = getelementptr i8, ptr %program, i64 56
  %records = load ptr, ptr %program, align 8
  %count = load i64, ptr %count_at, align 8
  %state = load ptr, ptr %state_at, align 8
  %passed = load i64, ptr %passed_at, align 8
  %several = icmp ne i64 %threads, 1
  %other = icmp ne i64 %tid, 0TIME_ENTRY
  br label %next
next:
  %i = phi i64 [0, %entry], [%i_next, %over]
  %epoch = phi i64 [%passed, %entry], [%epoch_next, %over]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %offset = mul i64 %i, 24
  %record = getelementptr i8, ptr %records, i64 %offset
  %cells_at = getelementptr i8, ptr %record, i64 8
  %flags_at = getelementptr i8, ptr %record, i64 16
  %flags = load i64, ptr %flags_at, align 8
  %serial_flag = and i64 %flags, 2
  %serial = icmp ne i64 %serial_flag, 0
  %skip = and i1 %serial, %otherTIME_BEGIN
  br i1 %skip, label %ran, label %run
run:
  %function = load ptr, ptr %record, align 8
  %cells = load ptr, ptr %cells_at, align 8
  %shares = select i1 %serial, i64 1, i64 %threads
  call void %function(i64 %tid, i64 %shares, ptr %cells)
  br label %ran
ran:TIME_END
  %barrier_flag = and i64 %flags, 1
  %wanted = icmp ne i64 %barrier_flag, 0
  %wait = and i1 %wanted, %several
  br i1 %wait, label %meet, label %over
meet:
  %met = add i64 %epoch, 1
  call void @barrier(ptr %state, i64 %tid, i64 %threads, i64 %met)
  br label %over
over:
  %epoch_next = phi i64 [%epoch, %ran], [%met, %meet]
  %i_next = add i64 %i, 1
  br label %next
end:
  ret void
}

define void @START(ptr %state, ptr %program, i64 %threads) {
entry:
  %patches_at = getelementptr i8, ptr %program, i64 16
  %count_at = getelementptr i8, ptr %program, i64 24
  %table_at = getelementptr i8, ptr %program, i64 32
  %patches = load ptr, ptr %patches_at, align 8
  %count = load i64, ptr %count_at, align 8
  %table = load ptr, ptr %table_at, align 8
  br label %next
next:
  %i = phi i64 [0, %entry], [%i_next, %one]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %patched
one:
  %offset = mul i64 %i, 24
  %patch = getelementptr i8, ptr %patches, i64 %offset
  %slot_at = getelementptr i8, ptr %patch, i64 8
  %plus_at = getelementptr i8, ptr %patch, i64 16
  %cell = load ptr, ptr %patch, align 8
  %slot = load i64, ptr %slot_at, align 8
  %plus = load i64, ptr %plus_at, align 8
  %value_at = getelementptr i64, ptr %table, i64 %slot
  %value = load i64, ptr %value_at, align 8
  %sum = add i64 %value, %plus
  store i64 %sum, ptr %cell, align 8
  %i_next = add i64 %i, 1
  br label %next
patched:
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %shared, label %ready
shared:
  %records_at = getelementptr i8, ptr %program, i64 8
  %state_at = getelementptr i8, ptr %program, i64 48
  %passed_at = getelementptr i8, ptr %program, i64 56
  %ever_at = getelementptr i8, ptr %state, i64 24
  %records = load i64, ptr %records_at, align 8
  %ever = load i64, ptr %ever_at, align 8
  %ever_next = add i64 %ever, %records
  store i64 %ever_next, ptr %ever_at, align 8
  store i64 %ever, ptr %passed_at, align 8
  store ptr %state, ptr %state_at, align 8
  br label %ready
ready:
  call void @launch_with(ptr %state, ptr @DRIVE, ptr %program, i64 %threads, i1 false)
  %ran_at = getelementptr i8, ptr %program, i64 64
  %ran = load i64, ptr %ran_at, align 8
  %ran_next = add i64 %ran, 1
  store i64 %ran_next, ptr %ran_at, align 8
  ret void
}
"""

_TIMES = {
    "TIME_ENTRY": """
  %times_at = getelementptr i8, ptr %program, i64 40
  %all_times = load ptr, ptr %times_at, align 8
  %first = mul i64 %tid, %count
  %times = getelementptr [2 x i64], ptr %all_times, i64 %first""",
    "TIME_BEGIN": """
  %begin = call i64 @ticks()
  %begin_at = getelementptr [2 x i64], ptr %times, i64 %i
  store i64 %begin, ptr %begin_at, align 8""",
    "TIME_END": """
  %finish = call i64 @ticks()
  %finish_at = getelementptr [2 x i64], ptr %times, i64 %i, i64 1
  store i64 %finish, ptr %finish_at, align 8""",
}

FUNCTION_NAMES = ("ticks", "prepare", "worker", "stop", "launch", "drive", "start", "drive_timed",
         "start_timed")


def _write_driver(name: str, timed: bool) -> str:
    text = _DRIVER.replace("DRIVE", f"drive{name}").replace("START", f"start{name}")
    for mark, code in _TIMES.items():
        text = text.replace(mark, code if timed else "")
    return text


def emit_runtime(target: Target, system: str = sys.platform) -> str:
    """Return the LLVM IR of the runtime for a processor and an operating system."""
    processor = "x86_64" if target.triple.startswith("x86_64") else "aarch64"
    if system == "linux":
        waiting = _FUTEX.replace("FUTEX", "202" if processor == "x86_64" else "98")
    else:
        waiting = _WINDOWS if system == "win32" else _POSIX
    pool = (_POOL + _BARRIER).replace("BLOCK", str(THREAD_BLOCK_BYTES))
    pool = pool.replace("PATIENT", str(BARRIER_SPINS_BEFORE_YIELD))
    return "\n".join((_PAUSE[processor], waiting, pool, _write_driver("", False),
                      _write_driver("_timed", True)))


@lru_cache(maxsize=4)
def load_runtime(system: str = sys.platform) -> dict[str, int]:
    """Return the addresses of FUNCTION_NAMES in this process."""
    from ..jit.elf_loader import load
    from ..target.machine import host

    if system == "win32":
        import llvmlite.binding as llvm

        llvm.load_library_permanently("kernelbase.dll")
    return load(emit_runtime(host(), system), FUNCTION_NAMES)
