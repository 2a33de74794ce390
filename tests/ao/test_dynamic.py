"""Models quantized dynamically compute what their integers say, print and save as PyTorch's do."""

import io
import warnings

import numpy as np
import pytest

import flambeau


@pytest.fixture(autouse=True)
def _without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def linear_by_integers(torch, layer, x):
    """What a dynamic layer gives, worked out in 64-bit integers."""
    q = torch.quantize_per_tensor_dynamic(x, torch.quint8, True)
    weight, bias = layer.weight(), layer.bias()
    sums = (q.int_repr().numpy().astype(np.int64) - q.q_zero_point()) \
        @ weight.int_repr().numpy().astype(np.int64).T
    scales = weight.q_scale() if weight.qscheme() is torch.per_tensor_affine \
        else weight.q_per_channel_scales().numpy()
    return sums * (q.q_scale() * scales) + (0 if bias is None else bias.detach().numpy())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [(20, 30), (1, 1), (1500, 17)])
@pytest.mark.parametrize("by_channel", [True, False])
def test_linear(torch, sizes, bias, by_channel):
    model = torch.nn.Sequential(torch.nn.Linear(*sizes, bias=bias))
    config = torch.ao.quantization.per_channel_dynamic_qconfig if by_channel \
        else torch.ao.quantization.default_dynamic_qconfig
    layer = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear: config})[0]
    x = torch.randn(2, 3, sizes[0])
    y = layer(x)
    assert y.shape == (2, 3, sizes[1]) and not y.requires_grad
    np.testing.assert_allclose(y.numpy(), linear_by_integers(torch, layer, x), rtol=3e-6, atol=3e-6)
    assert (y - model(x)).abs().max() < 0.08 * model(x).abs().max() + 0.01


def test_what_is_replaced_and_how_it_prints(torch):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LSTM(8, 3, 2),
                                torch.nn.GRUCell(3, 2))
    quantized = torch.ao.quantization.quantize_dynamic(model)
    assert repr(quantized) == (
        "Sequential(\n"
        "  (0): DynamicQuantizedLinear(in_features=4, out_features=8, dtype=torch.qint8, "
        "qscheme=torch.per_tensor_affine)\n"
        "  (1): ReLU()\n"
        "  (2): DynamicQuantizedLSTM(8, 3, num_layers=2)\n"
        "  (3): DynamicQuantizedGRUCell(3, 2)\n"
        ")"
    )
    assert type(model[0]) is torch.nn.Linear and not hasattr(model[0], "qconfig")
    assert list(quantized[0].state_dict()) == [
        "scale", "zero_point", "_packed_params.dtype", "_packed_params._packed_params"]
    some = torch.quantization.quantize_dynamic(model, {"0"})
    assert type(some[2]) is torch.nn.LSTM and "Dynamic" in repr(some[0])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_stay_near_the_float_ones(torch, kind):
    model = torch.nn.Sequential(getattr(torch.nn, kind)(6, 5, 2, bidirectional=True))
    layer = torch.ao.quantization.quantize_dynamic(model)[0]
    x = torch.randn(7, 3, 6)
    for y, expected in zip(leaves(layer(x)), leaves(model[0](x)), strict=True):
        assert y.shape == expected.shape
        assert (y - expected).abs().max() < 0.03
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_sequence([x[:4, 0], x[:6, 1], x[:2, 2]], enforce_sorted=False)
    (y, lengths), state = rnn.pad_packed_sequence(layer(packed)[0]), layer(packed)[1]
    expected, expected_state = model[0](packed)
    assert (y - rnn.pad_packed_sequence(expected)[0]).abs().max() < 0.03
    assert lengths.tolist() == [4, 6, 2]
    for h, expected_h in zip(leaves(state), leaves(expected_state), strict=True):
        assert (h - expected_h).abs().max() < 0.03
    with pytest.raises(RuntimeError, match="Expected 6, got 5"):
        layer(torch.zeros(2, 3, 5))


def leaves(result):
    """The tensors of nested tuples."""
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(torch, kind):
    model = torch.nn.Sequential(getattr(torch.nn, kind)(6, 5))
    cell = torch.ao.quantization.quantize_dynamic(model)[0]
    x = torch.randn(3, 6)
    for y, expected in zip(leaves(cell(x)), leaves(model[0](x)), strict=True):
        assert (y - expected).abs().max() < 0.03


