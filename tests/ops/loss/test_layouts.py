"""The strides of unreduced losses follow their operands, as those of pointwise operators."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_unreduced_loss_has_the_order_of_its_input(torch, name):
    x, y = torch.randn(4, 3, 2).permute(2, 0, 1), torch.randn(2, 4, 3)
    loss = getattr(torch.nn.functional, name)(x, y, reduction="none")
    assert loss.stride() == (x - y).stride() == (1, 6, 2)
