"""One fresh process of the compiler's benchmark: one engine, one job; prints a line of JSON.

    python compiled_measure.py {torch,inductor,jax,eager,compiled} JOB [--quick] [--turns]

Jobs: step:MODEL, inference:MODEL:BATCH[,BATCH], matmul:SIZE, growth:LAYERS:WIDTH. Times are in
seconds, memory in MB. "first" is the time of the calls until one was compiled, "compiling" what of
it went into that. With --turns it waits before it begins, and before each repeat of what it times,
until it is told to go on (turns.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from measure import THREADS, memory, time_of
from turns import wait_for_turn

HERE = Path(__file__).resolve().parent
CALLS = 8  # after which a step that is not compiled stays eager
TURNS = 15  # of products and multiply-adds in registers
Measured = dict[str, Any]
BEFORE: Callable[[], None] | None = wait_for_turn if "--turns" in sys.argv else None


def library(engine: str) -> Any:
    """What `import torch` gives to an engine, with two threads on two processors."""
    with contextlib.suppress(AttributeError):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    if engine == "jax":
        import jax

        return jax
    sys.path.insert(0, str(HERE.parent / "examples"))
    if engine in ("eager", "compiled"):
        sys.path.insert(0, str(HERE.parent))
        import flambeau  # noqa: F401
        from flambeau.command import torch_alias

        torch_alias.install()
    import torch

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    return torch


def training(torch: Any, engine: str, model: Any, loss_of: Callable) -> Callable:
    """The whole step, as a user writes it for the engine."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    # torch.compile leaves backward and update to themselves, so the loss is what users compile.
    loss = torch.compile(loss_of) if engine == "inductor" else loss_of

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        value = loss(model, x, y)
        value.backward()
        optimizer.step()
        return value

    return torch.compile(step, mode="now") if engine == "compiled" else step


def until_compiled(work: Callable, engine: str, done: Callable[[], bool]) -> Measured:
    """Calls until one was compiled; for engines that compile the first call it is that one."""
    begin, building = time.perf_counter(), compile_seconds() if engine == "compiled" else None
    for _ in range(CALLS):
        work()
        if building is None or done():
            first = time.perf_counter() - begin
            return {"first": first, "compiling": first if building is None else sum(building)}
    return {"first": None, "compiling": None}


def compile_seconds() -> list[float]:
    """Grows by the seconds that each program takes to be compiled."""
    from flambeau.compiler.driver.program_builder import ProgramBuilder

    original, seconds = ProgramBuilder.compile, []

    def work(*args: Any) -> None:
        begin = time.perf_counter()
        original(*args)
        seconds.append(time.perf_counter() - begin)

    ProgramBuilder.compile = work  # type: ignore[method-assign]
    return seconds


def figures_of(step: Any) -> Measured:
    """Flops, bytes and the share of the machine's limits, by explain()'s measurements."""
    from flambeau.compiler.report.summary import measure

    (_, program), *_ = measure(step._programs[0], "step")
    lost: dict[str, float] = {}
    for line in program.lines:
        lost[line.bound] = lost.get(line.bound, 0.0) + line.seconds * (1 - line.share)
    return {
        "kernels": len(program.lines), "flops": sum(line.flops for line in program.lines),
        "bytes": sum(line.bytes for line in program.lines), "measured": program.total,
        "least": program.least, "arena": program.arena, "lost": lost,
        "limits": list(program.limits),
    }


def step_job(engine: str, name: str, quick: bool, model: Any = None) -> Measured:
    """A training step: how long, how much memory, how long until it was compiled."""
    torch = library(engine)
    begin = memory()
    if engine == "jax":
        from jax_models import training as training_in_jax
        from models import MODELS

        work, wait = training_in_jax(name, MODELS[name].batch)

        def first() -> None:
            work()
            wait()

        figures = until_compiled(first, engine, lambda: True)
    else:
        from models import MODELS

        model = model or MODELS[name]
        module, loss_of = model.make(torch)
        batch = model.data(torch, model.batch)
        step = training(torch, engine, module, loss_of)
        wait = None

        def work() -> Any:
            return step(*batch)

        figures = until_compiled(work, engine, lambda: bool(step._programs))
    figures["seconds"] = timed(work, wait, quick)
    figures["memory"], figures["own memory"] = memory(), memory() - begin
    if engine == "compiled" and figures["first"] is not None and not quick:
        figures |= figures_of(step)
    return figures