def test_files(torch):
    model = torch.nn.Sequential(torch.nn.Linear(6, 5))
    quantized = torch.ao.quantization.quantize_dynamic(model)
    file = io.BytesIO()
    torch.save(quantized.state_dict(), file)
    file.seek(0)
    other = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(6, 5)))
    other.load_state_dict(torch.load(file))
    x = torch.randn(3, 6)
    assert torch.equal(other(x), quantized(x))


def test_whole_models_in_files():
    model = flambeau.nn.Sequential(flambeau.nn.Linear(6, 4), flambeau.nn.LSTM(4, 3))
    quantized = flambeau.ao.quantization.quantize_dynamic(model)
    file = io.BytesIO()
    flambeau.save(quantized, file)
    file.seek(0)
    x = flambeau.randn(2, 3, 6)
    loaded = flambeau.load(file, weights_only=False)
    assert loaded(x)[0].equal(quantized(x)[0])


def test_float16(torch):
    model = torch.nn.Sequential(torch.nn.Linear(6, 5))
    quantized = torch.ao.quantization.quantize_dynamic(model, dtype=torch.float16)
    assert "dtype=torch.float16)" in repr(quantized)
    x = torch.randn(3, 6)
    expected = x @ model[0].weight.half().float().T + model[0].bias
    assert torch.allclose(quantized(x), expected, atol=1e-6)


def test_static_models(torch):
    quantization = torch.ao.quantization
    model = torch.nn.Sequential(
        quantization.QuantStub(), torch.nn.Linear(20, 30), torch.nn.ReLU(),
        torch.nn.Linear(30, 5), quantization.DeQuantStub()).eval()
    model.qconfig = quantization.default_qconfig
    prepared = quantization.prepare(model)
    x = torch.randn(200, 20)
    assert torch.equal(prepared(x), model(x))
    converted = quantization.convert(prepared)
    y = converted(x)
    assert "QuantizedLinear(in_features=20, out_features=30, scale=" in repr(converted)
    assert (y - model(x)).abs().max() < 0.08
    inner = converted[1](converted[0](x))
    assert inner.dtype is torch.quint8 and inner.q_zero_point() == converted[1].zero_point


def test_observers(torch):
    quantization = torch.ao.quantization
    x = torch.tensor([[-1.0, 3.0], [0.5, 2.0]])
    observer = quantization.MinMaxObserver(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
    observer(x)
    scale, zero = observer.calculate_qparams()
    assert scale.item() == pytest.approx(3 / 127.5) and zero.tolist() == [0]
    moving = quantization.MovingAverageMinMaxObserver(averaging_constant=0.5)
    moving(x)
    moving(x * 2)
    assert (moving.min_val.item(), moving.max_val.item()) == (-1.5, 4.5)
    by_row = quantization.PerChannelMinMaxObserver(ch_axis=0)
    by_row(x)
    scale, zero = by_row.calculate_qparams()
    assert torch.allclose(scale, torch.tensor([4.0, 2.0]) / 255) and zero.tolist() == [64, 0]
    by_column = quantization.MovingAveragePerChannelMinMaxObserver(ch_axis=1)
    by_column(x)
    assert by_column.min_val.tolist() == [-1.0, 2.0]


def test_what_is_missing_names_itself():
    quantization = flambeau.ao.quantization
    with pytest.raises(ValueError, match="Don't know how to quantize"):
        quantization.quantize_dynamic(flambeau.nn.Linear(3, 2), dtype=flambeau.int32)
    with pytest.raises(NotImplementedError, match=r"torch\.ops\.quantized\.mish"):
        flambeau.ops.quantized.mish()


@pytest.mark.parity
def test_bits_of_linear_layers():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    for sizes, rows in (((20, 30), 7), ((512, 512), 4), ((1100, 64), 3)):
        theirs = torch.nn.Sequential(torch.nn.Linear(*sizes))
        ours = flambeau.nn.Sequential(flambeau.nn.Linear(*sizes))
        ours.load_state_dict({k: flambeau.from_numpy(v.numpy())
                              for k, v in theirs.state_dict().items()})
        x = torch.randn(rows, sizes[0])
        expected = torch.ao.quantization.quantize_dynamic(theirs)(x)
        y = flambeau.ao.quantization.quantize_dynamic(ours)(flambeau.from_numpy(x.numpy()))
        assert (y.numpy() == expected.numpy()).all()


def test_tables_of_four_bits():
    torch = flambeau
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(5, 6, mode="sum"))
    with torch.no_grad():
        model[0].weight[:] = torch.arange(30.0).reshape(5, 6) / 8
    quantized = torch.ao.quantization.quantize_dynamic(model, dtype=torch.quint4x2)
    table = quantized[0].weight()
    assert table.dtype is torch.quint4x2 and table.untyped_storage().nbytes() == 15
    x = torch.tensor([[0, 4], [3, 3]])
    assert (quantized(x) - model(x)).abs().max() < 2 * 0.625 / 15 + 1e-6
    again = torch.ao.nn.quantized.EmbeddingBag(5, 6)
    again.load_state_dict(quantized[0].state_dict())
    assert torch.equal(again(x), quantized(x))


