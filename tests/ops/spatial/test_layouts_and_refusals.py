"""Pooling and resampling: strides of results, memory, and what PyTorch refuses."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F

VOLUMES = torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize("x", [VOLUMES, VOLUMES[0]], ids=["batch", "volume"])
def test_largest_of_volumes_keep_channels_last(x):
    y, places = F.max_pool3d(x, 2, return_indices=True)
    batch = (36,) if x.dim() == 5 else ()
    assert y.stride() == places.stride() == (*batch, 1, 18, 9, 3)
    assert torch.equal(y, F.max_pool3d(x.contiguous(), 2))


def test_averages_of_volumes_are_row_major():
    assert F.avg_pool3d(VOLUMES, 2).is_contiguous()
    assert F.adaptive_avg_pool3d(VOLUMES, 2).is_contiguous()
    assert F.adaptive_max_pool3d(VOLUMES, 2).is_contiguous()


def test_one_average_an_image_keeps_channels_last():
    x = torch.randn(2, 3, 4, 6).to(memory_format=torch.channels_last)
    y = F.adaptive_avg_pool2d(x, 1)
    assert y.stride() == (3, 1, 3, 3)
    assert torch.allclose(y, x.mean((2, 3), keepdim=True))
    assert F.adaptive_avg_pool2d(x.contiguous(), 1).stride() == (3, 1, 1, 1)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pooling_refuses_integers(kind, n):
    pool = getattr(F, f"adaptive_{kind}_pool{n}d")
    kernel = f"adaptive_{kind}_pool{max(n, 2)}d{'_cpu' if n == 3 else ''}"
    with pytest.raises(NotImplementedError, match=f'"{kernel}" not implemented for \'Byte\''):
        pool(torch.ones((4,) * (n + 2), dtype=torch.uint8), 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_mean_of_whole_images_refuses_integers_as_mean_does(n):
    pool = getattr(F, f"adaptive_avg_pool{n}d")
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype. .* Got: Byte"):
        pool(torch.ones((2,) * (n + 2), dtype=torch.uint8), 1)


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_cotangents_without_elements(kind):
    x = torch.randn(1, 6, 4, 4, requires_grad=True)
    y = getattr(F, f"adaptive_{kind}_pool2d")(x, 0)
    with pytest.raises(RuntimeError, match=r"grad_output has sizes \[1, 6, 0, 0\] with dim"):
        y.sum().backward()


def test_fractional_pooling_wants_a_size_for_each_axis():
    x = torch.randn(1, 2, 7, 7, 7)
    with pytest.raises(RuntimeError, match="kernel_size must either be a single Int or tuple of "):
        F.fractional_max_pool3d(x, (1,), output_size=(3, 3, 3))
    with pytest.raises(RuntimeError, match="output_size must either"):
        F.fractional_max_pool3d(x, 2, output_size=(3,))


def test_meta_tensors_are_resampled_without_memory():
    x = torch.empty(2, 3, 10**9, device="meta")
    assert F.interpolate(x, scale_factor=2).shape == (2, 3, 2 * 10**9)
    x = torch.empty(1, 3, 10**5, 10**6, device="meta")
    assert F.interpolate(x, scale_factor=2, mode="bicubic").shape == (1, 3, 2 * 10**5, 2 * 10**6)


@pytest.mark.parametrize(("kernel", "strides"), [
    (4, (3, 1, 3, 3)), ((4, 1), (12, 1, 12, 3)), ((1, 4), (12, 1, 3, 3)), (2, (12, 1, 6, 3)),
])
def test_averages_of_whole_images_keep_channels_last(kernel, strides):
    x = torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    y = torch.nn.functional.avg_pool2d(x, kernel)
    assert y.stride() == strides
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_adaptive_windows_see_only_their_elements(torch):
    x = torch.tensor([[1.0, float("inf"), 2.0, 3.0, 4.0]], requires_grad=True)
    y = torch.nn.functional.adaptive_avg_pool1d(x, 3)
    assert y.tolist() == [[float("inf"), float("inf"), 3.5]]
    y.backward(torch.tensor([[float("nan"), 1.0, 1.0]]))
    assert x.grad[0, 3:].tolist() == pytest.approx([1 / 3 + 1 / 2, 1 / 2])


@pytest.mark.parametrize("shape, strides, forward, gradient", [
    ((1, 2, 3, 1), (6, 1, 2, 1), (6, 1, 2, 2), (6, 3, 1, 1)),  # dense in channels last
    ((2, 3, 1, 1), (3, 1, 3, 3), (3, 1, 1, 1), (3, 1, 3, 3)),  # dense in both formats
    ((2, 1, 3, 3), (9, 1, 3, 1), (9, 9, 3, 1), (9, 1, 3, 1)),
    ((1, 3, 4, 4), (48, 1, 12, 3), (48, 1, 12, 3), (48, 1, 12, 3)),
])
def test_batch_normalization_keeps_the_format_of_memory(torch, shape, strides, forward, gradient):
    x = torch.rand(144).as_strided(shape, strides).requires_grad_()
    layer = torch.nn.BatchNorm2d(shape[1])
    y = layer(x)
    assert y.stride() == forward
    assert torch.autograd.grad(y.sum(), x)[0].stride() == gradient
    assert layer.eval()(x).stride() == forward


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("image, points", [
    ((2, 0, 6, 6), (2, 5, 7, 2)), ((0, 2, 6, 6), (0, 5, 7, 2)), ((2, 2, 6, 6), (2, 0, 7, 2)),
])
def test_grids_without_pixels_or_points(torch, mode, image, points):
    x = torch.rand(image, requires_grad=True)
    grid = torch.rand(points, requires_grad=True)
    y = torch.nn.functional.grid_sample(x, grid, mode, align_corners=False)
    assert y.shape == (*image[:2], *points[1:3])
    y.sum().backward()
    assert (x.grad.shape, grid.grad.shape) == (image, points)
    assert not x.grad.any() and not grid.grad.any()


@pytest.mark.parametrize("factor", [-1e20, 1e20, float("nan"), float("inf")])
def test_factors_beyond_all_sizes(torch, factor):
    with pytest.raises(RuntimeError, match="cannot be converted to type int64_t without overflow"):
        torch.nn.functional.interpolate(torch.ones(1, 1, 4, 4), scale_factor=factor)


def test_threshold_is_written_over_expanded_tensors(torch):
    x = torch.tensor([[1.0, 0.0]]).expand(3, 2)
    torch.nn.functional.threshold_(x, 0.5, 2)
    assert x.tolist() == [[1, 2]] * 3


def test_more_random_samples_than_images():
    samples = torch.rand(3, 2, 2)
    y = F.fractional_max_pool2d(torch.rand(1, 2, 5, 5), 2, 3, _random_samples=samples)
    assert y.shape == (1, 2, 3, 3)
    with pytest.raises(RuntimeError, match="no less then input batch size"):
        F.fractional_max_pool2d(torch.rand(4, 2, 5, 5), 2, 3, _random_samples=samples)


def test_texts_of_fold_and_interpolate():
    with pytest.raises(RuntimeError, match=r"blocks as \(-4, -3\), which is too small"):
        F.fold(torch.ones(1, 12, 12), (4, 5), (2, 2), dilation=(8, 8))
    with pytest.raises(TypeError, match=r"but got size with types \[<class 'float'>\]"):
        F.interpolate(torch.ones(1, 1, 4), size=(1.0,))


@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (2, 6, 4, 5, 3)])
def test_gradients_of_group_norm_are_laid_out_as_the_input(shape):
    form = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    x = torch.randn(shape).contiguous(memory_format=form).requires_grad_()
    (g,) = torch.autograd.grad(F.group_norm(x, 3), x, torch.ones(shape))
    assert g.is_contiguous(memory_format=form)


def test_instance_norm_of_one_image_is_row_major():
    x = torch.randn(1, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert F.instance_norm(x).is_contiguous()
