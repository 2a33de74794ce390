"""Quantized tensors round, saturate, print and refuse as PyTorch's do; tests run under both."""

import copy
import io
import subprocess
import sys
import warnings

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _without_pytorchs_deprecations():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_rounding_is_half_to_even_with_the_zero_point(torch):
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5] * 8)
    for zero, expected in ((2, [2, 4, 4, 2, 0]), (3, [4, 4, 6, 2, 2])):
        for dtype in (torch.qint8, torch.quint8, torch.qint32):
            codes = torch.quantize_per_tensor(x, 1.0, zero, dtype).int_repr()
            assert codes.tolist() == expected * 8
            by_channel = torch.quantize_per_channel(
                x.view(1, -1), torch.tensor([1.0]), torch.tensor([zero]), 0, dtype)
            assert by_channel.int_repr().tolist() == [expected * 8]


def test_saturation(torch):
    x = torch.tensor([1e10, -1e10, float("inf"), -float("inf"), float("nan"), 3e9, -3e9])
    ends = {"qint8": (-128, 127), "quint8": (0, 255), "qint32": (-(2**31), 2**31 - 1)}
    for name, (least, most) in ends.items():
        dtype = getattr(torch, name)
        nan = least if name == "qint32" else most
        expected = [most, least, most, least, nan, most, least]
        assert torch.quantize_per_tensor(x, 1.0, 0, dtype).int_repr().tolist() == expected
        by_channel = torch.quantize_per_channel(
            x.view(1, -1), torch.tensor([1.0]), torch.tensor([0]), 0, dtype).int_repr()[0].tolist()
        expected[4] = least if name == "qint32" else 0
        assert by_channel == expected


def test_the_sum_with_the_zero_point_is_fused_in_eight_bits(torch):
    # 4.18 / 0.05 lies below a half by less than float32 sees; the rounded product does not.
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=4000) * 20).astype(np.float32) / np.float32(20)
    inverse = float(np.float32(1) / np.float32(0.05))
    fused = np.rint((x.astype(np.float64) * inverse + 93).astype(np.float32))
    rounded = np.rint(x * np.float32(inverse) + np.float32(93))
    tensor = torch.from_numpy(x)
    codes = torch.quantize_per_tensor(tensor, 0.05, 93, torch.quint8).int_repr().numpy()
    assert (codes == np.clip(fused, 0, 255)).all()
    wide = torch.quantize_per_tensor(tensor, 0.05, 93, torch.qint32).int_repr().numpy()
    assert (wide == rounded).all()


def test_many_elements_are_quantized_like_few(torch):
    x = torch.randn(5001) * 20
    x[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    few = [torch.quantize_per_tensor(part, 0.1, 77, torch.quint8).int_repr()
           for part in x.split(100)]
    for _ in range(3):  # flambeau's kernel is compiled at the second call
        many = torch.quantize_per_tensor(x, 0.1, 77, torch.quint8)
        assert torch.equal(many.int_repr(), torch.cat(few))
    columns = torch.quantize_per_tensor(x[:5000].view(50, 100).t(), 0.1, 77, torch.quint8)
    assert torch.equal(columns.int_repr().t().reshape(-1), torch.cat(few)[:5000])


@pytest.mark.parametrize("depth", [256, 255])
def test_many_rows_of_a_linear_layer_are_those_of_few(torch, depth):
    weight = torch.quantize_per_tensor(torch.randn(64, depth), 0.02, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, torch.randn(64))
    x = torch.quantize_per_tensor(torch.randn(96, depth), 0.03, 120, torch.quint8)
    few = [torch.ops.quantized.linear(x[i : i + 1], packed, 0.1, 90).int_repr() for i in range(96)]
    for _ in range(3):
        many = torch.ops.quantized.linear(x, packed, 0.1, 90)
        assert torch.equal(many.int_repr(), torch.cat(few))


def test_dynamic_parameters(torch):
    cases = [([-1.0, 1.0], False), ([0.5, 3.0], False), ([-4.0, -1.0], True), ([0.0, 0.0], False),
             ([1e-9, 2e-9], False), ([-1e-6, 2e-6], True)]
    parameters = []
    for values, reduce_range in cases:
        q = torch.quantize_per_tensor_dynamic(torch.tensor(values), torch.quint8, reduce_range)
        parameters.append((q.q_scale(), q.q_zero_point()))
    expected = [(2 / 255, 128), (3 / 255, 0), (4 / 127, 127), (0.1, 0),
                (6.1000001e-05, 0), (6.1000001e-05, 42)]
    for (scale, zero), (right_scale, right_zero) in zip(parameters, expected, strict=True):
        assert zero == right_zero
        assert scale == pytest.approx(right_scale, rel=1e-6)


def test_printing(torch):
    q = torch.quantize_per_tensor(torch.tensor([[-1.0, 0.24], [3.0, 4.0]]), 0.1, 10, torch.quint8)
    assert repr(q) == (
        "tensor([[-1.0000,  0.2000],\n"
        "        [ 3.0000,  4.0000]], size=(2, 2), dtype=torch.quint8,\n"
        "       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)"
    )
    c = torch.quantize_per_channel(torch.tensor([[-1.0, 0.5], [3.25, 4.0]]),
                                   torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), 0, torch.qint8)
    assert repr(c) == (
        "tensor([[-1.0000,  0.5000],\n"
        "        [ 3.2500,  4.0000]], size=(2, 2), dtype=torch.qint8,\n"
        "       quantization_scheme=torch.per_channel_affine,\n"
        "       scale=tensor([0.5000, 0.2500], dtype=torch.float64),\n"
        "       zero_point=tensor([0, 1]), axis=0)"
    )
    assert repr(c[1]).endswith("scale=0.25, zero_point=1)")