def test_rows_of_bytes():
    ops, torch = flambeau.ops.quantized, flambeau
    x = torch.tensor([[0.0, 1.3, 2.0, 3.7], [1.0, 1.0, 1.0, 1.0]])
    for bits, nbytes in ((8, 12), (4, 6), (2, 5)):
        name = "byte" if bits == 8 else f"{bits}bit"
        packed = getattr(ops, f"embedding_bag_{name}_prepack")(x)
        assert packed.shape == (2, nbytes)
        step = 3.7 / (2**bits - 1)
        assert (getattr(ops, f"embedding_bag_{name}_unpack")(packed) - x).abs().max() < step * 0.51
        bags = getattr(ops, f"embedding_bag_{name}_rowwise_offsets")(
            packed, torch.tensor([0, 1, 0]), torch.tensor([0, 2]))
        assert (bags - torch.stack([x[0] + x[1], x[0]])).abs().max() < step * 0.51


def test_sums_and_products_of_quantized_tensors():
    ops, torch = flambeau.ops.quantized, flambeau
    q = torch.quantize_per_tensor(torch.tensor([-1.0, 0.5, 2.0]), 0.5, 4, torch.quint8)
    assert ops.add(q, q, 1.0, 10).int_repr().tolist() == [8, 11, 14]
    assert ops.mul_relu(q, q, 0.5, 0).dequantize().tolist() == [1.0, 0.0, 4.0]
    moved = ops.add(q, 1.0)
    assert moved.q_zero_point() == 2 and moved.dequantize().tolist() == [0.0, 1.5, 3.0]
    turned = ops.mul(q, -2.0)
    assert (turned.q_scale(), turned.q_zero_point()) == (1.0, 251)
    assert turned.dequantize().tolist() == [2.0, -1.0, -4.0]
    wider = ops.add(q, 100.0)
    assert wider.q_zero_point() == 0 and wider.q_scale() == pytest.approx(451 / 255 * 0.5)
    x = torch.quantize_per_tensor(torch.tensor([[-2.0, 2.0]]), 0.5, 4, torch.quint8)
    assert ops.layer_norm(x, [2], None, None, 0.0, 0.5, 4).int_repr().tolist() == [[2, 6]]
    assert ops.softmax(x, 1, 1 / 256, 0).int_repr().tolist() == [[5, 251]]


@pytest.mark.parametrize(("kind", "layers", "bidirectional", "hidden"), [
    ("LSTM", 2, True, 12), ("GRU", 1, True, 12), ("LSTM", 1, False, 6), ("GRU", 2, False, 64)])
def test_recurrent_layers_compute_the_same_in_one_kernel(
    kind, layers, bidirectional, hidden, monkeypatch
):
    from flambeau.native.runtime import background_jit

    torch = flambeau
    torch.manual_seed(0)
    model = getattr(torch.nn, kind)(8, hidden, layers, bidirectional=bidirectional)
    layer = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(model))[0]
    x, count = torch.randn(7, 3, 8), layers * (1 + bidirectional)
    h = torch.randn(count, 3, hidden)
    state = (h, torch.randn(count, 3, hidden)) if kind == "LSTM" else h
    with monkeypatch.context() as patch:
        patch.setattr(background_jit.KernelPolicy, "allowed", False)
        expected, last = layer(x, state)
    for _ in range(3):  # the kernel is there from the second call on
        y, after = layer(x, state)
    forms = [key[1] for key in background_jit._ready if key[0] == "byte recurrent"]
    assert any(form[:2] == (kind.lower(), hidden) for form in forms) \
        == (hidden % 4 == 0)
    assert torch.allclose(y, expected, atol=1e-6)
    for a, b in zip(after, last, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert torch.equal(h, state[0] if kind == "LSTM" else state)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_sequences_of_equal_lengths_compute_the_same_in_one_kernel(kind):
    torch = flambeau
    model = getattr(torch.nn, kind)(8, 16)
    layer = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(model))[0]
    x = torch.randn(5, 3, 8)
    for _ in range(3):
        y, _ = layer(torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 5, 5])))
        assert torch.allclose(y.data, layer(x)[0].reshape(15, 16), atol=1e-6)
