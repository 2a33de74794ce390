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
    with pytest.raises(TypeError, match="'warn_only' must be bool, not int"):
        torch.use_deterministic_algorithms(True, warn_only=1)
    with pytest.raises(TypeError, match=r"'mode' \(position 1\) must be bool, not int"):
        torch.use_deterministic_algorithms(1)
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


def test_what_would_be_scripted_stays_python():
    net = torch.nn.Linear(2, 2)
    for name in ("script_method", "ignore"):
        assert getattr(torch.jit, name)(net) is net
    assert torch.jit.script(net).weight is net.weight
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        torch.jit.optimize_for_inference(net)
    with pytest.raises(NotImplementedError, match="torch.jit.save"):
        torch.jit.save(abs, "script.pt")
    assert issubclass(torch.jit.ScriptModule, torch.nn.Module)
    assert not isinstance(net, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def test_conditions_that_programs_state():
    torch._assert(True, "x")
    with pytest.raises(AssertionError, match="hm"):
        torch._assert(torch.tensor(False), "hm")
    with pytest.raises(RuntimeError, match="hm"):
        torch._assert_async(torch.tensor(0), "hm")
    torch._check(True)
    kinds = {"": RuntimeError, "_index": IndexError, "_value": ValueError, "_type": TypeError,
             "_not_implemented": NotImplementedError}
    for name, kind in kinds.items():
        with pytest.raises(kind, match="two"):
            getattr(torch, f"_check{name}")(False, lambda: "two")
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        torch._check_is_size(-1)
    with pytest.raises(TypeError, match="cond must be a bool, but got a Tensor"):
        torch._check(torch.tensor(True))
    with pytest.raises(TypeError, match="message must be a callable"):
        torch._check(False, "hm")
    torch._check_tensor_all(torch.tensor([True]))
    with pytest.raises(TypeError, match="must have dtype torch.bool, but got torch.float32"):
        torch._check_tensor_all(torch.ones(1))
    with pytest.raises(ValueError, match="x"):
        torch._check_tensor_all_with(ValueError, torch.tensor([True, False]), lambda: "x")
    assert torch._shape_as_tensor(torch.zeros(2, 3)).tolist() == [2, 3]
    assert torch._is_all_true(torch.tensor([True])).item()


def test_autocast_settings_with_the_device_in_their_name():
    from flambeau.amp.device_names import NAMES

    wanted = {"get_autocast_cpu_dtype": torch.bfloat16, "get_autocast_gpu_dtype": torch.float16,
              "is_autocast_cpu_enabled": False}
    for name in NAMES:
        assert hasattr(torch, name)
    for name, value in wanted.items():
        with pytest.warns(DeprecationWarning, match=rf"torch.{name}\(\) is deprecated"):
            assert getattr(torch, name)() == value
    with pytest.warns(DeprecationWarning, match=r"set_autocast_enabled\('cpu', enabled\)"):
        torch.set_autocast_cpu_enabled(True)
    try:
        assert torch.is_autocast_enabled("cpu")
    finally:
        torch.set_autocast_enabled("cpu", False)


def test_numbers_as_tensors_without_axes():
    assert str(torch.scalar_tensor(True)) == "tensor(1.)"
    assert torch.scalar_tensor(2, dtype=torch.int64).dtype is torch.int64
    assert torch.scalar_tensor(2.0, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.scalar_tensor(2 + 1j)
    assert torch.resize_as_(torch.zeros(2), torch.ones(3, 2)).shape == (3, 2)


def test_operators_by_the_names_of_the_dispatcher():
    aten = torch.ops.aten
    x = torch.tensor([1.0, -2.0])
    assert aten.add.Tensor(x, x).tolist() == [2, -4]
    assert aten.relu.default(x).tolist() == [1, 0]
    assert {aten.cat.default: 1}[torch.ops.aten.cat.default] == 1
    assert "Scalar" in aten._foreach_maximum_.overloads()
    with pytest.raises(NotImplementedError, match=r"torch.ops.aten._pin_memory"):
        aten._pin_memory.default(x)


def test_what_programs_take_from_the_extension():
    assert torch._C._nn._parse_to("cpu", torch.float64) == (
        torch.device("cpu"), torch.float64, False, None)
    assert torch._C._get_tracing_state() is None
    assert torch._C._disabled_torch_function_impl(len, (), ([1],)) == 1
    assert issubclass(torch.Tensor, torch._C.TensorBase)
    assert not isinstance(3, (torch._C.Graph, torch._C.Value))


def test_annotations_of_what_is_lacking():
    lacking = torch.distributed.pipelining.PipelineStage
    assert (lacking | None) == (None | lacking)
    from flambeau.distributed.pipelining import PipelineStage

    assert not isinstance(torch.nn.Linear(1, 1), PipelineStage)
    with pytest.raises(NotImplementedError, match=r"torch.distributed.pipelining.Pipe"):
        PipelineStage()


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
    assert torch.overrides.has_torch_function([x, y])
    assert not torch.overrides.has_torch_function([x])


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
    torch.manual_seed(0)
    wide = make(2, 6, dtype=torch.float32)
    torch.manual_seed(0)
    assert torch.equal(make(2, 3, dtype=torch.float32, noncontiguous=True), wide[:, 1::2])
    assert bool(((x >= 1) & (x < 2)).all())
    assert bool((make(50, dtype=torch.int64, low=0, high=2, exclude_zero=True) == 1).all())
    assert make(2, dtype=torch.complex64).dtype is torch.complex64
    for limits, message in [
        ((1, 0.0), "`low` must be less than `high`, but got 1 >= 0.0"),
        ((float("nan"), 0), "`low` and `high` cannot be NaN"),
        ((-9, -5), r"is \[-9, -5\), but torch.uint8 only supports \[0, 256\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(2, dtype=torch.uint8, low=limits[0], high=limits[1])


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
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be"):
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


def test_private_names_of_modules_that_programs_import():
    from flambeau.nn.modules.conv import _ConvNd, _ConvTransposeNd
    from flambeau.nn.modules.transformer import _get_activation_fn, _get_clones

    assert isinstance(torch.nn.Conv2d(1, 1, 1), _ConvNd)
    assert isinstance(torch.nn.ConvTranspose1d(1, 1, 1), _ConvTransposeNd)
    assert _get_activation_fn("relu")(torch.tensor(-1.0)) == 0
    assert len(_get_clones(torch.nn.Linear(1, 1), 2)) == 2
    with pytest.raises(RuntimeError, match="activation should be relu/gelu"):
        _get_activation_fn("x")


def test_the_layout_of_onednn_is_named():
    assert isinstance(torch._mkldnn, torch.layout) and repr(torch._mkldnn) == "torch._mkldnn"
    assert torch.ones(2).layout != torch._mkldnn
