"""torch._dynamo.config and its like: settings are taken, and patched for a while."""

from __future__ import annotations

import importlib

import pytest

import flambeau as torch


def test_patched_settings_go_back():
    config = torch._dynamo.config
    config.suppress_errors = True
    with config.patch(suppress_errors=False, verbose=True), config.patch("cache_size_limit", 3):
        assert (config.suppress_errors, config.verbose, config.cache_size_limit) == (False, True, 3)

    @config.patch({"suppress_errors": None})
    def seen():
        return config.suppress_errors

    assert seen() is None
    assert (config.suppress_errors, config.verbose) == (True, False)
    config.suppress_errors = False


@pytest.mark.parametrize("name", ["_dynamo", "_functorch", "_inductor"])
def test_settings_are_modules_that_programs_import(name):
    config = importlib.import_module(f"flambeau.{name}.config")
    assert config is getattr(torch, name).config


def test_settings_have_the_defaults_of_pytorch():
    assert max(torch._dynamo.config.recompile_limit, 4) == 8
    assert torch._dynamo.config.accumulated_cache_size_limit == 256
    assert torch._dynamo.config.suppress_errors is False
    assert torch._inductor.config.fx_graph_cache is True
    assert torch._inductor.config.max_autotune_gemm_backends == "ATEN,TRITON,CPP"
    assert torch._functorch.config.activation_memory_budget == 1.0


def test_second_names_set_the_same():
    with torch._dynamo.config.patch(cache_size_limit=64):
        assert torch._dynamo.config.recompile_limit == 64
    assert torch._dynamo.config.cache_size_limit == 8


def test_groups_of_settings_are_taken_and_patched():
    config = torch._inductor.config
    assert (config.triton.unique_kernel_names, config.triton.cudagraphs) == (True, False)
    with config.patch({"triton.cudagraphs": True, "coordinate_descent_tuning": True}):
        assert config.triton.cudagraphs and config.coordinate_descent_tuning
    assert not (config.triton.cudagraphs or config.coordinate_descent_tuning)
    config.triton.of_a_later_version = 3
    assert config.triton.of_a_later_version == 3
    del config.triton.of_a_later_version
    assert config.cuda.arch is None
    torch._inductor.cudagraph_mark_step_begin()


def test_explain_counts_the_places_where_python_reads_values():
    layer = torch.nn.Linear(3, 3)

    def branches(x):
        y = layer(x)
        if y.sum() > 0:
            y = y + 1
        return y.relu()

    found = torch._dynamo.explain(branches)(torch.ones(2, 3))
    assert (found.graph_count, found.graph_break_count, len(found.break_reasons)) == (2, 1, 1)
    assert "reads a tensor's values" in found.break_reasons[0].reason
    assert found.break_reasons[0].user_stack[0].lineno == branches.__code__.co_firstlineno + 2
    assert "Graph Break Count: 1" in str(found)
    assert torch._dynamo.explain(layer)(torch.ones(2, 3)).graph_break_count == 0
    read_last = torch._dynamo.explain(lambda x: layer(x).sum().item())(torch.ones(2, 3))
    assert (read_last.graph_count, read_last.graph_break_count) == (1, 0)
    assert torch._dynamo.explain(lambda x: x[x > 0] + 1)(torch.ones(3)).graph_count == 2
    with pytest.raises(NotImplementedError, match="graphs is not implemented"):
        found.graphs  # noqa: B018


def test_settings_of_the_compiler_are_those_of_the_tracer():
    settings = importlib.import_module("flambeau.compiler.config")
    tracer = torch._dynamo.config
    assert settings.recompile_limit == tracer.recompile_limit
    before = settings.capture_scalar_outputs
    try:
        settings.capture_scalar_outputs = True
        assert tracer.capture_scalar_outputs
    finally:
        settings.capture_scalar_outputs = before
    assert settings.job_id is None
    assert settings.force_disable_caches is False
    assert not hasattr(settings, "no_such_setting")
