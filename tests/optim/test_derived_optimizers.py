"""Optimizers derived from PyTorch's: the names that they import, in a step of a library."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.optim.optimizer import (
    DeviceDict,
    Optimizer,
    ParamsT,
    _capturable_doc,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)


class Momentum(Optimizer):
    __doc__ = "\n".join((_params_doc, _foreach_doc, _maximize_doc, _capturable_doc,
                         _differentiable_doc, _fused_doc))

    def __init__(self, params: ParamsT, lr=0.1, foreach=None, differentiable=False):
        super().__init__(params, {"lr": lr, "foreach": foreach, "differentiable": differentiable})

    @_use_grad_for_differentiable
    def step(self, closure=None):
        self._accelerator_graph_capture_health_check()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if not self.state[p]:
                    self.state[p]["step"] = torch.zeros((), dtype=_get_scalar_dtype())
                    self.state[p]["mean"] = torch.zeros_like(p)
            if group["foreach"] is None:
                _, group["foreach"] = _default_to_fused_or_foreach(params, False)
            update(params, [p.grad for p in params], [self.state[p]["mean"] for p in params],
                   [self.state[p]["step"] for p in params], group["lr"], group["foreach"])


def update_each(params, grads, means, steps, lr):
    for param, grad, mean, step in zip(params, grads, means, steps, strict=True):
        step += 1
        mean.lerp_(grad, 1 / _get_value(step))
        param.add_(mean, alpha=-_get_value(_to_scalar(lr)) / _get_value(step) ** 0.5)


@_disable_dynamo_if_unsupported(single_tensor_fn=update_each)
def update(params, grads, means, steps, lr, foreach):
    if not foreach:
        return update_each(params, grads, means, steps, lr)
    rates: DeviceDict = {lr.device: lr} if isinstance(lr, torch.Tensor) else {}
    assert not rates
    groups = Optimizer._group_tensors_by_device_and_dtype([params, grads, means, steps])
    for (some, slopes, averages, counts), _ in groups.values():
        torch._foreach_add_(counts, 1)
        scales = _stack_if_compiling([_get_value(count) for count in counts])
        torch._foreach_lerp_(averages, slopes, 1 / scales[0])
        torch._foreach_add_(some, averages, alpha=-lr / scales[0] ** 0.5)


@pytest.mark.parametrize("lr", [0.1, torch.tensor([0.1])], ids=["number", "tensor"])
def test_a_derived_optimizer_takes_its_steps(lr):
    w = torch.ones(2, requires_grad=True)
    optimizer = Momentum([w], lr)
    for slope in (1.0, 3.0):
        w.grad = torch.full((2,), slope)
        optimizer.step()
    # 1 - 0.1 * 1 - 0.1 * (1 + 3) / 2 / sqrt(2)
    torch.testing.assert_close(w.detach(), torch.full((2,), 0.9 - 0.2 / 2**0.5))


def test_all_tensors_at_once_take_the_same_steps():
    steps = []
    for foreach in (False, True):
        params = [torch.ones(2, requires_grad=True),
                  torch.ones(3, dtype=torch.float64, requires_grad=True)]
        optimizer = Momentum(params, foreach=foreach)
        for slope in (1.0, -2.0, 4.0):
            for p in params:
                p.grad = torch.full_like(p, slope)
            optimizer.step()
        steps.append([p.detach() for p in params])
    for one, other in zip(*steps, strict=True):
        torch.testing.assert_close(one, other)


def test_groups_have_a_device_and_dtype():
    a, b, c = torch.ones(1), torch.ones(1, dtype=torch.float64), torch.ones(2)
    groups = Optimizer._group_tensors_by_device_and_dtype([[a, b, c], [c, None, a]], True)
    cpu = torch.device("cpu")
    assert set(groups) == {(cpu, torch.float32), (cpu, torch.float64)}
    (first, second), indices = groups[cpu, torch.float32]
    assert (first[0] is a, first[1] is c, second[0] is c, indices) == (True, True, True, [0, 2])
    assert groups[cpu, torch.float64][0][1] == [None]


def test_fused_steps_need_floating_point_parameters():
    _device_dtype_check_for_fused(torch.ones(1))
    with pytest.raises(RuntimeError, match="requires all the params to be floating point Tensors "
                                           r"of supported devices: .* but torch.int64 and cpu"):
        _device_dtype_check_for_fused(torch.ones(1, dtype=torch.int64))
    assert _get_capturable_supported_devices(False)[:3] == ["cuda", "xpu", "hpu"]


def test_complex_parameters_become_their_two_parts():
    params, means = [torch.ones(2, dtype=torch.complex64), torch.ones(1)], [torch.ones(2) + 0j, 0]
    _view_as_real(params, means)
    assert (params[0].shape, params[1].shape, means[0].shape) == ((2, 2), (1,), (2, 2))


def test_the_older_name_of_the_check_warns():
    with pytest.warns(DeprecationWarning, match="Use _accelerator_graph_capture_health_check"):
        Momentum([torch.ones(1)])._cuda_graph_capture_health_check()


class Wrapped(Optimizer):
    """An optimizer around another, which shares its groups and skips `__init__`."""

    def __init__(self, inner: Optimizer):
        self.inner, self.defaults = inner, inner.defaults
        self.state, self.param_groups = inner.state, inner.param_groups
        self._patch_step_function()

    def step(self, closure=None):
        return self.inner.step(closure)


def test_optimizers_that_skip_init_call_hooks():
    x = torch.nn.Parameter(torch.ones(2))
    x.grad = torch.ones(2)
    optimizer, calls = Wrapped(torch.optim.SGD([x], 0.5)), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1] and x.tolist() == [0.5, 0.5]
    assert Wrapped.step.hooked
