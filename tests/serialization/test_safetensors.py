"""safetensors: both ways, the format's own layout, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau.serialization import safetensors


def test_round_trip(tmp_path):
    path = tmp_path / "x.safetensors"
    tensors = {
        "weight": torch.arange(6.0).reshape(2, 3), "half": torch.ones(3, dtype=torch.bfloat16),
        "mask": torch.tensor([True, False]), "none": torch.ones(0, 2), "one": torch.tensor(7),
    }
    safetensors.save_file(tensors, path, metadata={"format": "pt"})
    loaded = safetensors.load_file(path)
    assert set(loaded) == set(tensors)
    for name, tensor in tensors.items():
        assert loaded[name].dtype is tensor.dtype
        assert loaded[name].shape == tensor.shape
        assert loaded[name].tolist() == tensor.tolist()
    assert torch.load(path)["one"].item() == 7
    with safetensors.safe_open(path) as file:
        assert file.keys() == ["half", "mask", "none", "one", "weight"]
        assert file.metadata() == {"format": "pt"}
        assert file.get_tensor("half").tolist() == [1, 1, 1]
        with pytest.raises(safetensors.SafetensorError, match="does not contain"):
            file.get_tensor("absent")


def test_layout_on_disk():
    data = safetensors.save({"b": torch.ones(2), "a": torch.ones(1), "i": torch.tensor([5])})
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert size % 8 == 0
    assert header["i"] == {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}
    assert [header[n]["data_offsets"] for n in "ab"] == [[8, 12], [12, 20]]
    assert data[8 + size :] == np.int64(5).tobytes() + np.ones(3, np.float32).tobytes()


def test_refusals():
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match="non contiguous"):
        safetensors.save({"x": x.t()})
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save({"x": x, "y": x[0]})
    with pytest.raises(ValueError, match="expected torch"):
        safetensors.save({"x": 1})


def test_parts_of_one_memory_that_do_not_overlap():
    x = torch.arange(6.0).reshape(2, 3)
    loaded = safetensors.load(safetensors.save({"a": x[0], "b": x[1]}))
    assert loaded["b"].tolist() == [3, 4, 5]
    loaded["b"][0] = 9
    assert loaded["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", sorted(safetensors._FORMAT_DTYPES.values()))
def test_every_dtype_of_the_format_comes_back(dtype, tmp_path):
    tensor = torch.arange(5).to(getattr(torch, dtype))
    safetensors.save_file({"x": tensor, "scalar": tensor[1].clone()}, tmp_path / "x.safetensors")
    for loaded in (
        safetensors.load(safetensors.save({"x": tensor, "scalar": tensor[1].clone()})),
        safetensors.load_file(tmp_path / "x.safetensors"),
    ):
        assert loaded["x"].dtype is tensor.dtype
        assert loaded["x"].cfloat().tolist() == tensor.cfloat().tolist()
        assert loaded["scalar"].shape == ()
        loaded["x"].zero_()  # memory of its own, and writable


def test_the_package_is_imported_on_first_use():
    program = (
        "import sys, flambeau; from flambeau.serialization import safetensors as s;"
        "assert 'safetensors' not in sys.modules; s.SafetensorError;"
        "assert 'safetensors' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
