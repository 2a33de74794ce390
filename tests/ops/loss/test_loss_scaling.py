"""The functions of loss scaling: gradients are divided, overflow is noticed, the scale adapts."""

from __future__ import annotations

import pytest


def test_gradients_are_unscaled_and_overflow_stays_noticed(torch):
    overflow, half = torch.zeros(1), torch.tensor(0.5)
    grads = [torch.tensor([2., 4.]), torch.ones(3, dtype=torch.float16)]
    assert torch._amp_foreach_non_finite_check_and_unscale_(grads, overflow, half) is None
    assert overflow.item() == 0
    assert grads[0].tolist() == [1., 2.] and grads[1].tolist() == [0.5] * 3
    grads.append(torch.tensor([float("nan")]))
    torch._amp_foreach_non_finite_check_and_unscale_(grads, overflow, half)
    torch._amp_foreach_non_finite_check_and_unscale_(grads[:2], overflow, half)
    assert overflow.item() == 1


def test_the_scale_adapts(torch):
    scale, steps = torch.tensor(8.), torch.tensor(0, dtype=torch.int32)

    def update(flag):
        assert torch._amp_update_scale_(scale, steps, torch.tensor(flag), 2., 0.5, 2) is scale
        return scale.item(), steps.item()

    assert [update(0.), update(0.), update(1.), update(0.)] == [(8, 1), (16, 0), (8, 0), (8, 1)]
    scale.fill_(3e38)
    assert update(0.) == (pytest.approx(3e38), 0)  # it would be infinite


def test_refusals(torch):
    grads, overflow, scale = [torch.ones(2)], torch.zeros(1), torch.tensor(0.5)
    check, update = torch._amp_foreach_non_finite_check_and_unscale_, torch._amp_update_scale_
    for arguments, message in [
        ((grads, torch.zeros(2), scale), "found_inf must be a 1-element tensor."),
        ((grads, overflow.double(), scale), "found_inf must be a float tensor."),
        ((grads, overflow, torch.ones(2)), "inv_scale must be a 1-element tensor."),
    ]:
        with pytest.raises(RuntimeError, match=message):
            check(*arguments)
    with pytest.raises(NotImplementedError, match="unscale_cpu\" not implemented for 'Long'"):
        check([torch.tensor([1])], overflow, scale)
    steps = torch.tensor(1, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="growth_tracker must be an int tensor."):
        update(scale, steps.long(), overflow, 2., 0.5, 2)
    with pytest.raises(RuntimeError, match="current_scale must be a float tensor."):
        update(scale.double(), steps, overflow, 2., 0.5, 2)
