"""Every layer: how it prints, what its state_dict holds, its first weights, its errors.

layers.txt and layer_errors.txt hold what PyTorch 2.13 answers; the tests run against PyTorch as
well where it is installed, which checks the tables.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import warnings

import pytest

HERE = pathlib.Path(__file__).parent
CONTAINERS = {
    "Container", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList",
    "Sequential",
}


def table(name):
    """(expression, expected answer) of each entry of a file."""
    blocks = (HERE / name).read_text().strip().split("\n\n>>> ")
    pairs = (block.removeprefix(">>> ").split("\n", 1) for block in blocks)
    return [pytest.param(call, answer.strip(), id=call) for call, answer in pairs]


LAYERS = table("layers.txt")
WITH_STATE = [p.id for p in LAYERS if " torch." in p.values[1] and "?" not in p.values[1]]


def built(call, torch):
    """The layer that the expression makes after manual_seed(0)."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(call, {"nn": torch.nn, "torch": torch})


def describe(layer, torch):
    lines = [repr(layer)]
    if isinstance(layer, torch.nn.Module):
        for key, value in layer.state_dict().items():
            lazy = torch.nn.parameter.is_lazy(value)
            lines.append(f"{key}: {'?' if lazy else tuple(value.shape)} {value.dtype}")
    return "\n".join(lines)


@pytest.mark.parametrize(("call", "expected"), LAYERS)
def test_repr_and_state(torch, call, expected):
    assert describe(built(call, torch), torch) == expected


def test_the_table_has_every_layer(torch):
    named = {name for param in LAYERS for name in re.findall(r"nn\.(\w+)", param.values[0])}
    assert set(torch.nn.modules.__all__) - named == CONTAINERS
    assert all(hasattr(torch.nn, name) for name in torch.nn.modules.__all__)


@pytest.mark.parametrize(("call", "expected"), table("layer_errors.txt"))
def test_errors(torch, call, expected):
    kind, _, message = expected.partition(": ")
    with pytest.raises(Exception, match=re.escape(message.strip())) as caught:
        built(call, torch)
    assert type(caught.value).__name__ == kind


@pytest.mark.parity
@pytest.mark.parametrize("call", WITH_STATE)
def test_the_same_seed_gives_the_same_weights(call):
    torch, ours = pytest.importorskip("torch"), importlib.import_module("flambeau")
    expected, drawn = built(call, torch), torch.rand(1).item()
    actual = built(call, ours)
    assert ours.rand(1).item() == drawn  # as many numbers were drawn
    for key, value in expected.state_dict().items():
        mine = torch.from_numpy(actual.state_dict()[key].numpy())
        torch.testing.assert_close(mine, value, rtol=0, atol=1e-7, msg=lambda m, k=key: f"{k}: {m}")


# The first weights of a few layers after manual_seed(0), for where PyTorch is not installed.
FIRST = [
    ("nn.Linear(3, 2)", "weight", [-0.0043225, 0.3097158, -0.4751853]),
    ("nn.Linear(3, 2)", "bias", [-0.0114391, 0.4577749]),
    ("nn.Conv2d(2, 3, 3)", "weight", [-0.0017647, 0.1264410, -0.1939936]),
    ("nn.ConvTranspose1d(2, 3, 3)", "bias", [-0.2259804, -0.1451543, 0.1210724]),
    ("nn.LSTM(3, 4)", "weight_hh_l0", [-0.2217475, -0.0180412, 0.3197803]),
    ("nn.GRUCell(3, 4)", "bias_hh", [0.2496575, 0.1046507, -0.3900420]),
    ("nn.Embedding(4, 3)", "weight", [1.5409961, -0.2934289, -2.1787894]),
    ("nn.Bilinear(2, 3, 2)", "weight", [-0.0052940, 0.3793229, -0.5819808]),
    ("nn.MultiheadAttention(4, 2, add_bias_kv=True)", "bias_v", [0.1366839, -0.4590500]),
    (
        "nn.Transformer(4, 2, 1, 1, 8)",
        "decoder.layers.0.linear2.weight",
        [-0.4584525, 0.6762263, -0.4111822],
    ),
]


@pytest.mark.parametrize(("call", "key", "expected"), FIRST)
def test_first_weights(torch, call, key, expected):
    weight = built(call, torch).state_dict()[key].flatten()[: len(expected)]
    assert weight.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "call", ["nn.LazyLinear(3)", "nn.LazyConv2d(6, 3)", "nn.LazyBatchNorm1d()"]
)
def test_lazy_layers_say_that_they_have_no_shape(torch, call):
    layer = built(call, torch)
    assert layer.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        layer.weight.shape  # noqa: B018
