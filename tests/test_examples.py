"""Every public name shows how it is used: its docstring has an example, or names one that has.

The examples themselves are run by test_docs.py, and those of operators by ops/test_registry.py.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

import flambeau as torch
from flambeau.ops.core.operator import PUBLIC

# What has no example yet. A list may only become shorter: a name that has one leaves it.
WITHOUT = {
    "": """
        AcceleratorError BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage
        ByteTensor CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage
        DisableTorchFunction DoubleStorage DoubleTensor FloatStorage FloatTensor HalfStorage
        HalfTensor IntStorage IntTensor LongStorage LongTensor OutOfMemoryError QInt32Storage
        QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage ScriptModule
        ShortStorage ShortTensor SymBool SymFloat autocast_decrement_nesting
        autocast_increment_nesting clear_autocast_cache empty_quantized get_autocast_cpu_dtype
        get_autocast_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype
        get_autocast_xla_dtype is_autocast_cache_enabled is_autocast_cpu_enabled
        is_autocast_enabled is_autocast_ipu_enabled is_autocast_xla_enabled quantized_gru
        quantized_lstm
        set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
        set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype
        set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype
        set_autocast_xla_enabled""",
    "nn": "Container",
    "utils.checkpoint": "CheckpointFunction DefaultDeviceType",
    "serialization": "StorageType",
    "train": "MLflowLogger WandbLogger",  # which need the services' packages
}
COMPLETE = """
    nn.functional nn.init nn.parameter nn.utils nn.utils.rnn nn.utils.prune nn.utils.parametrize
    nn.utils.parametrizations optim optim.lr_scheduler optim.swa_utils linalg fft special autograd
    autograd.functional func utils.data amp distributions signal.windows random masked compiler
    train.metrics testing""".split()
NAMESPACES = [*WITHOUT, *COMPLETE]

# "`relu` in place.", "Like `view`, ...", "Deprecated in favor of `normal_`."
# "NotImplementedError: flambeau does not have it yet."
RAISES = re.compile(r"^\w+Error: ")
POINTER = re.compile(r"^(?:Like|Deprecated in favor of) `(\w+)`|^`(\w+)` in place")


def documented(space: str) -> Iterator[tuple[str, str]]:
    """The functions and classes of a namespace, with their docstrings."""
    module = importlib.import_module(f"flambeau.{space}".rstrip("."))
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name, None)
        of_flambeau = (getattr(value, "__module__", None) or "").startswith(("flambeau", "torch"))
        if name[0] != "_" and callable(value) and not inspect.ismodule(value) and of_flambeau:
            yield name, value.__doc__ or ""


def shows(space: str, docstring: str) -> bool:
    """Whether there is an example, here or under the name that the docstring says to look under."""
    if ">>>" in docstring or RAISES.match(docstring):
        return True
    match = POINTER.match(docstring)
    if match is None:
        return False
    name = match[1] or match[2]
    places = [importlib.import_module(f"flambeau.{space}".rstrip(".")), torch, torch.Tensor]
    return any(">>>" in (getattr(getattr(p, name, None), "__doc__", "") or "") for p in places)


@pytest.mark.parametrize("space", NAMESPACES)
def test_names_without_examples_are_those_listed(space: str) -> None:
    missing = [name for name, docstring in documented(space) if not shows(space, docstring)]
    assert missing == WITHOUT.get(space, "").split(), "give it an example, or take it off the list"


def test_what_tensors_have_shows_how_it_is_used() -> None:
    """Methods and properties; flags such as `is_xla` say by their name what they are."""
    docstrings = {n: getattr(torch.Tensor, n).__doc__ for n in dir(torch.Tensor) if n[0] != "_"}
    functions = {n: f.__doc__ for n, f in PUBLIC["Tensor"].items()}
    documented = {n: d for n, d in {**docstrings, **functions}.items() if d}
    assert len(documented) > 500
    assert [n for n, docstring in documented.items() if not shows("", docstring)] == []


@pytest.mark.parametrize("space", NAMESPACES)
def test_a_docstring_opens_with_one_sentence(space: str) -> None:
    for name, docstring in documented(space):
        if name not in WITHOUT.get(space, "").split():
            first = inspect.cleandoc(docstring).partition("\n\n")[0].partition(">>>")[0].strip()
            assert first.endswith((".", ":")), f"{name}: {first}"
