"""Habits that profiles show: `torch.profiler._pattern_matcher`, on flambeau and on PyTorch."""

from __future__ import annotations

import json
import types


class Event(types.SimpleNamespace):
    __hash__ = object.__hash__


def count(torch, pattern, program, **options):
    with torch.profiler.profile(with_stack=True, **options) as prof:
        program()
    return len(pattern(prof).matched_events())


def patterns_of(torch):
    import importlib

    return importlib.import_module(f"{torch.__name__}.profiler._pattern_matcher")


def test_loops_over_rows(torch):
    x = torch.ones(40, 40)

    def write():
        for i in range(40):
            x[i] = i

    def read():
        total = 0
        for i in range(40):
            total += x[i]

    def write_slices():
        for i in range(40):
            x[i, :] = torch.arange(40) + i

    def multiply():
        y = x
        for _ in range(40):
            y = y @ x

    pattern = patterns_of(torch).ForLoopIndexingPattern
    assert [count(torch, pattern, f) for f in (write, read, write_slices, multiply)] == [1, 1, 1, 0]


def test_products_are_found_by_their_names(torch):
    x = torch.ones(8, 8)
    with torch.profiler.profile() as prof:
        for _ in range(3):
            x = x @ x
            x = x + x
    pattern = patterns_of(torch).NamePattern(prof, "aten::mm")
    assert [event.name for event in pattern.matched_events()] == ["aten::mm"] * 3
    first, second = [e for e in pattern.event_tree if e.name == "aten::matmul"][:2]
    assert pattern.root_of(pattern.matched_events()[0]) is first
    assert pattern.next_of(pattern.next_of(first)) is second
    assert pattern.prev_of(second).name == "aten::add"
    assert pattern.siblings_of(first)[1][0].name == "aten::add"


def test_gradients_that_are_filled_with_zeros(torch):
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(end):
        model(torch.ones(2, 3)).sum().backward()
        end()

    pattern = patterns_of(torch).GradNotSetToNonePattern
    for owner in (optimizer, model):
        for to_none in (True, False):
            program = lambda o=owner, t=to_none: step(  # noqa: E731
                lambda: o.zero_grad(set_to_none=t))
            assert count(torch, pattern, program) == (not to_none)


def test_biases_before_batch_normalization(torch):
    nn, x = torch.nn, torch.randn(1, 3, 8, 8)
    pattern = patterns_of(torch).Conv2dBiasFollowedByBatchNorm2dPattern

    def matches(*layers):
        model = nn.Sequential(*layers)
        return count(torch, pattern, lambda: model(x), record_shapes=True)

    assert matches(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)) == 1
    assert matches(nn.Conv2d(3, 3, 3, bias=False), nn.BatchNorm2d(3)) == 0
    assert matches(nn.Conv2d(3, 3, 3), nn.ReLU()) == 0


def test_steps_of_single_tensors_and_loaders_without_workers(torch):
    model = torch.nn.Linear(3, 3)

    def steps(**options):
        optimizer = torch.optim.Adam(model.parameters(), **options)

        def program():
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()

        return count(torch, patterns_of(torch).OptimizerSingleTensorPattern, program)

    assert (steps(), steps(foreach=True)) == (1, 0)
    loader = torch.utils.data.DataLoader(torch.ones(6, 2), batch_size=2)
    pattern = patterns_of(torch).SynchronizedDataLoaderPattern
    assert count(torch, pattern, lambda: list(loader)) == 1


def test_a_report_names_lines(torch, tmp_path, capsys):
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.BatchNorm2d(1))
    with torch.profiler.profile(with_stack=True, record_shapes=True) as prof:
        model(torch.ones(1, 1, 2, 2))
    patterns_of(torch).report_all_anti_patterns(prof, json_report_dir=str(tmp_path))
    report = json.loads((tmp_path / "torchtidy_report.json").read_text())
    entries = next(v for k, v in report.items() if k.endswith("test_patterns.py"))
    assert sorted(entries[0]) == ["line_number", "message", "name", "url"]
    assert "Enabling Bias in Conv2d" in capsys.readouterr().out


def test_events_where_another_devices_queue_ran_empty(torch):
    def kernel(name, start, duration, correlation, device):
        return Event(
            name=name, start_ns=lambda: start * 1000, duration_ns=lambda: duration * 1000,
            linked_correlation_id=lambda: correlation,
            device_type=lambda: torch.profiler._utils.DeviceType(device))

    def call(name, number, start, duration):
        return Event(
            name=name, id=number, children=[], parent=None, start_time_ns=start * 1000,
            end_time_ns=(start + duration) * 1000, duration_time_ns=duration * 1000)

    launches = [kernel("cudaLaunchKernel", 100 * i, 100, i, 0) for i in range(6)]
    kernels = [kernel("GPU", 600 + 100 * i, 100, i, 1) for i in range(6)]
    calls = [call("busy", 1, 0, 500), call("falling", 2, 600, 300), call("end", 3, 900, 900)]
    results = types.SimpleNamespace(events=lambda: launches + kernels,
                                    experimental_event_tree=lambda: calls)
    result = torch.profiler._utils.BasicEvaluation(types.SimpleNamespace(kineto_results=results))
    names = [key.event.name for key in result.get_optimizable_events(2, print_enable=False)]
    assert names == ["end", "falling"]


def test_functions_of_threads_that_ran_before(torch):
    import threading

    begin, end, gate = threading.Barrier(3), threading.Barrier(3), threading.Event()

    def work():
        def already_running():
            begin.wait()

        def called_meanwhile():
            return torch.ones(2) + 1

        already_running()
        called_meanwhile()
        end.wait()
        gate.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    with torch.profiler.profile(with_stack=True) as prof:
        begin.wait()
        end.wait()
    gate.set()
    for thread in threads:
        thread.join()
    tree = prof.profiler.kineto_results.experimental_event_tree()
    fields = torch._C._profiler._ExtraFields_PyCall
    calls = [e for e in torch.profiler._utils.traverse_dfs(tree)
             if isinstance(e.extra_fields, fields)]
    for name in ("already_running", "called_meanwhile"):
        assert len({e.start_tid for e in calls if name in e.name}) == 2


def test_module_calls_are_python_calls_only_in_threads_that_ran_before(torch):
    import threading

    layer, fields = torch.nn.Linear(2, 2), torch._C._profiler._ExtraFields_PyCall
    for in_new_thread in (False, True):
        with torch.profiler.profile(with_stack=True) as prof:
            work = threading.Thread(target=layer, args=(torch.ones(1, 2),))
            if in_new_thread:
                work.start()
                work.join()
            else:
                work.run()
        tree = prof.profiler.kineto_results.experimental_event_tree()
        calls = [e for e in torch.profiler._utils.traverse_dfs(tree)
                 if "nn.Module" in e.name and isinstance(e.extra_fields, fields)]
        assert len(calls) == (not in_new_thread)


def test_which_profiler_is_on(torch):
    kinds = torch._C._profiler.ActiveProfilerType
    with torch.autograd.profiler_legacy.profile() as prof:
        assert torch._C._autograd._profiler_type() == kinds.LEGACY
        torch.ones(2) + 1
    assert "aten::add" in [event.key for event in prof.key_averages()]
    assert torch._C._autograd._profiler_type() == kinds.NONE
