"""torch.onnx.ops: operators of ONNX in modules, and in the models that an export writes."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau
from flambeau.onnx import ops

pytest.importorskip("onnx")

QUERIES, KEYS = (2, 4, 3, 8), (2, 2, 5, 8)  # (batch, heads, length, features)
# Options of attention.
ATTENTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "causal": {"is_causal": True}, "scaled": {"scale": 0.3},
    "capped": {"softcap": 2.0, "qk_matmul_output_mode": 2},
    "with the mask": {"mask": "float", "qk_matmul_output_mode": 1},
    "weights": {"mask": "bool", "qk_matmul_output_mode": 3},
    "in float64": {"softmax_precision": 11}, "past": {"past": True},
}


def create_attention(torch: Any, mask: str = "", past: bool = False, **options: Any) -> Any:
    """Return the arguments and options of a call."""
    torch.manual_seed(0)
    q, k, v = torch.randn(QUERIES), torch.randn(KEYS), torch.randn(KEYS)
    length = KEYS[2] + 2 * past
    masks = {"": None, "bool": torch.arange(3 * length).reshape(3, length) % 3 > 0,
             "float": torch.arange(3.0 * length).reshape(3, length)}
    pasts = [torch.randn(2, 2, 2, 8) if past else None for _ in range(2)]
    return (q, k, v, masks[mask], *pasts), options


@pytest.mark.parity
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_pytorchs(name: str) -> None:
    import torch

    results = []
    for library in (flambeau, torch):
        args, options = create_attention(library, **ATTENTIONS[name])
        results.append(library.onnx.ops.attention(*args, **options))
    for actual, expected in zip(*results, strict=True):
        assert actual.shape == expected.shape
        assert abs(actual.numpy() - expected.numpy()).max() < 1e-5


def create_rotation(torch: Any, kind: str) -> Any:
    torch.manual_seed(1)
    angles, positions = torch.randn(2, 3, 4), None
    x = torch.randn(2, 3, 16) if kind == "flat" else torch.randn(2, 2, 3, 8)
    options: dict[str, Any] = {"num_heads": 2} if kind == "flat" else {}
    if kind == "interleaved":
        options["interleaved"] = True
    if kind == "partial":
        angles, options["rotary_embedding_dim"] = angles[..., :2], 4
    if kind == "positions":
        angles, positions = angles[0], torch.tensor([[0, 2, 1], [2, 2, 0]])
    return (x, angles.cos(), angles.sin(), positions), options


ROTATIONS = ("plain", "flat", "interleaved", "partial", "positions")


@pytest.mark.parity
@pytest.mark.parametrize("kind", ROTATIONS)
def test_rotations_are_pytorchs(kind: str) -> None:
    import torch

    results = []
    for library in (flambeau, torch):
        args, options = create_rotation(library, kind)
        results.append(library.onnx.ops.rotary_embedding(*args, **options))
    assert results[0].shape == results[1].shape
    assert abs(results[0].numpy() - results[1].numpy()).max() < 1e-6


class Rotation(flambeau.nn.Module):
    """Rotate, with options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, *args: Any) -> Any:
        """Compute it."""
        return ops.rotary_embedding(*args, **self.options) * 2


@pytest.mark.parametrize("kind", ROTATIONS)
@pytest.mark.parametrize("opset", [None, 23])
def test_rotations_are_nodes_from_opset_23_on(kind: str, opset: int | None) -> None:
    pytest.importorskip("onnxruntime")
    args, options = create_rotation(flambeau, kind)
    args = args if args[-1] is not None else args[:-1]
    module = Rotation(**options)
    program = flambeau.onnx.export(module, args, opset_version=opset)
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert ("RotaryEmbedding" in kinds) is (opset == 23)
    flambeau.testing.assert_close(program(*args)[0], module(*args))


class Attention(flambeau.nn.Module):
    """Attend, and return the result and the scores."""

    def forward(self, q: Any, k: Any) -> Any:
        """Compute it."""
        y, _, _, scores = ops.attention(q, k, k, scale=0.3)
        return y, scores


@pytest.mark.parametrize("opset", [None, 23])
def test_attention_is_a_node_from_opset_23_on(opset: int | None) -> None:
    pytest.importorskip("onnxruntime")
    q, k = flambeau.randn(QUERIES), flambeau.randn(KEYS)
    program = flambeau.onnx.export(Attention(), (q, k), opset_version=opset)
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert ("Attention" in kinds) is (opset == 23)
    for actual, expected in zip(program(q, k), Attention()(q, k), strict=True):
        flambeau.testing.assert_close(actual, expected)


class Symbolic(flambeau.nn.Module):
    """Operators of a domain that only a runtime knows."""

    def forward(self, x: Any) -> Any:
        """Compute it."""
        y = ops.symbolic("mine::One", [x, None], {"k": 1, "weights": [1.0, 2], "text": "t"},
                         dtype=x.dtype, shape=x.shape, version=2, metadata_props={"by": "me"})
        a, b = ops.symbolic_multi_out("mine::Two", [y], dtypes=[flambeau.int64, 1],
                                      shapes=[[2], x.shape])
        return y.relu() + b, a


def test_symbolic_operators_are_zeros_here_and_nodes_of_the_model() -> None:
    x = flambeau.ones(2, 3)
    y, a = Symbolic()(x)
    assert (y.tolist(), a.tolist()) == ([[0.0] * 3] * 2, [0, 0])
    dims = ({0: flambeau.export.Dim.AUTO},)
    proto = flambeau.onnx.export(Symbolic(), (x,), dynamic_shapes=dims).model_proto
    single, several = (n for n in proto.graph.node if n.domain == "mine")
    assert (single.op_type, several.op_type, len(several.output)) == ("One", "Two", 2)
    attributes = {entry.name: entry for entry in single.attribute}
    assert (attributes["k"].i, attributes["text"].s) == (1, b"t")
    assert list(attributes["weights"].floats) == [1.0, 2.0]
    assert [(e.key, e.value) for e in single.metadata_props] == [("by", "me")]
    assert {o.domain: o.version for o in proto.opset_import}["mine"] == 2
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param


def test_what_cannot_be_symbolic_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        ops.symbolic("mine::One", [], dtype=flambeau.quint8, shape=[1])
    with pytest.raises(RuntimeError, match="99 is invalid as an ONNX data type"):
        ops.symbolic("mine::One", [], dtype=99, shape=[1])
    with pytest.raises(ValueError, match="Unsupported attribute type"):
        ops.symbolic("mine::One", [], {"k": object()}, dtype=1, shape=[1])
    with pytest.raises(RuntimeError, match=r"Number of shapes \(0\) must match number of dtypes"):
        ops.symbolic_multi_out("mine::One", [], dtypes=[1], shapes=[])
