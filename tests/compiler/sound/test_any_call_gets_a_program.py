"""The proof alone permits: scenes in which each proved call gets a program, worth it or not."""

from __future__ import annotations

import pytest

from flambeau.compiler.driver import call_recorder
from flambeau.compiler.driver.call_recorder import CallRecorder

from . import (
    test_ambient_and_hooks, test_code_and_modules, test_containers_and_outputs,
    test_counted_state, test_idioms, test_lookup, test_more_effects, test_names,
    test_python_effects, test_python_state, test_special_methods, test_tensor_state,
    test_training_state, test_written_state,
)
from .scenario import compare

MODULES = (
    test_ambient_and_hooks, test_code_and_modules, test_containers_and_outputs,
    test_counted_state, test_idioms, test_lookup, test_more_effects, test_names,
    test_python_effects, test_python_state, test_special_methods, test_tensor_state,
    test_training_state, test_written_state,
)
SCENES = {f"{module.__name__.rpartition('_')[2]}: {name}": make for module in MODULES
          for name, make in getattr(module, "SCENES", {}).items()}
USUAL = [name for k, name in enumerate(SCENES) if k % 12 == 0]


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """Programs are built of all calls that a program can be checked against."""
    monkeypatch.setattr(CallRecorder, "_is_worth_building",
                        lambda *args: args[2].values or args[2].deferred is not None)
    monkeypatch.setattr(call_recorder, "MAX_UNUSED_PROGRAMS", 100)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize("name", [
    name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in SCENES])
def test_scenes_hold_by_the_proof_alone(name, mode):
    for change_at in (1, 3):
        compare(SCENES[name], mode, change_at, follow=False)
