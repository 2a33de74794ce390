"""Debuggers and coverage tools see a compiled step's Python, also once a program is installed."""

import sys

import pytest

import flambeau as torch


def compiled_step():
    def step(x):
        y = x * 2
        return y + 1

    compiled = torch.compile(step, mode="now")
    for _ in range(3):
        compiled(torch.ones(3))
    assert compiled.ready
    return compiled, step.__code__


def trace_lines(call, code):
    """The lines of `code` that a trace function sees during a call."""
    lines = []

    def trace(frame, event, _):
        if frame.f_code is not code:
            return None
        if event == "line":
            lines.append(frame.f_lineno - code.co_firstlineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return result, lines


def test_a_trace_function_sees_the_lines_of_a_step_with_a_program():
    compiled, code = compiled_step()
    result, lines = trace_lines(lambda: compiled(torch.ones(3)), code)
    assert result.tolist() == [3, 3, 3] and lines == [1, 2]


def test_the_program_serves_again_afterwards(monkeypatch):
    compiled, code = compiled_step()
    trace_lines(lambda: compiled(torch.ones(3)), code)

    def eager(x):
        raise AssertionError("the program should serve this call")

    monkeypatch.setattr(compiled, "_function", eager)
    assert compiled(torch.ones(3)).tolist() == [3, 3, 3]


def test_methods_of_modules_are_seen_too():
    class Net(torch.nn.Module):
        def forward(self, x):
            return x * 3

    net = torch.compile(Net(), mode="now")
    for _ in range(3):
        net(torch.ones(2))
    result, lines = trace_lines(lambda: net(torch.ones(2)), Net.forward.__code__)
    assert result.tolist() == [3, 3] and lines == [1]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_a_coverage_tool_by_monitoring_sees_the_lines():
    compiled, code = compiled_step()
    monitoring, lines = sys.monitoring, []
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "test")
    try:
        monitoring.register_callback(
            monitoring.COVERAGE_ID, monitoring.events.LINE,
            lambda seen, line: lines.append(line - code.co_firstlineno) if seen is code else None)
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
        compiled(torch.ones(3))
    finally:
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        monitoring.free_tool_id(monitoring.COVERAGE_ID)
    assert lines == [1, 2]
