"""What all tests share: the library under test, and which warnings are no errors."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

# Machine code made by tests is kept apart from the user's.
os.environ.setdefault("FLAMBEAU_TRACEBACK", "full")  # whoever runs these tests works on flambeau
os.environ.setdefault("FLAMBEAU_CACHE_DIR", str(Path(tempfile.gettempdir()) / "flambeau-tests"))


def pytest_collection_finish():
    """What collecting made stays: garbage collections and recordings need not walk through it.

    The items of all tests are millions of objects; a recording takes 30 ns for each.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _numpy_may_compute_inf():
    """Inside flambeau NumPy's floating-point warnings are ignored, as importing it arranges."""
    warnings.filterwarnings(
        "ignore", category=RuntimeWarning, module=r"flambeau\.(ops|autograd|optim|train\.metrics)"
    )


@pytest.fixture(autouse=True)
def _no_faulty_kernels():
    """NumPy computes where a kernel's builder has a fault, so that values show nothing of it."""
    from flambeau.native.runtime import background_jit

    yield
    faults = dict(background_jit.failed_builds)
    background_jit.failed_builds.clear()
    assert not faults


@pytest.fixture(autouse=True)
def _ambient_modes_end_with_their_test():
    """A test that leaves gradients off would fail whichever test runs next in its process."""
    yield
    library = importlib.import_module("flambeau")
    left = {
        "gradients are off": not library.is_grad_enabled(),
        "inference mode is on": library.is_inference_mode_enabled(),
        "anomaly mode is on": library.is_anomaly_enabled(),
        "the default dtype is not float32": library.get_default_dtype() != library.float32,
    }
    library.set_grad_enabled(True)
    library.set_default_dtype(library.float32)
    assert not [name for name, is_left in left.items() if is_left]


@pytest.fixture(autouse=True)
def _no_signatures(monkeypatch):
    """How many calls are recorded does not depend on the tests that ran before."""
    name = "flambeau.compiler.trace.trace_signature._make_function_key"
    monkeypatch.setattr(name, lambda function: None)


@pytest.fixture(autouse=True, scope="module")
def _stubs_end_with_their_module():
    """Overriding classes that one file meets leave no stubs in public functions for the next.

    FLAMBEAU_TEST_STUBS=1 runs every file with the stubs.
    """
    routes = _stub_routes()
    if os.environ.get("FLAMBEAU_TEST_STUBS") and routes:
        routes[0].permanent = True
        routes[0].update()
    yield
    for route in _stub_routes():
        if route.permanent:
            route.permanent = False
            route.update()


def _stub_routes():
    """What puts stubs into public functions, as far as it is imported."""
    if os.environ.get("FLAMBEAU_TEST_STUBS"):
        importlib.import_module("flambeau.ops.interception.torch_function")
    names = ("torch_function", "ROUTES"), ("torch_dispatch", "STUBS")
    modules = [(sys.modules.get(f"flambeau.ops.interception.{file}"), name) for file, name in names]
    return [getattr(module, name) for module, name in modules if module is not None]


@contextmanager
def _without_stubs():
    """Public functions without the stubs that they wear once an overriding class or a sparse
    tensor was met."""
    from flambeau.ops.interception import (
        code_patching, torch_dispatch, torch_function, window_stubs,
    )

    if os.environ.get("FLAMBEAU_TEST_STUBS"):
        yield
        return
    routes = (torch_function.ROUTES, torch_dispatch.STUBS)
    before = [route.permanent for route in routes]
    code_patching.restore_stubs()  # of the last followed call
    window_stubs.STUBS.suspend()
    for route in routes:
        route.permanent = False
        route.update()
    yield
    for route, permanent in zip(routes, before, strict=True):
        route.permanent = route.permanent or permanent
        route.update()
    window_stubs.STUBS.restore()


@pytest.fixture
def plain_functions():
    """Public functions without stubs, for one test."""
    with _without_stubs():
        yield


@pytest.fixture(scope="module")
def plain_functions_of_a_module():
    """The same for all tests of a file."""
    with _without_stubs():
        yield


@pytest.fixture(params=["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def torch(request):
    """The library under test, seeded: flambeau always, PyTorch itself where it is installed.

    Tests that take it so run against PyTorch too, which checks the tests.
    """
    if request.param == "torch":
        library = pytest.importorskip("torch")
    else:
        library = importlib.import_module("flambeau")
    library.manual_seed(0)
    yield library
    library.set_default_dtype(library.float32)
    library.set_grad_enabled(True)
    library.autograd.set_detect_anomaly(False)
    library.set_printoptions(profile="default")