def test_what_it_is(torch):
    q = torch.quantize_per_tensor(torch.zeros(2, 3), 0.5, 7, torch.qint8)
    assert q.is_quantized and q.dtype is torch.qint8 and q.qscheme() is torch.per_tensor_affine
    assert (q.q_scale(), q.q_zero_point(), q.element_size()) == (0.5, 7, 1)
    assert q.stride() == (3, 1) and q.shape == (2, 3) and len(q) == 2
    assert q.type() == "torch.quantized.QInt8Tensor"
    assert not torch.ones(2).is_quantized


def test_views_share_the_integers(torch):
    q = torch.quantize_per_tensor(torch.arange(6.0).view(2, 3), 0.5, 1, torch.quint8)
    assert q.t().int_repr().tolist() == [[1, 7], [3, 9], [5, 11]]
    assert q.view(3, 2)[1].dequantize().tolist() == [2.0, 3.0]
    q[0].fill_(9.0)
    assert q.dequantize()[0].tolist() == [9.0, 9.0, 9.0]
    assert not q.clone().fill_(0.0).equal(q) and q.clone().equal(q)
    c = torch.quantize_per_channel(torch.ones(2, 3), torch.ones(2), torch.zeros(2).long(), 0,
                                   torch.qint8)
    with pytest.raises(RuntimeError, match="uniformly quantized"):
        c.t()


def test_what_it_computes(torch):
    q = torch.quantize_per_tensor(torch.tensor([[-1.0, 0.5], [2.0, 3.0]]), 0.5, 4, torch.quint8)
    assert torch.relu(q).int_repr().tolist() == [[4, 5], [8, 10]]
    assert torch.nn.functional.relu(q).equal(q.relu())
    assert torch.cat([q, q]).int_repr().shape == (4, 2)
    assert q.max().item() == 3.0 and q.mean().item() == 1.0
    pooled = torch.nn.functional.max_pool2d(q.view(1, 1, 2, 2), 2)
    assert pooled.int_repr().flatten().tolist() == [10]
    assert (q == q).all() and (q > 0).tolist() == [[False, True], [True, True]]
    values, indices = q.sort(descending=True)
    assert values.dequantize().tolist() == [[0.5, -1.0], [3.0, 2.0]]
    assert indices.tolist() == [[1, 0], [1, 0]]
    s = torch.sigmoid(q)
    assert (s.q_scale(), s.q_zero_point()) == (1 / 256, 0)
    assert s.int_repr().tolist() == [[69, 159], [225, 244]]


@pytest.mark.parametrize("program", ["q + q", "q.sum()", "torch.exp(q)", "q @ q"])
def test_what_it_does_not_compute(torch, program):
    q = torch.quantize_per_tensor(torch.ones(2, 2), 0.5, 4, torch.quint8)
    with pytest.raises((NotImplementedError, RuntimeError)):
        eval(program, {"torch": torch, "q": q})