def timed(work: Callable, wait: Callable | None, quick: bool) -> float:
    """The median time of a call; for JAX, whose calls return early, of calls that were waited for
    together."""
    if quick:
        begin = time.perf_counter()
        for _ in range(3):
            work()
        if wait is not None:
            wait()
        return (time.perf_counter() - begin) / 3
    if wait is None:
        return time_of(work, "steps", BEFORE)
    work()
    wait()
    begin = time.perf_counter()
    work()
    wait()
    calls = max(1, round(0.05 / (time.perf_counter() - begin)))

    def several() -> None:
        for _ in range(calls):
            work()
        wait()

    return time_of(several, "steps", BEFORE) / calls


def inference_job(engine: str, name: str, batches: list[int], quick: bool) -> Measured:
    """A model under inference_mode: seconds by batch size."""
    torch = library(engine)
    from models import MODELS

    module, _ = MODELS[name].make(torch)
    module.eval()
    run = torch.compile(module, mode="now") if engine == "compiled" else module
    seconds: Measured = {}
    with torch.inference_mode():
        for batch in batches:
            x, _ = MODELS[name].data(torch, batch)
            for _ in range(CALLS):
                run(x)
            seconds[str(batch)] = timed(lambda x=x: run(x), None, quick)
    if engine == "compiled" and len(run._compiled._programs) != len(batches):
        raise RuntimeError(run.explain())
    return seconds


def matmul_job(engine: str, size: int, quick: bool) -> Measured:
    """A product of square matrices; for flambeau the machine's peak in turn with it.

    On a machine that others use too, a peak of another moment would say nothing.
    """
    torch = library(engine)
    a, b = torch.randn(size, size), torch.randn(size, size)
    run: Any = lambda a, b: a @ b  # noqa: E731
    if engine == "compiled":
        run = torch.compile(run, mode="now")
    figures = until_compiled(lambda: run(a, b), engine, lambda: bool(run._programs))
    if engine != "compiled":
        return figures | {"seconds": timed(lambda: run(a, b), None, quick)}
    return figures | _beside_the_peak(lambda: run(a, b), 3 if quick else TURNS)


def _beside_the_peak(work: Callable, turns: int) -> Measured:
    """The median time of a call and the best turn's; what all threads sustain of multiply-adds
    meanwhile, and their best."""
    from flambeau.native.runtime.roofline import measure_flops_per_s

    seconds, sustained, best = [], [], []
    for _ in range(turns):
        if BEFORE is not None:
            BEFORE()
            work()
        sustained.append(measure_flops_per_s(THREADS, seconds=0.03, sustained=True))
        best.append(measure_flops_per_s(THREADS, seconds=0.01))
        begin, calls = time.perf_counter(), 0
        while time.perf_counter() < begin + 0.05 or calls < 2:
            work()
            calls += 1
        seconds.append((time.perf_counter() - begin) / calls)
    return {
        "seconds": median(seconds), "quickest": min(seconds), "peak": median(sustained),
        "burst": max(best),
    }


def job(engine: str, text: str, quick: bool) -> Measured:
    kind, *arguments = text.split(":")
    if kind == "inference":
        return inference_job(engine, arguments[0], [int(x) for x in arguments[1].split(",")], quick)
    if kind == "matmul":
        return matmul_job(engine, int(arguments[0]), quick)
    if kind == "growth":
        from models import growing

        return step_job(engine, "", quick, growing(*map(int, arguments)))
    return step_job(engine, arguments[0], quick)


if __name__ == "__main__":
    if BEFORE is not None:
        BEFORE()
    print(json.dumps(job(sys.argv[1], sys.argv[2], "--quick" in sys.argv)))
