"""What layers do beyond their one call: laziness, packed sequences, masks, old checkpoints.

Every test runs against PyTorch as well where it is installed.
"""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest


def close(torch, a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- convolutions, embeddings


@pytest.mark.parametrize("size", [11, 12])
def test_transposed_convolution_meets_the_output_size(torch, size):
    layer = torch.nn.ConvTranspose2d(2, 3, 3, stride=2)
    assert layer(torch.ones(1, 2, 5, 5), output_size=[size, 11]).shape == (1, 3, size, 11)
    assert layer(torch.ones(1, 2, 5, 5), output_size=(1, 3, size, 11)).shape[2] == size


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (4, 1), (4, 2), (1, 3)])
def test_padding_same_keeps_the_size_in_every_padding_mode(torch, kernel, dilation):
    x = torch.randn(2, 4, 9)
    for mode in ("zeros", "reflect", "replicate", "circular"):
        layer = torch.nn.Conv1d(4, 2, kernel, padding="same", dilation=dilation, padding_mode=mode)
        assert layer(x).shape == (2, 2, 9)


def test_weights_in_another_memory_format_are_drawn_alike(torch):
    layer = torch.nn.Conv2d(3, 4, 3)
    torch.manual_seed(1)
    layer.reset_parameters()
    expected = layer.weight.clone()
    layer.weight.data = layer.weight.data.permute(2, 3, 1, 0).contiguous().permute(3, 2, 0, 1)
    assert not layer.weight.is_contiguous()
    torch.manual_seed(1)
    layer.reset_parameters()
    assert torch.equal(layer.weight, expected)


def test_embedding_padding_row(torch):
    layer = torch.nn.Embedding(5, 3, padding_idx=-2)
    assert layer.padding_idx == 3
    assert layer.weight[3].eq(0).all()
    layer(torch.tensor([[3, 1], [1, 3]])).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [0, 2, 0, 0, 0]


def test_embedding_from_pretrained_shares_and_freezes(torch):
    table = torch.ones(4, 2)
    layer = torch.nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad
    assert layer.weight.data_ptr() == table.data_ptr()
    assert torch.nn.EmbeddingBag.from_pretrained(table, freeze=False).weight.requires_grad


# ---------------------------------------------------------------- normalisation


def test_batch_norm_tracks_its_batches(torch):
    norm = torch.nn.BatchNorm1d(3, momentum=None)
    batches = [torch.randn(8, 3) for _ in range(3)]
    for batch in batches:
        norm(batch)
    assert norm.num_batches_tracked.item() == 3
    mean = sum(batch.mean(0) for batch in batches) / 3
    assert close(torch, norm.running_mean, mean)  # momentum None: all batches count alike
    norm.reset_running_stats()
    assert norm.running_mean.eq(0).all()
    assert norm.num_batches_tracked.item() == 0


def test_batch_norm_without_statistics_uses_the_batch_in_eval_mode(torch):
    norm = torch.nn.BatchNorm2d(2, track_running_stats=False, affine=False).eval()
    y = norm(torch.randn(4, 2, 3, 3) * 5 + 1)
    assert close(torch, y.mean((0, 2, 3)), torch.zeros(2))


def test_batch_norm_loads_a_checkpoint_without_a_batch_count(torch):
    norm = torch.nn.BatchNorm1d(3)
    norm(torch.randn(4, 3))
    state = norm.state_dict()
    assert state._metadata[""]["version"] == 2
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*num_batches_tracked"):
        torch.nn.BatchNorm1d(3).load_state_dict(state)
    state._metadata[""]["version"] = 1
    torch.nn.BatchNorm1d(3).load_state_dict(state)


def test_instance_norm_refuses_statistics_it_would_not_use(torch):
    state = torch.nn.InstanceNorm1d(3, track_running_stats=True).state_dict()
    del state._metadata
    with pytest.raises(RuntimeError, match=r"Unexpected running stats buffer.*running_mean"):
        torch.nn.InstanceNorm1d(3).load_state_dict(state)


