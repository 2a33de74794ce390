"""The torch namespace beside its operators: settings, small modules, and what they lack."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import flambeau as torch

ROOT = Path(__file__).resolve().parent.parent


def test_every_module_is_there_or_says_that_it_is_not():
    for name in torch._SUBMODULES:
        place = ROOT / "flambeau" / name
        if not place.is_dir() and not place.with_suffix(".py").exists():
            with pytest.raises(AttributeError, match="does not have"):
                getattr(torch, name)
            continue
        module = getattr(torch, name)
        for public in getattr(module, "__all__", ()):
            assert hasattr(module, public), f"{name}.{public}"
    for name in torch._ELSEWHERE:
        getattr(torch, name, None)


def test_settings_are_remembered():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_deterministic_debug_mode() == 1
    finally:
        torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="highest"):
        torch.set_float32_matmul_precision("low")
    assert torch.set_flush_denormal(True) is False
    assert torch.get_device_module("cpu") is torch.cpu


def test_anomaly_mode_can_be_set():
    torch.set_anomaly_enabled(True, check_nan=False)
    try:
        assert torch.is_anomaly_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    finally:
        torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()


def test_legacy_types():
    assert isinstance(torch.LongTensor([1]), torch.LongTensor)
    assert not isinstance(torch.ones(1), torch.LongTensor)
    storage = torch.FloatStorage([1.0, 2.0])
    assert (storage.tolist(), storage.dtype) == ([1.0, 2.0], torch.float32)
    assert isinstance(storage, torch.FloatStorage)
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor"
    torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert torch.ones(1).dtype is torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


def test_compile_gives_a_callable_that_stands_for_the_model():
    for compiled in (torch.compile(abs), torch.compile(mode="max-autotune")(abs)):
        assert compiled(-3) == 3
        assert compiled.__name__ == "abs"
    assert torch.compile(abs, disable=True) is abs
    assert not torch.compiler.is_compiling()
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(abs, mode="default", options={})


def test_scripting_is_refused_by_name():
    for name in ("script", "trace", "load"):
        with pytest.raises(NotImplementedError, match=f"torch.jit.{name}"):
            getattr(torch.jit, name)(abs)
    assert torch.jit.ignore(abs) is abs


def test_backends_remember_their_settings():
    cudnn = torch.backends.cudnn
    assert not cudnn.is_available()
    with cudnn.flags(benchmark=True):
        assert cudnn.benchmark
    assert not cudnn.benchmark
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = False
    assert not torch.backends.mps.is_available()
    assert not torch.backends.cuda.is_built()


def test_elements_by_python_functions():
    x = torch.tensor([[1, 2], [3, 4]])
    version = x._version
    assert x.apply_(lambda a: a + 1).tolist() == [[2, 3], [4, 5]]
    assert x._version == version + 1
    assert x.map_(torch.tensor([1, 10]), lambda a, b: a * b).tolist() == [[2, 30], [4, 50]]
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(1, requires_grad=True).apply_(abs)


def test_subclasses_by_conversion():
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2, requires_grad=True)
    y = x.as_subclass(Mine)
    assert type(y) is Mine
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert type(torch.Tensor._make_subclass(Mine, x.detach())) is Mine
    assert torch.overrides.is_tensor_like(y)
    assert not torch.overrides.has_torch_function([x, y])


def test_version_compares():
    version = torch.torch_version.TorchVersion("2.13.0+flambeau.0.1.0")
    assert version >= "2.13"
    assert version < (2, 14)
    assert version == "2.13.0"


def test_make_tensor():
    make = torch.testing.make_tensor
    x = make((2, 3), dtype=torch.float32, low=1, high=2, noncontiguous=True)
    assert x.shape == (2, 3)
    assert not x.is_contiguous()
    assert bool(((x >= 1) & (x < 2)).all())
    assert bool((make(50, dtype=torch.int64, low=0, high=2, exclude_zero=True) == 1).all())
    assert make(2, dtype=torch.complex64).dtype is torch.complex64


def test_assert_close():
    close = torch.testing.assert_close
    x = torch.tensor([1.0, 2.0])
    close({"a": [x, 1.0, None]}, {"a": [x + 1e-7, 1.0, None]})
    close(x, x.double(), check_dtype=False)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1 / 2 \(50.0%\)"):
        close(x, torch.tensor([1.0, 3.0]))
    with pytest.raises(AssertionError, match="'dtype' do not match"):
        close(x, x.double())
    with pytest.raises(AssertionError, match="'shape' do not match"):
        close(x, x[:1])
    with pytest.raises(AssertionError, match=r"item \[1\]"):
        close([1, 2], [1, 3])
    with pytest.raises(AssertionError, match="not close"):
        close(torch.tensor(float("nan")), torch.tensor(float("nan")))
    with pytest.raises(ValueError, match="rtol and atol"):
        close(x, x, rtol=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close(torch.tensor(float("nan")), torch.tensor(float("nan")), equal_nan=True)


def test_matmul_precision_is_remembered():
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("medium")
    try:
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_names_of_functions_inside_are_not_public():
    assert not hasattr(torch, "range_")
    assert not hasattr(torch.Tensor, "view_method")
    assert not hasattr(torch.Tensor, "legacy_type")
    assert torch.ones(1).type() == "torch.FloatTensor"


def test_typed_constructors_take_a_device():
    assert torch.FloatTensor([1, 2], device="cpu").tolist() == [1.0, 2.0]
