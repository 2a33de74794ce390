"""Learned and observed fake quantization, and searched ranges, are PyTorch's; under both."""

import pytest


def test_gradients_of_scales_and_zero_points(torch):
    x = torch.tensor([[0.0, 1.3], [2.0, 3.7]], requires_grad=True)
    scale, zero = (torch.tensor(v, requires_grad=True) for v in ([0.1, 0.2], [2.25, 1.5]))
    g = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = torch._fake_quantize_learnable_per_channel_affine(x, scale, zero, 0, 0, 15, 0.5)
    y.backward(g)
    assert torch.allclose(y, torch.tensor([[0.0, 1.3], [2.0, 2.6]]))
    assert x.grad.tolist() == [[1.0, 2.0], [3.0, 0.0]]
    assert torch.allclose(scale.grad, torch.tensor([0.0, 26.0]), atol=1e-4)
    assert torch.allclose(zero.grad, torch.tensor([0.0, -0.4]))
    x.grad, scale, zero = None, torch.tensor([0.1], requires_grad=True), torch.tensor([2.25])
    y = torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 15)
    y.backward(g)
    assert x.grad.tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert torch.allclose(scale.grad, torch.tensor([7.0 * 13]), atol=1e-4)


@pytest.mark.parametrize("by_row", [False, True])
def test_observed_in_the_same_call(torch, by_row):
    count = 2 if by_row else 1
    low, high = torch.full((count,), float("inf")), torch.full((count,), float("-inf"))
    scale, zero = torch.ones(count), torch.zeros(count, dtype=torch.int32)
    on, off = torch.tensor(1), torch.tensor(0)
    x = torch.tensor([[-1.0, 0.26, 2.0], [0.0, 0.26, 3.0]], requires_grad=True)

    def call(x, fake, constant=0.5):
        return torch.fused_moving_avg_obs_fake_quant(
            x, on, fake, low, high, scale, zero, constant, 0, 255, 0, by_row)

    assert torch.equal(call(x, off), x) and scale.tolist() == [1.0] * count
    assert high.tolist() == ([2.0, 3.0] if by_row else [3.0])
    y = call(x.detach() * 2, on)
    assert low.tolist() == ([-1.5, 0.0] if by_row else [-1.5])
    expected = [4.5 / 255, 4.5 / 255] if by_row else [6.0 / 255]
    assert torch.allclose(scale, torch.tensor(expected)) and zero[0] in (64, 85)
    assert y.max() <= scale.max() * 255
    call(x, on).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_whole_and_floating_zero_points_round_differently(torch):
    x, scale = torch.tensor([[0.24]]), torch.tensor([0.1])
    whole, floating = (torch.tensor([z], dtype=d) for z, d in ((0, torch.int32), (0.4, None)))
    assert torch.allclose(
        torch.fake_quantize_per_channel_affine(x, scale, whole, 0, 0, 15), torch.tensor([[0.2]]))
    assert torch.allclose(
        torch.fake_quantize_per_channel_affine(x, scale, floating, 0, 0, 15),
        torch.tensor([[0.26]]))
    with pytest.raises(RuntimeError, match="Scale must be Float or BFloat16, found Double"):
        torch.fake_quantize_per_channel_affine(x, scale.double(), whole, 0, 0, 15)


def test_a_searched_range_is_narrower_and_float16_saturates(torch):
    x = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.25] * 4)
    high, low = torch.choose_qparams_optimized(x, 32, 200, 0.16, 2)
    assert 6.0 < high.item() <= 7.25 and 0.0 <= low.item() < 1.0
    assert torch._saturate_weight_to_fp16(torch.tensor([[1.0, 1e6]])).tolist() == [[1.0, 65504.0]]


def test_learned_parameters_of_a_module(torch):
    quantization = __import__(torch.__name__).ao.quantization
    module = __import__(f"{torch.__name__}.ao.quantization._learnable_fake_quantize",
                        fromlist=["_LearnableFakeQuantize"])._LearnableFakeQuantize
    fake = module(quantization.MovingAverageMinMaxObserver, 0, 255, dtype=torch.quint8)
    x = torch.linspace(-1, 2, 12)
    assert (fake(x) - x).abs().max() < 0.01
    fake.enable_param_learning()
    before = fake.scale.item()
    fake(x * 2).sum().backward()
    assert fake.scale.grad.item() != 0 and fake.scale.item() == before
    fixed = quantization.default_fixed_qparams_range_0to1_fake_quant()
    fixed(x)
    assert fixed.scale.item() == 1 / 256 and fixed(x).max().item() == 255 / 256
