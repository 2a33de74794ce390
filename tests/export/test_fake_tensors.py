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
