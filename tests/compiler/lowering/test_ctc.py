"""CTC is called from compiled programs as it is; the rest of the step is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_is_called_as_it_is(flat: bool, tensors: bool, reduction: str) -> None:
    lengths: Any = ((12, 11), (4, 3))
    if tensors:
        lengths = tuple(torch.tensor(length) for length in lengths)

    def step(x: Any, target: Any, times: Any, counts: Any) -> Any:
        x = x.detach().requires_grad_(True)
        losses = F.ctc_loss(F.log_softmax(x, 2), target, times, counts, reduction=reduction,
                            zero_infinity=True)
        losses.sum().backward()
        return losses.detach(), x.grad + 0

    compiled = torch.compile(step, mode="now")
    for _ in range(5):
        target = torch.randint(1, 6, (7,) if flat else (2, 4))
        inputs = torch.randn(12, 2, 6), target, *lengths
        for actual, expected in zip(compiled(*inputs), step(*inputs), strict=True):
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    assert len(compiled._programs) == 1
    if tensors:  # lengths are values, which another call may have others of
        inputs = inputs[0], inputs[1], torch.tensor((10, 9)), lengths[1]
        for actual, expected in zip(compiled(*inputs), step(*inputs), strict=True):
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
        with pytest.raises(RuntimeError, match="input_lengths"):
            compiled(inputs[0], inputs[1], torch.tensor((13, 9)), lengths[1])
