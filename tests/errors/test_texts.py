"""What errors say: PyTorch's type and text, and below it a note on what to do."""

from __future__ import annotations

import importlib
import inspect
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

SOURCES = [Path(__file__).with_name(name) for name in ("mistakes.py", "argument_mistakes.py")]


def mistakes(package: str) -> dict[str, FunctionType]:
    """The functions of both files of mistakes, on a package."""
    torch = importlib.import_module(package)
    space: dict[str, Any] = {
        "torch": torch, "nn": torch.nn, "F": torch.nn.functional, "__name__": f"on_{package}",
        "D": importlib.import_module(f"{package}.distributions"),
        "DataLoader": importlib.import_module(f"{package}.utils.data").DataLoader,
    }
    for source in SOURCES:
        exec(compile(source.read_text(), str(source), "exec"), space)
    return {name: f for name, f in space.items() if inspect.isfunction(f)}


def raised(function: FunctionType) -> BaseException:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function()
        except Exception as error:
            return error
    raise AssertionError("nothing was raised")


NAMES = list(mistakes("flambeau"))


@pytest.fixture(scope="module")
def ours() -> dict[str, FunctionType]:
    return mistakes("flambeau")


@pytest.fixture(scope="module")
def theirs() -> dict[str, FunctionType]:
    pytest.importorskip("torch")
    return mistakes("torch")


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_text_is_pytorchs(name, ours, theirs):
    own, other = raised(ours[name]), raised(theirs[name])
    assert str(own) == str(other)
    assert type(own).__name__ == type(other).__name__


# What the note names, by mistake.
NOTES = {
    "pad_away": "Axis 2 of [1, 1, 3]",
    "ctc_lengths": "2 samples and 3 lengths",
    "opt_nonleaf": "detach().requires_grad_()",
    "mask_float": "mask.bool()",
    "where_float": "condition.bool()",
    "one_hot_dtype": "tensor.long()",
    "emb_float": "indices.long()",
    "to_dtype_name": "torch.float32",
    "numpy_of_list": "torch.tensor() takes a list",
    "parameter_replaced": "self.weight.data.copy_(...)",
    "truth_of_many": "x.any()",
    "view_t": "(3, 2) as (6,)",
    "inplace": "written in place at",
    "twice": "an earlier backward()",
    "nograd_argmax": "argmax()",
    "nograd_ctx": "no_grad()",
    "nograd_item": "torch.tensor()",
    "nograd_detach": "detach()",
    "emptyparams": "nn.ModuleList",
    "embedding": "index 3 of a table of 3 rows",
    "ce_target": "with 20 classes they run from 0 to 19",
    "ce_target1": "target - 1",
    "linear": "In 2: Linear(in_features=4",
    "linear_img784": "x.flatten(1)",
    "dtypes": "x.to(torch.float32)",
    "cuda": "torch.cuda.is_available()",
    "prefix": "removeprefix('module.')",
    "bn1": "drop_last=True",
    "label_float": "target.long()",
    "label_int32": "target.long()",
    "label_n1": "target.squeeze(1)",
    "label_onehot_long": "target.float()",
    "bcel_long": "target.float()",
    "bce_long": "target.float()",
    "bce_shape": "target.unsqueeze(1)",
    "bcel_shape": "target.unsqueeze(1)",
    "bce_range": "binary_cross_entropy_with_logits",
    "bce_range_target": "They run from",
    "leaf_inplace": "torch.no_grad()",
    "swapped": "swapped",
    "swapped_nll": "swapped",
    "losscls": "nn.CrossEntropyLoss()(",
    "vector": "reduce it first",
    "uneven": "dataset[1]",
    "nonesample": "dataset[2] is None",
    "conv_last": "permute(0, 3, 1, 2)",
    "conv_ch2": "In 1: Conv2d(",
    "add_shape": "In add of",
}


@pytest.mark.parametrize("name", NOTES)
def test_note_says_what_to_do(name, ours):
    notes = "\n".join(getattr(raised(ours[name]), "__notes__", []))
    assert NOTES[name] in notes


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("kw", "attr_"))])
def test_the_name_that_was_meant(name, ours):
    from flambeau.native.foundation.call_advice import advise

    error = raised(ours[name])
    advise(error, error.__traceback__)
    notes = getattr(error, "__notes__", [])
    far = ("kwdropout", "kwtel", "attr_net2")  # unlike what was meant
    assert bool(notes) is (name not in far), notes