def test_instance_norm_of_one_sample(torch):
    norm, x = torch.nn.InstanceNorm2d(3), torch.randn(2, 3, 4, 4)
    assert close(torch, norm(x[1]), norm(x)[1])
    with pytest.warns(UserWarning, match="does not match num_features"):
        norm(torch.randn(1, 5, 4, 4))


def test_sync_batch_norm_in_one_process_is_batch_norm(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4)))
    x = torch.randn(5, 3)
    expected, state = model(x), model.state_dict()
    state = {key: value.clone() for key, value in state.items()}
    model[1][0].reset_running_stats()
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(converted[1][0]) is nn.SyncBatchNorm
    assert torch.equal(converted(x), expected)
    assert all(torch.equal(state[key], value) for key, value in converted.state_dict().items())


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_cross_map_norm_follows_pytorchs_running_sum(torch, size):
    x = torch.arange(1.0, 6).view(1, 5, 1, 1)
    y = torch.nn.CrossMapLRN2d(size, alpha=1.0, beta=1.0, k=2)(x).flatten().tolist()
    reach = (size - 1) // 2
    for c, value in enumerate(x.flatten().tolist()):
        window = range(max(0, c - reach), min(5, c + reach + 1))
        total = sum((i + 1) ** 2 for i in window) + (c > reach)
        assert y[c] == pytest.approx(value / (2 + total / size))


# ---------------------------------------------------------------- lazy layers


LAZY = [
    ("LazyLinear", (3,), (2, 5), {}),
    ("LazyConv1d", (6, 3), (2, 4, 7), {"groups": 2}),
    ("LazyConv2d", (6, 3), (4, 7, 7), {"bias": False}),
    ("LazyConvTranspose2d", (6, 3), (2, 4, 5, 5), {"groups": 2}),
    ("LazyBatchNorm1d", (), (4, 3), {}),
    ("LazyInstanceNorm2d", (), (2, 3, 4, 4), {}),
]


@pytest.mark.parametrize(("name", "args", "shape", "options"), LAZY)
def test_a_lazy_layer_becomes_the_other_at_its_first_call(torch, name, args, shape, options):
    layer = getattr(torch.nn, name)(*args, **options)
    before = [name for name, _ in layer.named_parameters()]
    layer(torch.randn(shape))
    assert type(layer) is getattr(torch.nn, name.removeprefix("Lazy"))
    assert not hasattr(layer, "_initialize_hook")
    assert [name for name, _ in layer.named_parameters()] == before
    layer(torch.randn(shape)).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_a_lazy_layer_takes_its_shape_from_a_checkpoint(torch):
    source, layer = torch.nn.Linear(3, 4), torch.nn.LazyLinear(4)
    layer.load_state_dict(source.state_dict())
    assert torch.equal(layer.weight, source.weight)
    x = torch.ones(2, 3)
    assert torch.equal(layer(x), source(x))
    assert layer.in_features == 3


def test_a_lazy_layer_saves_and_loads_before_its_first_call(torch):
    state = torch.nn.LazyConv2d(6, 3).state_dict()
    layer = torch.nn.LazyConv2d(6, 3)
    layer.load_state_dict(state)
    assert layer.has_uninitialized_params()


# ---------------------------------------------------------------- recurrent layers


RECURRENT = [
    ("LSTM", {}),
    ("LSTM", {"bidirectional": True, "num_layers": 2, "proj_size": 2}),
    ("GRU", {"num_layers": 2, "bias": False}),
    ("GRU", {"bidirectional": True}),
    ("RNN", {"nonlinearity": "relu"}),
    ("RNN", {"bidirectional": True}),
]


def states(hidden):
    return list(hidden) if isinstance(hidden, tuple) else [hidden]