def test_refusals(torch):
    x = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="Quantize only works on Float Tensor, got Double"):
        torch.quantize_per_tensor(x.double(), 0.1, 0, torch.qint8)
    with pytest.raises(RuntimeError, match="zero_point 300 is above upper bound"):
        torch.quantize_per_tensor(x, 0.1, 300, torch.quint8)
    with pytest.raises(RuntimeError, match="Char is not supported in new_qtensor"):
        torch.quantize_per_tensor(x, 0.1, 0, torch.int8)
    with pytest.raises(RuntimeError, match="length of scales must equal to channel"):
        torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3).long(), 0, torch.qint8)
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    with pytest.raises(RuntimeError, match="kPerChannelAffine"):
        q.q_per_channel_axis()
    with pytest.raises(TypeError, match="unsupported ScalarType QInt8"):
        q.numpy()
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        q.requires_grad_()
    with pytest.raises(NotImplementedError, match="aten::q_scale"):
        x.q_scale()
    with pytest.raises(NotImplementedError):
        torch.zeros(2, dtype=torch.qint8)


def test_copies_and_files(torch):
    x = torch.arange(12.0).view(3, 4)
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2])
    tensors = [torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).t(),
               torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
               torch.quantize_per_channel(x, scales, zeros.float(), 0, torch.quint8)]
    file = io.BytesIO()
    torch.save(tensors, file)
    file.seek(0)
    for loaded, q in zip(torch.load(file), tensors, strict=True):
        assert loaded.equal(q) and loaded.qscheme() is q.qscheme() and loaded.stride() == q.stride()
        assert copy.deepcopy(q).equal(q)


def test_fake_quantization_passes_gradients_where_nothing_saturates(torch):
    x = torch.tensor([-3.0, 0.04, 0.05, 0.15, 9.0, float("nan")], requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -10, 10)
    assert type(y.grad_fn).__name__ == "FakeQuantizePerTensorAffineCachemaskBackward0"
    y.backward(torch.arange(1.0, 7.0))
    assert torch.allclose(y, torch.tensor([-1.3, 0.0, 0.0, 0.2, 0.7, -1.3]))
    assert x.grad.tolist() == [0.0, 2.0, 3.0, 4.0, 0.0, 0.0]
    w = torch.tensor([[0.26, 5.0], [0.26, 5.0]], requires_grad=True)
    zeros = torch.zeros(2, dtype=torch.int32)
    y = torch.fake_quantize_per_channel_affine(w, torch.tensor([0.1, 0.5]), zeros, 0, 0, 15)
    y.sum().backward()
    assert torch.allclose(y, torch.tensor([[0.3, 1.5], [0.5, 5.0]]))
    assert w.grad.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="must be between"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 300, -10, 10)
    with pytest.raises(RuntimeError, match="Zero-point must be Int32, Float or Half, found Long"):
        torch.fake_quantize_per_channel_affine(w, torch.ones(2), zeros.long(), 0, 0, 15)


def test_a_compiled_step_leaves_them_to_eager_mode():
    import flambeau

    def step(x):
        return flambeau.quantize_per_tensor(x, 0.5, 0, flambeau.qint8).relu().dequantize()

    compiled = flambeau.compile(step)
    for value in (1.0, -1.0, 2.0):
        x = flambeau.full((4,), value)
        assert compiled(x).equal(step(x))


def test_the_greatest_of_wide_integers_is_exact(torch):
    codes = torch.tensor([[[2 ** 31 - 1, 3]]], dtype=torch.int32)
    x = torch._make_per_tensor_quantized_tensor(codes, 1.0, 0)
    assert torch.nn.functional.max_pool1d(x, 2).int_repr().tolist() == [[[2 ** 31 - 1]]]


def test_sparse_tensors_created_later_leave_quantized_ones_alone() -> None:
    """Whichever kind comes first, and whenever the modules of the other are imported."""
    program = """
import flambeau as torch
import flambeau.ops.sparse.dispatch
q = torch.quantize_per_tensor(torch.ones(2, 2), 0.5, 4, torch.quint8)
torch.eye(2).to_sparse()
try:
    q + q
except NotImplementedError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Could not run 'aten::add' with arguments from the 'QuantizedCPU'")


@pytest.mark.parametrize("name", ["add", "add_relu", "mul", "mul_relu"])
def test_numbers_may_come_first(torch, name):
    q = torch.quantize_per_tensor(torch.tensor([-1., 0.5, 2.]), 0.1, 10, torch.quint8)
    operator = getattr(torch.ops.quantized, name)
    first, second = operator(1.5, q), operator(q, 1.5)
    assert first.q_scale() == second.q_scale()
    assert torch.equal(first.int_repr(), second.int_repr())


def test_a_sum_beyond_the_range_has_a_wider_scale(torch):
    q = torch.quantize_per_tensor(torch.tensor([-1., 2.]), 0.1, 10, torch.quint8)
    y = torch.ops.quantized.add(q, 1.5)
    assert (y.q_scale(), y.q_zero_point()) == (0.10196078431372549, 0)
    assert y.int_repr().tolist() == [5, 34]
