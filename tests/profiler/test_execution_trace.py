"""Execution traces: the file says what ran, on which tensors, and within what."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.profiler import ExecutionTraceObserver, profile, record_function


def nodes_of(path: Any) -> list[dict[str, Any]]:
    data = Path(path).read_bytes()
    text = gzip.decompress(data) if str(path).endswith(".gz") else data
    return json.loads(text)["nodes"]


def attribute(node: dict[str, Any], name: str) -> Any:
    return next(a["value"] for a in node["attrs"] if a["name"] == name)


@pytest.fixture(params=["trace.json", "trace.json.gz"])
def observer(request, tmp_path):
    return ExecutionTraceObserver().register_callback(str(tmp_path / request.param))


def test_arguments_results_and_schema_of_an_operator(observer):
    x, weight = torch.ones(3, 4), torch.ones(5, 4)
    observer.start()
    with record_function("outer"):
        y = torch.nn.functional.linear(x, weight)
        torch.cat([y, y], 1).max(1)
    observer.stop()
    observer.unregister_callback()
    nodes = {node["name"]: node for node in nodes_of(observer.get_output_file_path())}
    linear = nodes["aten::linear"]
    assert linear["inputs"]["types"] == ["Tensor(float)", "Tensor(float)", "None"]
    assert linear["inputs"]["shapes"] == [[3, 4], [5, 4], []]
    assert linear["inputs"]["strides"] == [[4, 1], [4, 1], []]
    assert linear["inputs"]["values"][0][2:] == [0, 12, 4, "cpu"]
    assert attribute(linear, "op_schema") == \
        "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
    assert linear["ctrl_deps"] == nodes["outer"]["id"]
    cat = nodes["aten::cat"]
    assert cat["inputs"]["types"] == ["GenericList[Tensor(float),Tensor(float)]", "Int"]
    assert cat["inputs"]["values"][0] == linear["outputs"]["values"] * 2
    assert nodes["aten::max"]["outputs"]["types"] == ["Tensor(float)", "Tensor(long int)"]


def test_views_share_a_storage(observer):
    x = torch.ones(4)
    observer.start()
    x[2:].add_(1)
    observer.stop()
    observer.unregister_callback()
    nodes = {node["name"]: node for node in nodes_of(observer.get_output_file_path())}
    (whole, *_), (view,) = (nodes["aten::slice"][k]["values"] for k in ("inputs", "outputs"))
    assert whole[0] != view[0] and whole[1] == view[1] and (whole[2], view[2]) == (0, 2)
    assert nodes["aten::add_"]["outputs"]["values"] == [view]


def test_labels_tell_their_values(observer):
    observer.start()
    handle = torch.autograd._record_function_with_args_enter(
        "label", 1, False, float("inf"), [torch.ones(2)], (1, None), "text")
    torch.autograd._record_function_with_args_exit(handle)
    observer.stop()
    observer.unregister_callback()
    label = next(n for n in nodes_of(observer.get_output_file_path()) if n["name"] == "label")
    assert label["inputs"]["types"] == [
        "Int", "Bool", "Double", "GenericList[Tensor(float)]", "Tuple[Int,None]", "String"]
    assert label["inputs"]["values"][:3] == [1, False, "inf"]
    assert len(label["inputs"]["values"][3][0]) == 6


def test_a_profile_and_its_observer_number_calls_alike(observer, tmp_path):
    with profile(execution_trace_observer=observer) as prof, record_function("outer"):
        a = torch.ones(2, requires_grad=True)
        (a + a).sum().backward()
    assert not observer.is_registered and not observer.is_running()
    ours = {attribute(n, "rf_id"): n["name"] for n in nodes_of(observer.get_output_file_path())}
    ours.pop(0)  # the process and its thread
    prof.export_chrome_trace(str(tmp_path / "profile.json"))
    rows = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    theirs = {r["args"]["Record function id"]: r["name"] for r in rows
              if r.get("cat") in ("cpu_op", "user_annotation")}
    assert ours == theirs and "AddBackward0" in ours.values()


def test_only_what_runs_between_start_and_stop_is_written(observer):
    for i in range(4):
        (observer.start if i == 2 else observer.stop)()
        with record_function(f"step {i}"):
            torch.ones(2).exp()
    observer.unregister_callback()
    labels = [n["name"] for n in nodes_of(observer.get_output_file_path())
              if n["name"].startswith("step")]
    assert labels == ["step 2"]


def test_nothing_is_recorded_after_the_trace(observer):
    observer.start()
    observer.unregister_callback()
    before = torch.Tensor.exp.__code__
    torch.ones(2).exp()
    assert torch.Tensor.exp.__code__ is before
    assert torch.autograd.traces.recorder.Recording.target is None


def test_observers_of_the_environment(monkeypatch):
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    observer = ExecutionTraceObserver.build_execution_trace_obs_from_env()
    assert observer.is_registered and observer.get_output_file_path().endswith(".et.json")