@pytest.mark.parametrize(("name", "options"), RECURRENT)
def test_packed_sequences_give_what_each_sequence_gives(torch, name, options):
    rnn = torch.nn.utils.rnn
    layer = getattr(torch.nn, name)(3, 4, **options)
    sequences = [torch.randn(length, 3) for length in (2, 5, 4)]
    packed, hidden = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = rnn.pad_packed_sequence(packed)
    assert lengths.tolist() == [2, 5, 4]
    for i, sequence in enumerate(sequences):
        output, last = layer(sequence)
        assert close(torch, padded[: len(sequence), i], output)
        for a, b in zip(states(hidden), states(last), strict=True):
            assert close(torch, a[:, i], b)


@pytest.mark.parametrize(("name", "options"), RECURRENT)
def test_batch_first_only_swaps_dimensions(torch, name, options):
    torch.manual_seed(1)
    layer = getattr(torch.nn, name)(3, 4, **options)
    torch.manual_seed(1)
    swapped = getattr(torch.nn, name)(3, 4, batch_first=True, **options)
    x = torch.randn(5, 2, 3)
    output, hidden = layer(x)
    turned, last = swapped(x.transpose(0, 1))
    assert close(torch, output, turned.transpose(0, 1))
    assert all(close(torch, a, b) for a, b in zip(states(hidden), states(last), strict=True))


ONE_WAY = [row for row in RECURRENT if "bidirectional" not in row[1]]


@pytest.mark.parametrize(("name", "options"), ONE_WAY)
def test_a_state_carries_on_the_sequence(torch, name, options):
    layer, x = getattr(torch.nn, name)(3, 4, **options), torch.randn(6, 2, 3)
    whole, _ = layer(x)
    first, hidden = layer(x[:4])
    second, _ = layer(x[4:], hidden)
    assert close(torch, whole, torch.cat([first, second]))


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_layer_is_its_cell_step_by_step(torch, name):
    layer, cell = getattr(torch.nn, name)(3, 4), getattr(torch.nn, f"{name}Cell")(3, 4)
    state = {f"{key}_l0": value for key, value in cell.state_dict().items()}
    layer.load_state_dict(state)
    x, hidden = torch.randn(5, 2, 3), None
    output, _ = layer(x)
    for t in range(5):
        hidden = cell(x[t], hidden)
        assert close(torch, output[t], states(hidden)[0])
    alone = cell(x[0, 0])
    assert close(torch, states(alone)[0], states(cell(x[0]))[0][0])


def test_dropout_between_layers_acts_in_training_only(torch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = torch.nn.GRU(3, 8, num_layers=2, dropout=0.5)
    x = torch.randn(5, 2, 3)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_copies_and_replaced_weights_are_used(torch):
    layer, x = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)
    expected = layer(x)[0]
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x)[0], expected)
        assert twin.weight_ih_l0 is not layer.weight_ih_l0
        assert twin._flat_weights[0] is twin.weight_ih_l0
    layer.weight_ih_l0 = torch.nn.Parameter(torch.zeros(16, 3))
    assert not torch.equal(layer(x)[0], expected)
    assert layer.all_weights[0][0] is layer.weight_ih_l0
    assert layer.double()(x.double())[0].dtype == torch.float64
    assert layer.flatten_parameters() is None


# ---------------------------------------------------------------- attention


def attention(torch, **options):
    layer = torch.nn.MultiheadAttention(8, 2, **options)
    return layer.eval()


def test_attention_weights_are_a_distribution_over_keys(torch):
    layer = attention(torch, kdim=6, vdim=5)
    output, weights = layer(torch.randn(4, 3, 8), torch.randn(7, 3, 6), torch.randn(7, 3, 5))
    assert output.shape == (4, 3, 8)
    assert weights.shape == (3, 4, 7)
    assert close(torch, weights.sum(-1), torch.ones(3, 4))
    query, key, value = torch.randn(4, 8), torch.randn(7, 6), torch.randn(7, 5)
    assert layer(query, key, value, need_weights=False)[1] is None


