"""Modules that are first imported while a step is recorded bind what recordings replace."""

import gc
import importlib
import sys
import warnings
import weakref

import flambeau as torch

SOURCE = """
from warnings import warn, warn_explicit

def complain(**options):
    warn("from inside", **options)
"""


def _import_in_a_step(tmp_path, monkeypatch, name):
    """Import a module in a recorded step; return it, and whether the step is ready."""
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)

    def function(x):
        importlib.import_module(name)
        return x * 2

    step = torch.compile(function, mode="now")
    for _ in range(4):
        step(torch.ones(3))
    return sys.modules.pop(name)


def test_they_do_not_keep_tensors_alive(tmp_path, monkeypatch):
    """Through `warnings.warn`, which recordings replace, and the recorder behind it."""
    gc.collect()
    outside = torch.ones(3)
    alive = weakref.ref(outside)
    module = _import_in_a_step(tmp_path, monkeypatch, "imported_meanwhile")
    del outside
    gc.collect()
    assert alive() is None
    assert module.warn is not warnings.warn  # bound during the recording


def test_their_warnings_name_the_same_lines(tmp_path, monkeypatch):
    module = _import_in_a_step(tmp_path, monkeypatch, "imported_meanwhile_too")
    for options, file in (({}, module.__file__), ({"stacklevel": 2}, __file__)):
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            module.complain(**options)
        assert [m.filename for m in messages] == [file]
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        module.warn_explicit("explicit", UserWarning, "a_file.py", 7)
    assert [(m.filename, m.lineno) for m in messages] == [("a_file.py", 7)]


def test_steps_that_warn_are_refused():
    def function(x):
        warnings.warn("in the step", UserWarning, 1)
        return x * 2

    step = torch.compile(function, options={"mode": "now", "follow": False})
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for _ in range(4):
            step(torch.ones(3))
    assert not step.ready
    assert "it warns" in step.explain()
