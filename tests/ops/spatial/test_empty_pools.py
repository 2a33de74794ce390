"""Pools and their inverses without images, and without outputs."""

import pytest


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("lead", [(0, 3), (0,)])
def test_unpooling_no_images(torch, n, lead):
    unpool = getattr(torch.nn.functional, f"max_unpool{n}d")
    x = torch.ones(*lead, *(4,) * n, requires_grad=True)
    y = unpool(x, torch.zeros(x.shape, dtype=torch.int64), 2)
    assert y.shape == (*lead, *(8,) * n)
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_unpooling_names_the_empty_axis(torch):
    x = torch.ones(2, 0, 4)
    with pytest.raises(RuntimeError, match=r"but got \[2, 0, 4, 1\] with dimension 1 being empty"):
        torch.nn.functional.max_unpool1d(x, x.long(), 2)


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 0, 1), (0, 0, 0)])
def test_fractional_pools_without_outputs(torch, size):
    functional = torch.nn.functional
    x = torch.rand(2, 3, 8, 8, 8, requires_grad=True)
    y = functional.fractional_max_pool3d(x, 2, output_size=size)
    assert y.shape == (2, 3, *size)
    y.sum().backward()
    assert x.grad.equal(torch.zeros_like(x))
    assert functional.fractional_max_pool2d(x[0], 2, output_size=size[1:]).shape \
        == (3, 8, *size[1:])


def test_fractional_pools_of_a_negative_size(torch):
    with pytest.raises(RuntimeError, match=r"negative dimension -1: \[2, 3, -1, 1\]"):
        torch.nn.functional.fractional_max_pool2d(torch.rand(2, 3, 8, 8), 2, output_size=(-1, 1))


@pytest.mark.parametrize("name", ["quint4x2", "quint2x4"])
def test_zero_points_of_packed_integers_are_bytes(torch, name):
    x = torch.tensor([-1.0, 0.0, 0.2, 3.0])
    q = torch.quantize_per_tensor(x, 0.1, 20, getattr(torch, name))
    largest = 15 if name == "quint4x2" else 3
    expected = ((x / 0.1).round() + 20).clamp(0, largest) - 20
    assert torch.allclose(q.dequantize(), expected * 0.1)
    with pytest.raises(RuntimeError, match="zero_point 256 is above upper bound"):
        torch.quantize_per_tensor(x, 0.1, 256, getattr(torch, name))


def test_largest_of_no_images_keep_an_index_for_each_window(torch):
    y, places = torch.nn.functional.adaptive_max_pool1d(torch.ones(0, 2, 5), 3, True)
    assert y.shape == places.shape == (0, 2, 3)


@pytest.mark.parametrize(("name", "shape", "axis"), [
    ("adaptive_max_pool1d", (1, 0, 4), 1), ("adaptive_max_pool3d", (2, 0, 4, 4, 4), 1),
    ("adaptive_avg_pool3d", (2, 0, 4, 4, 4), 1), ("adaptive_max_pool2d", (3, 0, 0), 1),
])
def test_adaptive_pools_name_the_empty_axis(torch, name, shape, axis):
    with pytest.raises(RuntimeError, match=f"non-batch dimensions, .*dimension {axis} being empty"):
        getattr(torch.nn.functional, name)(torch.ones(shape), 2)


def test_means_of_no_channels(torch):
    assert torch.nn.functional.adaptive_avg_pool2d(torch.ones(2, 0, 4, 4), 2).shape == (2, 0, 2, 2)


def test_sizes_of_floating_tensors_are_refused(torch):
    with pytest.raises(TypeError, match="expected size to be one of int or"):
        torch.nn.functional.interpolate(torch.ones(1, 1, 4), size=(torch.tensor(3.0),))
