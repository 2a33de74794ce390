"""Which memory loops ask for ahead of reading it: what is large, once, and line by line."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from flambeau.native.codegen.kernel import emit
from flambeau.native.target.cost_model import (
    FAR_PREFETCH_DISTANCE_BYTES, MIN_DRAM_STREAM_BYTES, MIN_STREAM_BYTES, PREFETCH_DISTANCE_BYTES,
)
from flambeau.native.kernels.pointwise import FULL, NUMBER, ROW, pointwise
from flambeau.native.kernels.softmax_and_layer_norm import softmax
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Index, Kernel, Load, Loop, LoopKind, ReduceOp, Store, Type,
    Update,
)
from flambeau.native.target.machine import TARGETS

AVX512 = TARGETS["avx512"]


FAR = MIN_STREAM_BYTES // 8  # elements of each of two streams


def asked(kernel: Kernel) -> list[int]:
    """1 for each line that a round asks for to write, 0 to read."""
    calls = re.findall(r"call void @\W?llvm\.prefetch\.p0\W?\(.*?, i32 (\d),", emit(kernel, AVX512))
    return [int(write) for write in calls]


def copied(n: int, kind: LoopKind = LoopKind.PARALLEL) -> Kernel:
    x, y, i = Buffer(Type.F32, "x"), Buffer(Type.F32, "y"), Index("i")
    at = Affine(0, ((i, 1),))
    return Kernel("copied", [x, y], [Loop(i, n, [Store(y, at, Load(x, at))], kind)])


def test_pointwise_loops_of_any_size_ask_for_what_they_read_and_write() -> None:
    kernel = pointwise(lambda a, b: a + b, [(Type.F32, FULL), (Type.F32, FULL)])
    assert sorted(asked(kernel)) == [0] * 8 + [1] * 4  # four vectors at once


def test_numbers_and_rows_that_all_rows_share_stay_near() -> None:
    kernel = pointwise(lambda a, b: a + b, [(Type.F32, FULL), (Type.F32, NUMBER)])
    assert sorted(asked(kernel)) == [0] * 4 + [1] * 4
    kernel = pointwise(lambda a, b: a + b, [(Type.F32, FULL), (Type.F32, ROW)])
    assert sorted(asked(kernel)) == [0, 1]


@pytest.mark.parametrize(("n", "lines"), [(FAR, 8), (FAR - 16, 0)])
def test_small_arrays_are_not_asked_for(n: int, lines: int) -> None:
    assert len(asked(copied(n))) == lines


def test_loops_on_one_thread_are_not_long_enough() -> None:
    assert not asked(copied(MIN_STREAM_BYTES, LoopKind.VECTORIZED))


def test_later_sweeps_over_a_row_find_it_near() -> None:
    reads = asked(softmax(Type.F32))
    assert 0 < reads.count(0) <= 4  # the maximum's sweep, which takes four vectors at once at most
    assert reads.count(1) == 4  # the exponentials', which stores


def test_every_line_of_a_round_is_asked_for_once() -> None:
    text = emit(copied(MIN_STREAM_BYTES), AVX512)
    assert f"i64 {PREFETCH_DISTANCE_BYTES // 4}" in text
    assert len(asked(copied(MIN_STREAM_BYTES))) == 8
    assert {f"i64 {16 * k}" in text for k in range(1, 4)} == {True}


@pytest.mark.parametrize(("last", "most"), [
    (8 << 20, 6 << 20), (AVX512.llc_bytes, MIN_DRAM_STREAM_BYTES),
    (480 << 20, MIN_DRAM_STREAM_BYTES),
])
@pytest.mark.parametrize("less", [True, False])
def test_what_the_last_cache_holds_far_away_or_not_is_asked_for_sooner(
    last: int, most: int, less: bool
) -> None:
    distance = PREFETCH_DISTANCE_BYTES if less else FAR_PREFETCH_DISTANCE_BYTES
    text = emit(copied(most // 8 - 16 * less), replace(AVX512, llc_bytes=last))
    known = {
        f"i64 {d // 4}" in text
        for d in (PREFETCH_DISTANCE_BYTES, FAR_PREFETCH_DISTANCE_BYTES)
        if d != distance
    }
    assert f"i64 {distance // 4}" in text and known == {False}


def test_loops_of_any_size_decide_when_they_run() -> None:
    text = emit(pointwise(lambda a: -a, [(Type.F32, FULL)]), AVX512)
    assert f", {min(AVX512.llc_bytes * 3 // 4, MIN_DRAM_STREAM_BYTES)}\n" in text
    assert re.search(
        rf"select .*i64 {FAR_PREFETCH_DISTANCE_BYTES // 4}, i64 {PREFETCH_DISTANCE_BYTES // 4}",
        text,
    )


def pooled(windows: int, extent: int) -> Kernel:
    """Maxima over `extent` rows of each window, of 64 numbers side by side."""
    x, y, n, k, i = Buffer(Type.F32, "x"), Buffer(Type.F32, "y"), Index("n"), Index("k"), Index("i")
    top = Accumulator(ReduceOp.MAXIMUM, Type.F32)
    at = Affine(0, ((n, 64 * extent), (k, 64), (i, 1)))
    fold = Loop(k, extent, [Update(top, Load(x, at))])
    lanes = Loop(
        i, 64, [Begin(top), fold, Store(y, Affine(0, ((n, 64), (i, 1))), top)], LoopKind.VECTORIZED
    )
    return Kernel("pooled", [x, y], [Loop(n, windows, [lanes], LoopKind.PARALLEL)])


@pytest.mark.parametrize(("extent", "streams"), [(2, 3), (4, 5), (9, 10), (10, 0)])
def test_each_place_of_a_small_window_that_is_folded_is_a_stream(extent: int, streams: int) -> None:
    stream_ids = asked(pooled(1 << 14, extent))
    assert len(stream_ids) % max(streams, 1) == 0
    assert stream_ids.count(1) * streams == len(stream_ids)
    assert bool(stream_ids) is bool(streams)
