"""Settings of the library that a step reads or writes by functions of plain values."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import pytest

import flambeau as torch

from .source_scenes import compare_source

# By name: the step and its state, what happens between calls, what to look at.
SCENES = {
    "the_initial_seed": (
        """
        T.manual_seed(0)
        def f(x): return x * (T.initial_seed() % 10)
        """,
        "T.manual_seed(7)"),
    "the_dtype_of_autocast": (
        """
        T.set_autocast_dtype('cpu', T.bfloat16)
        def f(x): return x * T.get_autocast_dtype('cpu').itemsize, str(T.get_autocast_dtype('cpu'))
        """,
        "T.set_autocast_dtype('cpu', T.float32)"),
    "the_cache_of_autocast": (
        """
        T.set_autocast_cache_enabled(True)
        def f(x): return x * (2 if T.is_autocast_cache_enabled() else 3)
        """,
        "T.set_autocast_cache_enabled(False)"),
    "a_switch_of_attention": (
        """
        T.backends.cuda.enable_flash_sdp(True)
        def f(x): return x * (2 if T.backends.cuda.flash_sdp_enabled() else 3)
        """,
        "T.backends.cuda.enable_flash_sdp(False)"),
    "whether_distributions_check": (
        """
        T.distributions.Distribution.set_default_validate_args(True)
        def f(x): return x * (2 if T.distributions.Normal(0.0, 1.0)._validate_args else 3)
        """,
        "T.distributions.Distribution.set_default_validate_args(False)"),
    "anomaly_mode_set_by_the_step": (
        """
        T.autograd.set_detect_anomaly(False)
        def f(x):
            T.autograd.set_detect_anomaly(True)
            return x * 2
        """,
        "T.autograd.set_detect_anomaly(False)", "T.is_anomaly_enabled()"),
    "the_cache_of_autocast_set_by_the_step": (
        """
        T.set_autocast_cache_enabled(True)
        def f(x):
            T.set_autocast_cache_enabled(False)
            return x * 2
        """,
        "T.set_autocast_cache_enabled(True)", "T.is_autocast_cache_enabled()"),
    "checks_of_distributions_set_by_the_step": (
        """
        T.distributions.Distribution.set_default_validate_args(True)
        def f(x):
            T.distributions.Distribution.set_default_validate_args(False)
            return x * 2
        """,
        "T.distributions.Distribution.set_default_validate_args(True)",
        "T.distributions.Distribution._validate_args"),
    "states_that_the_step_drops": (
        """
        p = T.nn.Parameter(T.ones(2))
        optimizer = T.optim.Adam([p], 0.1)
        def f(x):
            optimizer.zero_grad()
            (p * x).sum().backward()
            optimizer.step()
            optimizer.state.clear()
            return p.detach().clone()
        """,
        "None", "len(optimizer.state)"),
    "how_modules_are_imported": (
        """
        import builtins, math
        before = getattr(builtins.__import__, 'before', builtins.__import__)
        builtins.__import__ = before
        def note(name, *more):
            if name == 'math': log.append(name)
            return before(name, *more)
        note.before = before
        def f(x):
            import math
            return x * math.pi
        """,
        "builtins.__import__ = note"),
}


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    yield
    torch.autograd.set_detect_anomaly(False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cache_enabled(True)
    torch.distributions.Distribution.set_default_validate_args(True)
    torch.backends.cuda.enable_flash_sdp(True)


@pytest.mark.parametrize("name", SCENES)
def test_settings_are_read_and_written_in_each_call(name: str) -> None:
    compare_source(*SCENES[name])