def test_attention_batch_first_and_unbatched(torch):
    layer, x = attention(torch), torch.randn(5, 3, 8)
    output, weights = layer(x, x, x)
    alone, _ = layer(x[:, 1], x[:, 1], x[:, 1])
    assert close(torch, alone, output[:, 1])
    layer.batch_first = True
    turned = x.transpose(0, 1)
    swapped, same = layer(turned, turned, turned)
    assert close(torch, swapped.transpose(0, 1), output)
    assert close(torch, same, weights)


def test_attention_masks_bar_keys(torch):
    layer, x = attention(torch, batch_first=True), torch.randn(2, 4, 8)
    padding = torch.tensor([[False, False, False, True], [False, False, True, True]])
    _, weights = layer(x, x, x, key_padding_mask=padding)
    assert weights[0, :, 3].eq(0).all()
    assert weights[1, :, 2:].eq(0).all()
    causal = torch.nn.Transformer.generate_square_subsequent_mask(4)
    hinted, _ = layer(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)
    masked, weights = layer(x, x, x, attn_mask=causal)
    assert close(torch, hinted, masked)
    assert weights.triu(1).eq(0).all()


def encoder(torch, **options):
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2)


def test_encoder_recognises_the_causal_mask(torch):
    model, x = encoder(torch).eval(), torch.randn(2, 5, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
    assert close(torch, model(x, mask=mask), model(x, mask=mask, is_causal=True))
    assert close(torch, model(x, mask=mask)[:, :3], model(x[:, :3], mask=mask[:3, :3]))


def test_encoder_gives_zeros_for_padding_when_it_only_infers(torch):
    model, x = encoder(torch), torch.randn(2, 4, 8)
    padding = torch.tensor([[False, False, True, True], [False, False, False, False]])
    recorded = model.eval()(x, src_key_padding_mask=padding)
    with torch.no_grad():
        inferred = model(x, src_key_padding_mask=padding)
        on_the_left = model(x, src_key_padding_mask=padding.flip(1))
    assert close(torch, inferred[~padding], recorded[~padding])
    assert inferred[padding].eq(0).all()
    assert not recorded[padding].eq(0).any()
    assert not on_the_left[0, 0].eq(0).any()  # not aligned to the left: computed like the rest


def test_norm_first_and_plain_layers_differ_in_order_only(torch):
    nn = torch.nn
    x, memory = torch.randn(3, 2, 8), torch.randn(4, 2, 8)
    layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True, activation="gelu")
    y = x + layer.self_attn(*[layer.norm1(x)] * 3)[0]
    y = y + layer.multihead_attn(layer.norm2(y), memory, memory)[0]
    y = y + layer.linear2(nn.functional.gelu(layer.linear1(layer.norm3(y))))
    assert close(torch, layer(x, memory), y)
    layer.norm_first = False
    y = layer.norm1(x + layer.self_attn(x, x, x)[0])
    y = layer.norm2(y + layer.multihead_attn(y, memory, memory)[0])
    y = layer.norm3(y + layer.linear2(nn.functional.gelu(layer.linear1(y))))
    assert close(torch, layer(x, memory), y)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_transformer_is_its_decoder_of_its_encoder(torch):
    model = torch.nn.Transformer(8, 2, 1, 2, 16).eval()
    source, target = torch.randn(4, 3, 8), torch.randn(5, 3, 8)
    assert close(torch, model(source, target), model.decoder(target, model.encoder(source)))
    assert all(
        p.abs().max() <= (6 / sum(p.shape)) ** 0.5 for p in model.parameters() if p.dim() > 1
    )


# ---------------------------------------------------------------- losses


