"""torch.profiler: what runs is seen, with its times, and nothing is paid afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.profiler import (
    ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler,
    write_flame_graph,
)
from flambeau.profiler._utils import traverse_dfs


def names(prof):
    return [event.name for event in prof.events()]


def training_step():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.rand(4, 8)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_operators_labels_modules_nodes_and_optimizers_nest():
    step = training_step()
    cpu = [ProfilerActivity.CPU]
    with profile(activities=cpu, with_modules=True) as prof, record_function("training"):
        step()
    seen = names(prof)
    wanted = {"training", "nn.Module: Sequential_0", "nn.Module: Linear_0", "aten::linear",
              "aten::relu", "aten::mean", "AddmmBackward0", "Optimizer.step#SGD.step",
              "Optimizer.zero_grad#SGD.zero_grad"}
    assert wanted <= set(seen)
    assert seen.count("Optimizer.step#SGD.step") == 1
    linear = next(e for e in prof.events() if e.name == "aten::linear")
    above = []
    while linear.cpu_parent is not None:
        linear = linear.cpu_parent
        above.append(linear.name)
    assert above == ["nn.Module: Linear_0", "nn.Module: Sequential_0", "training"]
    total = prof.events().self_cpu_time_total
    assert total == pytest.approx(prof.events()[0].cpu_time_total, rel=0.01)


def test_python_operators_and_in_place_writes_are_seen():
    x = torch.ones(3)
    with profile() as prof:
        y = x + x
        y *= 2
        2 - y
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert [n for n in names(prof) if n in ("aten::add", "aten::mul_", "aten::matmul")] \
        == ["aten::add", "aten::mul_", "aten::matmul"]


@pytest.mark.usefixtures("plain_functions")
def test_functions_are_their_own_again_and_a_profile_of_a_raising_body_ends():
    before = torch.add.__code__, torch.nn.Module.__call__.__code__
    with pytest.raises(ZeroDivisionError), profile(with_modules=True):
        assert torch.add.__code__ is not before[0]
        1 // 0  # noqa: B018
    assert (torch.add.__code__, torch.nn.Module.__call__.__code__) == before
    with pytest.raises(RuntimeError, match="already enabled"), profile(), profile():
        pass
    assert torch.add.__code__ is before[0]


def test_shapes_memory_and_lines():
    x = torch.ones(4, 8)
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        x.exp()
        torch.cat([x, x])
    exp, cat = (next(e for e in prof.events() if e.name == n) for n in ("aten::exp", "aten::cat"))
    assert exp.input_shapes == [[4, 8]]
    assert cat.input_shapes[0] == [[4, 8], [4, 8]]
    assert (exp.cpu_memory_usage, cat.cpu_memory_usage) == (128, 256)
    assert exp.stack[0].startswith(__file__)
    assert exp.stack[0].endswith(": test_shapes_memory_and_lines")
    text = prof.key_averages(group_by_input_shape=True, group_by_stack_n=2).table(
        sort_by="self_cpu_memory_usage", row_limit=1, max_src_column_width=200)
    assert "aten::cat" in text
    assert "aten::exp" not in text
    for title in ("Name", "Self CPU %", "CPU time avg", "# of Calls", "CPU Mem", "Input Shapes",
                  "Source Location", "Self CPU time total: "):
        assert title in text


def test_a_schedule_chooses_steps_and_hands_over_each_cycle(tmp_path):
    handed = []
    handler = tensorboard_trace_handler(str(tmp_path), "worker", use_gzip=False)

    def ready(prof):
        handed.append([(e.key, e.count) for e in prof.key_averages() if "Step" in e.key])
        handed.append([e.trace_name for e in prof.events() if e.name == "ProfilerStep*"])
        handler(prof)

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=ready) as prof:
        for _ in range(10):
            torch.ones(2) + 1
            prof.step()
    steps = [("ProfilerStep*", 2)]  # tables sum them, as PyTorch's do
    assert handed == [steps, ["ProfilerStep#2", "ProfilerStep#3"],
                      steps, ["ProfilerStep#6", "ProfilerStep#7"]]
    assert len(list(tmp_path.glob("worker.*.pt.trace.json"))) == 2


def test_memory_comes_and_goes():
    with profile(profile_memory=True) as prof:
        x = torch.empty(4, 8)
        with record_function("kept"):
            y = x.exp()
        with record_function("dropped"):
            del x
        del y
    usage = {event.name: event.cpu_memory_usage for event in prof.events()}
    assert usage["kept"] == usage["aten::exp"] == 128
    assert (usage["dropped"], usage["[memory]"]) == (-128, -128)
    changes = [e.nbytes() for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]
    assert changes == [128, 128, -128, -128]


def test_calls_of_python_functions(tmp_path):
    def inner(x):
        return x + 1

    def outer(x):
        return inner(x) * 2

    assert sys.getprofile() is None
    with profile(with_stack=True) as prof:
        outer(torch.ones(2))
    assert sys.getprofile() is None
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = {r["name"].rpartition(": ")[2]: r["args"] for r in rows
             if r.get("cat") == "python_function"}
    assert calls["inner"]["Python parent id"] == calls["outer"]["Python id"]
    assert calls["outer"]["Python parent id"] == \
        calls["test_calls_of_python_functions"]["Python id"]
    tree = prof.profiler.kineto_results.experimental_event_tree()
    add = next(e for e in traverse_dfs(tree) if e.name == "aten::add")
    assert add.parent.name.endswith(": inner")
    assert "inner" not in str(prof.key_averages())


def test_operators_lead_to_their_nodes(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with profile() as prof:
        (x.exp() + 1).sum().backward()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    at = {r["ts"]: r["name"] for r in reversed(rows) if r["ph"] == "X" and r["cat"] == "cpu_op"
          and "evaluate_function" not in r["name"]}
    flows = [r for r in rows if r.get("cat") == "fwdbwd"]
    ends = [(at[a["ts"]], at[b["ts"]]) for a, b in zip(flows[::2], flows[1::2], strict=True)]
    assert ends == [("aten::sum", "SumBackward0"), ("aten::add", "AddBackward0"),
                    ("aten::exp", "ExpBackward0")]


def test_floating_point_operations():
    x, w = torch.ones(4, 8), torch.ones(16, 8)
    image, kernel = torch.ones(1, 3, 6, 6), torch.ones(5, 3, 3, 3)
    with profile(with_flops=True) as prof:
        torch.nn.functional.linear(x, w)
        torch.nn.functional.conv2d(image, kernel)
        x + x
    flops = {e.key: e.flops for e in prof.key_averages()}
    assert flops["aten::linear"] == 2 * 4 * 8 * 16
    assert flops["aten::conv2d"] == 2 * (5 * 4 * 4) * (3 * 3 * 3)
    assert flops["aten::add"] == 32
    assert "Total FLOPs" in prof.key_averages().table()


def test_batches_of_loaders_are_events():
    loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2)
    with profile() as prof:
        for _ in loader:
            pass
    label = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert names(prof).count(label) == 3  # the last one finds nothing


def test_names_below_the_module():
    from flambeau._C._profiler import ActiveProfilerType, _RecordFunctionFast

    x = torch.ones(2)
    assert torch._C._autograd._profiler_type() is ActiveProfilerType.NONE
    with profile(record_shapes=True) as prof:
        assert torch.autograd.profiler._is_profiler_enabled
        with _RecordFunctionFast("fast", [x, "text"]):
            pass
    assert not torch.autograd.profiler._is_profiler_enabled
    assert next(e for e in prof.events() if e.name == "fast").input_shapes == [[2], []]
    metrics = torch.profiler._utils.BasicEvaluation(prof.profiler).metrics
    assert [m.self_time_ns > 0 for m in metrics.values()] == [True] * len(prof.events())


def test_files(tmp_path):
    with profile(with_stack=True) as prof:
        torch.ones(2).exp()
    prof.add_metadata("note", "mine")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["note"] == "mine"
    rows = [r for r in trace["traceEvents"] if r["ph"] == "X" and r["name"] == "aten::exp"]
    assert rows[0]["dur"] > 0
    assert {"ts", "pid", "tid", "cat"} <= set(rows[0])
    prof.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    write_flame_graph(prof, str(tmp_path / "graph.html"), "a </script> in the title")
    page = (tmp_path / "graph.html").read_text()
    assert "aten::exp" in page
    assert page.count("</script>") == 1


@pytest.mark.slow
def test_kernels_of_a_compiled_step():
    step = training_step()
    compiled = torch.compile(step)
    deadline = time.perf_counter() + 60
    while not compiled.ready and time.perf_counter() < deadline:
        compiled()
        time.sleep(0.01)
    with profile() as prof:
        compiled()
    seen = names(prof)
    assert "compiled step" in seen
    kernels = [e for e in prof.events() if e.name.startswith("kernel: ")]
    assert kernels
    assert {e.cpu_parent.name for e in kernels} == {"compiled step"}


@pytest.mark.slow
def test_bottleneck_prints_both_profiles(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint(torch.ones(3).exp().sum())\n")
    done = subprocess.run([sys.executable, "-m", "flambeau.utils.bottleneck", str(script)],
                          capture_output=True, text=True, check=True)
    assert "cProfile output" in done.stdout
    assert "aten::exp" in done.stdout


@pytest.mark.parity
def test_tables_are_laid_out_like_pytorchs():
    import torch as pytorch

    def lines(library, **options):
        profiler = library.profiler
        with profiler.profile(record_shapes=True, profile_memory=True) as prof, \
                profiler.record_function("label"):
            library.ones(2, 3).exp()
        averages = prof.key_averages(group_by_input_shape=True)
        text = averages.table(sort_by="cpu_time_total", row_limit=1, **options)
        return text.split("\n")

    for options in ({}, {"header": "mine"}, {"top_level_events_only": True}, {"time_unit": "ms"}):
        ours, theirs = lines(torch, **options), lines(pytorch, **options)
        assert len(ours) == len(theirs)
        titles = [line.split() for line in (*ours, *theirs) if "Self CPU %" in line]
        assert titles[0] == titles[1]
        row, other = (next(x for x in text if "label" in x).split() for text in (ours, theirs))
        assert len(row) == len(other)


def test_files_hold_all_arguments_of_an_operator(torch: Any, tmp_path: Path) -> None:
    with torch.profiler.profile(record_shapes=True) as prof:
        a = torch.ones((2, 3), dtype=torch.float32)
        torch.cat([a, a]).sum(0, keepdim=True)
        torch.add(a, a[0])
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = {row["name"]: row["args"] for row in rows if row.get("cat") == "cpu_op"}
    ones, cat, add = calls["aten::ones"], calls["aten::cat"], calls["aten::add"]
    assert ones["Input type"] == ["ScalarList", "Scalar", "", "", "Scalar"]
    assert ones["Concrete Inputs"] == ["[2, 3]", "6", "", "", "False"]
    assert cat["Input Dims"] == [[[2, 3], [2, 3]], []]
    assert cat["Input type"] == ["TensorList", "Scalar"]
    assert add["Input Strides"] == [[3, 1], [1], []]
    assert calls["aten::sum"]["Concrete Inputs"][2:] == ["True", ""]


def test_memory_of_a_factory_is_that_of_empty_within(torch: Any) -> None:
    with torch.profiler.profile(profile_memory=True) as prof:
        torch.rand(10, 10)
    by_name = {event.key: event for event in prof.key_averages()}
    assert by_name["aten::empty"].self_cpu_memory_usage == 400
    assert by_name["aten::rand"].cpu_memory_usage == 400
    assert by_name["aten::rand"].self_cpu_memory_usage == 0


def test_labels_of_two_calls(torch):
    with torch.profiler.profile() as profile:
        handle = torch.ops.profiler._record_function_enter("forward", None)
        torch.ones(2).sum()
        torch.ops.profiler._record_function_exit(handle)
    assert [e.count for e in profile.key_averages() if e.key == "forward"] == [1]
