"""Memory that runs out: while a program is made the step stays eager, and the warning says where
and how many bytes; in a program's call it is a MemoryError, before anything was written.

The system refuses memory inside one function each, named here, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("resource")

STEP = """
import importlib, resource, sys, threading, time, warnings
import flambeau as torch

name, kind, mode = sys.argv[1:]
busy = threading.RLock()  # the limit is the whole process's: others ask for nothing meanwhile

def make():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(100, 100), torch.nn.Dropout(0.1))
    # eps: a slope that is only rounding must not move a parameter by lr, one way or the other.
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, eps=1e-3)
    total = torch.zeros(75_000, 100)  # 30 MB: more than threads that end give back

    def step(x):
        optimizer.zero_grad()
        y = net(x)
        total.add_(y.detach())
        loss = (y / y.square().mean()).square().mean()
        loss.backward()
        optimizer.step()
        return loss, y.detach()

    return step, [*net.parameters(), total]

def limited(function):
    def call(*args, **kwargs):
        with busy:
            with open("/proc/self/statm") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            usual = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 19), usual[1]))
            try:
                return function(*args, **kwargs)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, usual)
    return call

def limit(where):
    module, _, path = where.partition(":")
    holder = importlib.import_module("flambeau." + module)
    *parts, last = path.split(".")
    for part in parts:
        holder = getattr(holder, part)
    setattr(holder, last, limited(getattr(holder, last)))

def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

x = torch.randn(75_000, 100)
(plain, wanted), (function, found) = make(), make()
step = torch.compile(function, mode=mode)
if kind == "make":
    for where in name.split():
        limit(where)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for i in range(6):
        with busy:
            torch.manual_seed(i)
            losses = plain(x)
            torch.manual_seed(i)
            same(step(x), losses)
            same(found, wanted)
        for _ in range(400 if mode == "default" and i > 1 and not (step.ready or seen) else 0):
            if "it is being built" not in step.explain():
                break
            time.sleep(0.05)
for one in seen:
    print(one.message)
assert step.ready is (kind != "make"), step.explain()
if kind == "call":
    before = [t.detach().clone() for t in found]
    try:
        limited(step)(x)
    except MemoryError as error:
        print(error)
    same(found, before)
    assert all((a == b).all() for a, b in zip(found, before))
    torch.manual_seed(9)
    losses = plain(x)
    torch.manual_seed(9)
    same(step(x), losses)
    same(found, wanted)
    assert step.ready
"""


def said(tmp_path, name, kind, mode):
    """What the process prints, whose step computes what an eager one does."""
    alone = {"MMAP_THRESHOLD_": 1 << 16, "TOP_PAD_": 1 << 20, "ARENA_MAX": 1}  # arrays, as above
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path), "FLAMBEAU_CHECK": "0",
           "FLAMBEAU_COMPILE_WORKERS": "0"}
    env |= {f"MALLOC_{key}": str(value) for key, value in alone.items()}
    done = subprocess.run([sys.executable, "-c", STEP, name, kind, mode], env=env, timeout=300,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "stage", "mode"),
    [
        ("compiler.trace.trace:Trace.copy_array", "recorder", "now"),
        ("compiler.trace.trace:Trace.copy_array", "recorder", "default"),
        ("compiler.driver.program_builder:trace_to_graph", "trace_to_graph", "now"),
        ("compiler.trace.bindings:Bindings.snapshot_writes", "settle", "default"),
        ("compiler.driver.pipeline:Arena", "arena", "now"),
        ("compiler.driver.pipeline:Arena", "arena", "default"),
        ("compiler.driver.pipeline:_compile", "emit", "now"),
        ("compiler.driver.installation:check", "selfcheck", "now"),
        ("compiler.driver.installation:check", "selfcheck", "default"),
    ],
)
def test_making_a_program_leaves_the_step_eager(tmp_path, name, stage, mode):
    lines = said(tmp_path, name, "make", mode)
    assert len(lines) == 1
    told, _, size = lines[0].partition(": MemoryError: ")
    assert told == f"flambeau.compile: step stays eager: compiling failed in {stage}"
    assert "bytes" in size or " MiB " in size


def test_a_kept_program_for_which_there_is_no_memory_leaves_the_step_eager(tmp_path):
    assert said(tmp_path, "", "nothing", "now") == []
    lines = said(
        tmp_path,
        "compiler.runtime.executable:Arena compiler.capture.lazy_call:Arena",
        "make",
        "now",
    )
    assert len(lines) == 1
    assert "failed in step: MemoryError: the arena of a compiled step needs " in lines[0]


def test_a_call_without_memory_changes_nothing_and_the_next_one_works(tmp_path):
    lines = said(tmp_path, "", "call", "now")
    assert lines == ["what a compiled step returns needs 30,000,004 bytes of memory, "
                     "which there are not"]
