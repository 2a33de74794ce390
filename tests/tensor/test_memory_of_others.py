"""Memory that NumPy sees does not grow: the tensor would silently part from the array. Inference
tensors count no versions."""

from __future__ import annotations

import numpy as np
import pytest


def _shown(torch):
    x = torch.ones(3)
    x.numpy()
    return x


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("create", [
    lambda torch: torch.from_numpy(np.ones(3, np.float32)), _shown,
    lambda torch: torch.from_numpy(np.ones(6, np.float32)[1:4]),
    lambda torch: torch.as_tensor(np.ones(3, np.float32)),
    lambda torch: _shown(torch).view(3, 1),
])
def test_a_tensor_on_memory_of_others_does_not_grow(torch, create):
    for grow in (lambda x: x.resize_(9), lambda x: x.resize_as_(torch.ones(9)),
                 lambda x: torch.add(torch.ones(9), 1, out=x),
                 lambda x: x.untyped_storage().resize_(400)):
        with pytest.raises(RuntimeError, match="resize storage that is not resizable"):
            grow(create(torch))
    x = create(torch)
    assert not x.untyped_storage().resizable() and not x.storage().resizable()
    assert x.resize_(2).tolist() == [1, 1]


def test_other_memory_grows(torch):
    x = torch.ones(3)
    assert x.untyped_storage().resizable()
    assert x.resize_(5)[:3].tolist() == [1, 1, 1]


def test_inference_tensors_have_no_version(torch):
    with torch.inference_mode():
        x = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        print(x._version)
    assert torch.ones(2)._version == 0
    assert torch.ones(2).add_(1)._version == 1
