"""Operators that meet conjugated views, and what splits and grids refuse."""

import pytest


def x(torch, *shape):
    return torch.complex(torch.arange(16.0), torch.ones(16)).reshape(shape)


def test_one_conjugated_image_is_joined(torch):
    images = x(torch, 2, 2, 2, 2)
    assert torch.cat([images.conj()], 1).equal(images.conj())
    last = images.to(memory_format=torch.channels_last)
    assert torch.cat([last.conj()], 1).stride() == (8, 1, 4, 2)
    assert torch.stack([images.conj(), images]).sum().imag == 0


def test_a_number_stays_conjugated(torch):
    number = torch.tensor(1 + 2j).conj()
    assert number.transpose(0, 0).is_conj() and number.transpose(0, 0).item() == 1 - 2j


@pytest.mark.parametrize(("call", "text"), [
    (lambda t: t.tensor_split(t.rand(10), t.tensor(1.1), 0), "have dtype of long, but got Float"),
    (lambda t: t.tensor_split(t.rand(3), t.tensor(((1,),)), 0), "but got a tensor with 2 dims"),
    (lambda t: t.meshgrid(t.ones(2), t.ones(2, device="meta"), indexing="ij"),
     "meshgrid expects all tensors to have the same device"),
    (lambda t: t.heaviside(t.ones(2, dtype=t.complex64), t.ones(2)),
     "heaviside is not yet implemented for complex tensors."),
])
def test_what_is_refused(torch, call, text):
    with pytest.raises(RuntimeError, match=text):
        call(torch)


def test_covariance_of_one_observation_warns(torch):
    with pytest.warns(UserWarning, match=r"cov\(\): degrees of freedom is <= 0"):
        assert torch.cov(torch.tensor([1.0])).isnan()
