"""FakeTensorMode: tensors with shapes and devices but without values, and programs of them."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def fake(torch):
    return importlib.import_module(f"{torch.__name__}._subclasses.fake_tensor")


def test_programs_run_for_their_shapes(torch, fake):
    with fake.FakeTensorMode():
        x, layer = torch.empty(3, 4), torch.nn.Linear(4, 2)
        y = layer(x).relu()
        z = torch.cat([y, y], 1)[:, :3]
    assert isinstance(z, fake.FakeTensor) and z.shape == (3, 3)
    assert z.device.type == "cpu" and z.dtype == torch.float32
    assert y.fake_mode is x.fake_mode
    assert not fake.is_fake(torch.ones(1)) and fake.is_fake(z)


def test_values_are_not_there(torch, fake):
    with fake.FakeTensorMode():
        x = torch.empty(1)
        with pytest.raises(fake.DataDependentOutputException):
            x.sum().item()


def test_a_module_is_exported_on_fake_inputs(torch, fake):
    mode = fake.FakeTensorMode()
    layer = torch.nn.Linear(4, 2)
    with mode:
        x = torch.empty(3, 4)
    program = torch.export.export(layer, (x,))
    real = torch.ones(3, 4)
    assert torch.allclose(program.module()(real), layer(real))
    assert mode.from_tensor(real).shape == (3, 4)


def test_a_fake_has_the_strides_and_the_gradient_of_its_tensor(torch, fake):
    mode = fake.FakeTensorMode()
    x, p = torch.ones(3, 4).t(), torch.nn.Parameter(torch.ones(2))
    assert mode.from_tensor(x).stride() == (1, 4) and mode.from_tensor(x) is mode.from_tensor(x)
    f = mode.from_tensor(p)
    assert isinstance(f, torch.nn.Parameter) and f.requires_grad and f.is_leaf
    doubled = f * 2
    doubled.sum().backward()
    assert isinstance(f.grad, fake.FakeTensor) and f.grad.shape == (2,)
    assert repr(f) == "Parameter(FakeTensor(..., size=(2,), requires_grad=True))"
    assert repr(doubled) == "FakeTensor(..., size=(2,), grad_fn=<MulBackward0>)"


def test_devices_are_pretended_and_compared(torch, fake):
    with fake.FakeTensorMode():
        x = torch.ones(2, device="cuda")
        assert x.device == torch.device("cuda", 0)
        assert repr(x + torch.tensor(1.0)) == "FakeTensor(..., device='cuda:0', size=(2,))"
        with pytest.raises(fake.FakeTensorDeviceMismatchError, match="two devices, cuda:0 and cpu"):
            x + torch.ones(2)
