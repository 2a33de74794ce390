"""Mixed precision: autocast casts what PyTorch's does; GradScaler skips steps that overflow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.amp.autocast_mode import _cast, is_autocast_enabled

F = nn.functional


def test_products_and_losses_in_a_region():
    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(x, x)
        assert (x @ x).dtype is torch.bfloat16
        assert torch.mm(x, x).dtype is torch.bfloat16
        assert (x + x).dtype is torch.float32
        assert (x.double() @ x.double()).dtype is torch.float64
        assert torch.cat([x, y]).dtype is torch.float32
        loss = F.mse_loss(y, y * 2)
        assert is_autocast_enabled("cpu")
    assert (y.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
    assert (x @ x).dtype is torch.float32
    loss.backward()
    assert x.grad is not None
    assert x.grad.dtype is torch.float32


def test_regions_nest_and_decorate():
    x = torch.ones(2, 2)

    @torch.autocast("cpu")
    def product():
        with torch.autocast("cpu", enabled=False):
            assert torch.mm(x, x).dtype is torch.float32
        return x @ x

    assert product().dtype is torch.bfloat16
    assert not is_autocast_enabled("cpu")


def test_devices_and_dtypes_that_it_cannot_serve():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        region = torch.autocast("cuda")
    with region:
        assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype is torch.float32
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        torch.autocast("cpu", dtype=torch.float64)
    with pytest.raises(RuntimeError):
        torch.autocast("meta")


def test_losses_and_borders_by_pytorchs_lists(torch):
    f = torch.nn.functional
    x = torch.rand(3, 4, dtype=torch.bfloat16)
    images = torch.rand(2, 3, 4, 4, dtype=torch.bfloat16)
    ones = torch.ones(3, dtype=torch.bfloat16)
    full = [
        lambda: torch.poisson_nll_loss(x, x, True, False, 1e-8, 1),
        lambda: torch.kl_div(x, x, 1),
        lambda: torch.cosine_embedding_loss(x, x, ones),
        lambda: torch.hinge_embedding_loss(x, torch.ones(4)),
        lambda: torch.margin_ranking_loss(ones, ones, ones),
        lambda: torch.triplet_margin_loss(x, x, x),
        lambda: torch.binary_cross_entropy_with_logits(x, x),
        lambda: f.pad(images[0], (1, 1), mode="reflect"),
        lambda: f.pad(images, (1, 1, 1, 1), mode="replicate"),
        lambda: torch._C._nn.reflection_pad1d(images[0], (1, 1)),
    ]
    same = [lambda: f.pad(images, (1, 1, 1, 1), mode="circular"), lambda: f.pad(images, (1, 1)),
            lambda: f.pad(images[:, None], (1, 1, 1, 1, 1, 1), mode="reflect")]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert [str(loss().dtype) for loss in full] == ["torch.float32"] * len(full)
        assert [str(border().dtype) for border in same] == ["torch.bfloat16"] * len(same)
        w = torch.rand(4, 4)
        assert torch._addmm_activation(w, w, w, use_gelu=True).dtype is torch.bfloat16
    product = torch.addmm(w, w, w)
    torch.testing.assert_close(torch._addmm_activation(w, w, w), f.relu(product))


def _step(scaler, gradient):
    w = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler.scale((w * gradient).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return w.item()


def test_casts_of_containers():
    half, double = torch.bfloat16, torch.ones(1, dtype=torch.float64)
    array = np.ones(2, np.float32)
    value = {"x": torch.ones(1), "pair": (double, [torch.ones(1)]), "s": "text", "b": b"bytes",
             "array": array, "set": {torch.ones(1)}, "n": 3}
    cast = _cast(value, "cpu", half)
    assert cast["x"].dtype is half
    assert cast["pair"][0] is double
    assert cast["pair"][1][0].dtype is half
    assert (cast["s"], cast["b"], cast["n"]) == ("text", b"bytes", 3)
    assert cast["array"] is array
    assert [x.dtype for x in cast["set"]] == [half]
    assert isinstance(cast["set"], Iterator)
    assert _cast(value["x"], "cuda", half) is value["x"]


def test_scaler():
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    assert _step(scaler, 0.25) == 0.75
    assert scaler.get_scale() == 8.0
    assert _step(scaler, float("inf")) == 1.0
    assert scaler.get_scale() == 4.0
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0


def test_scaler_without_its_device_does_nothing():
    with pytest.warns(UserWarning, match="not available"):
        scaler = torch.amp.GradScaler()
    assert not scaler.is_enabled()
    assert _step(scaler, 0.25) == 0.75
    assert scaler.state_dict() == {}


@pytest.mark.parametrize("overflows", [False, True])
def test_an_optimizer_that_unscales_by_itself(overflows):
    seen = []

    class Own(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            seen.append((self.grad_scale.item(), self.found_inf.item()))

    weight = torch.ones(1, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = Own([weight], lr=1.0)
    scaler.scale(weight.sum() * (float("inf") if overflows else 1.0)).backward()
    scaler.step(optimizer)
    assert seen == [(4.0, float(overflows))] and not hasattr(optimizer, "found_inf")
    scaler.update()
    assert scaler.get_scale() == (2.0 if overflows else 4.0)


def test_an_optimizer_that_takes_the_scaler():
    class Own(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None, *, grad_scaler=None):
            assert grad_scaler is scaler
            grad_scaler.unscale_(self)
            super().step()

    weight = torch.ones(1, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(weight.sum()).backward()
    with pytest.warns(FutureWarning, match="stop passing itself"):
        scaler.step(Own([weight], lr=0.25))
    assert weight.item() == 0.75


def test_old_names_for_the_cpu():
    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.autocast\(args...\)` is deprecated"), \
            torch.cpu.amp.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with pytest.warns(FutureWarning, match=r"torch.amp.GradScaler\('cpu', args...\)"):
        assert torch.cpu.amp.GradScaler(init_scale=4.0).get_scale() == 4