def test_adaptive_softmax_agrees_with_its_own_full_distribution(torch):
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 6], div_value=2.0)
    x, target = torch.randn(6, 16), torch.tensor([0, 3, 7, 9, 2, 5])
    full = layer.log_prob(x)
    assert close(torch, full.exp().sum(1), torch.ones(6))
    output, loss = layer(x, target)
    assert close(torch, output, full.gather(1, target.unsqueeze(1)).squeeze(1))
    assert close(torch, loss, -output.mean())
    assert torch.equal(layer.predict(x), full.argmax(1))
    assert close(torch, layer(x[2], target[2]).output, output[2])
    loss.backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize(
    ("flags", "reduction"),
    [({"size_average": False}, "sum"), ({"reduce": False}, "none"), ({"reduce": True}, "mean")],
)
def test_old_flags_of_losses(torch, flags, reduction):
    with pytest.warns(UserWarning, match=f"please use reduction='{reduction}' instead"):
        assert torch.nn.MSELoss(**flags).reduction == reduction


def test_weights_of_losses_are_buffers(torch):
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))
    assert list(loss.state_dict()) == ["weight"]
    assert loss.double().weight.dtype == torch.float64
    assert not list(loss.parameters())


def test_losses_of_the_torch_namespace_reduce_nothing_unless_told_to(torch):
    x, y, sign = torch.rand(3, 4), torch.rand(3, 4), torch.tensor([1.0, -1.0, 1.0])
    a, b = x[:, 0], y[:, 0]
    results = [
        torch.binary_cross_entropy_with_logits(a, b), torch.kl_div(a, b),
        torch.margin_ranking_loss(a, b, sign), torch.hinge_embedding_loss(a, sign),
        torch.cosine_embedding_loss(x, y, sign), torch.triplet_margin_loss(x, y, x.flip(0)),
        torch.ctc_loss(torch.zeros(4, 3, 2).log_softmax(2), torch.ones(3, 1, dtype=torch.int64),
                       torch.tensor([4, 4, 4]), torch.tensor([1, 1, 1])),
    ]
    assert [loss.shape for loss in results] == [(3,)] * len(results)
    assert torch.kl_div(a, b, 1).shape == torch.nn.functional.kl_div(a, b).shape == ()


def test_saved_statistics_of_batch_norm_are_no_differentiable_results(torch):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    results = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    assert [y.requires_grad for y in results] == [True, False, False]
    assert torch.autograd.gradcheck(
        lambda x: torch._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5), x)
    with pytest.raises(RuntimeError):
        torch.autograd.gradcheck(lambda x: x.detach() * 2, x)


def test_in_place_activations_with_a_negative_slope_refuse_backward(torch):
    F = torch.nn.functional
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    for call, name in [(lambda y: F.leaky_relu_(y, -0.1), "leakyReLu"),
                       (lambda y: F.leaky_relu(y, -0.1, inplace=True), "leakyReLu"),
                       (lambda y: F.rrelu_(y, -0.5, -0.1), "leakyReLu"),
                       (lambda y: F.elu_(y, -0.5), "elu"), (lambda y: F.celu_(y, -0.5), "elu"),
                       (lambda y: F.elu_(y[:1], -0.5), "elu")]:
        y = call(x * 1)
        with pytest.raises(RuntimeError, match=f"In-place {name} backward calculation"):
            y.sum().backward()
    F.leaky_relu_(x * 1, 0.1).sum().backward()
    assert x.grad.allclose(torch.tensor([0.1, 1.0]))


def test_batch_norm_checks_eps(torch):
    F, x = torch.nn.functional, torch.randn(4, 3)
    with pytest.raises(ValueError, match="eps must be positive during training, but got 0.0"):
        F.batch_norm(x, None, None, training=True, eps=0.0)
    with pytest.raises(ValueError, match="batch_norm eps must be non-negative, but got -1.0"):
        F.batch_norm(x, torch.zeros(3), torch.ones(3), eps=-1.0)
    assert F.instance_norm(torch.randn(2, 3, 4), eps=-1e-9).shape == (2, 3, 4)


def test_linear_of_rows_without_features(torch):
    y = torch.nn.functional.linear(torch.ones(2, 4, 0), torch.ones(5, 0), torch.ones(5))
    assert y.equal(torch.ones(2, 4, 5))
