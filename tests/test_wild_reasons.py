"""Why PyTorch's tests fail here: a reason covers what names itself as absent, no wrong number."""

import sys
from pathlib import Path

import pytest

WILD = Path(__file__).resolve().parent / "wild"


@pytest.fixture
def reasons(monkeypatch):
    monkeypatch.syspath_prepend(str(WILD))
    monkeypatch.delitem(sys.modules, "outcomes", raising=False)
    from outcomes import Reasons

    yield Reasons(WILD / "reasons.toml")
    sys.modules.pop("outcomes", None)


@pytest.mark.parametrize("test", [
    "test_torch.py::TestTorch::test_qtensor_cpu_quint8",
    "quantization/core/test_quantized_op.py::TestQuantizedOps::test_max_pool2d_nhwc",
    "jit/test_list_dict.py::TestDict::test_pop",
    "test_nestedtensor.py::TestNestedTensor::test_nested_tensor_add",
])
def test_a_wrong_number_has_no_excuse(reasons, test):
    line = {"msg": "AssertionError: Tensor-likes are not close!",
            "tb": "y = torch.jit.script(f)(torch.quantize_per_tensor(x, 1.0, 0, torch.quint8))"}
    assert reasons.of(test, line)[0] == "open"


@pytest.mark.parametrize("message", [
    "NotImplementedError: torch.jit.ScriptModule.graph: flambeau has no TorchScript IR",
    "NotImplementedError: torch.jit.script: a call with unpacked arguments",
    "AttributeError: '_OpNamespace' 'onednn' object has no attribute 'qconv2d_pointwise'",
])
def test_what_names_itself_is_absent(reasons, message):
    assert reasons.of("test_jit.py::TestJit::test_it", {"msg": message})[0] == "absent"
