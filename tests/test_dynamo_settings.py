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


def test_explain_names_itself_and_what_there_is():
    with pytest.raises(NotImplementedError, match=r"torch\._dynamo\.explain") as caught:
        torch._dynamo.explain(abs)(torch.ones(1))
    assert "torch.compile(f).explain()" in caught.value.__notes__[0]


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
