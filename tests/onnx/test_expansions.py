"""Operators without a conversion of their own: their formulas, and composites' bodies."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

F = nn.functional


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def rows(seed=0):
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))


CALLS = [
    lambda x, y: x.addcmul(x, y, value=0.5).addcdiv(x, y.exp()).lerp(y, 0.25),
    lambda x, y: (torch.xlogy(x, y.exp()), torch.special.xlog1py(x, y.abs()), x.atan2(y)),
    lambda x, y: (x.logaddexp(y), x.sinc(), x.frac(), x.fmod(y), x.remainder(y), x.copysign(y)),
    lambda x, y: (x.isclose(y), x.isfinite(), x.signbit(), torch.fmax(x, y), x.round(decimals=1)),
    lambda x, y: (F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.l1_loss(x, y),
                  F.kl_div(x, y.softmax(1)), F.soft_margin_loss(x, y.sign())),
    lambda x, y: (F.cross_entropy(x, torch.tensor([0, 3, 1])), F.pairwise_distance(x, y),
                  F.cosine_similarity(x, y), F.normalize(x)),
    lambda x, y: (torch.linalg.vector_norm(x, 3), x.norm(), torch.cdist(x, y), torch.dist(x, y)),
    lambda x, y: (torch.kron(x, y), torch.outer(x[0], y[0]), torch.tensordot(x, y, 2)),
    lambda x, y: (x.hsplit(2), x.vsplit(3), x.rot90(), x.fliplr(), torch.vstack([x, y])),
    lambda x, y: (x.diagonal(1), x.unfold(1, 2, 1), torch.diag_embed(x, 1), x.trace()),
    lambda x, y: (x.sort(1), x.median(1), x.kthvalue(2), x.amax(1)),
    lambda x, y: (x.scatter(1, torch.tensor([[0, 1]]), y), x.index_fill(1, torch.tensor([1]), 2.0),
                  x.index_add(0, torch.tensor([1]), y[:1]), x.take(torch.tensor([5, 1]))),
    lambda x, y: (x.index_put((torch.tensor([0, 1]),), y[0]), x[:, torch.tensor([1, 3])],
                  x.select_scatter(y[0], 0, 1)),
    lambda x, y: (torch.var_mean(x, 1), torch.std_mean(x, 1), x.std(True), x.aminmax(dim=1)),
    lambda x, y: (x > 0).logical_and(y > 0).any(1).all(),
    lambda x, y: (x.int() // 2, x.int() & y.int(), x.int() % 3, x.int() << 1),
    lambda x, y: (F.pad(x, (1, -1)), F.pad(x[None], (1, 2), mode="circular")),
    lambda x, y: (x[0, 0].sum(0), x[0, 0].cumsum(0), x[0, 0].max(0), x[0, 0].permute(())),
]


@pytest.mark.parametrize("function", CALLS)
def test_the_model_computes_what_the_program_computes(function):
    program = torch.onnx.export(Call(function), (rows(), rows(1)))
    torch.onnx.testing.assert_onnx_program(program, atol=1e-4, rtol=1e-4)
    torch.onnx.testing.assert_onnx_program(
        program, args=(rows(2), rows(3)), atol=1e-4, rtol=1e-4)


class Losses(nn.Module):
    def forward(self, x, y):
        return F.normalize(x).addcmul(x, y), F.mse_loss(x, y), x.flipud(), torch.var_mean(x, 1)


def test_expansions_follow_dynamic_sizes():
    batch = {0: Dim("batch")}
    program = torch.onnx.export(Losses(), (rows(), rows(1)), dynamic_shapes=(batch, batch))
    more = torch.cat([rows(2), rows(3)]), torch.cat([rows(4), rows(5)])
    torch.onnx.testing.assert_onnx_program(program, args=more, atol=1e-5, rtol=1e-5)


def test_a_program_is_expanded_like_its_module():
    batch = {0: Dim("batch")}
    exported = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.Tanhshrink(), nn.Hardshrink()),
                                   (rows(),), dynamic_shapes=(batch,))
    program = torch.onnx.export(exported)
    more = torch.cat([rows(2), rows(3)])
    torch.onnx.testing.assert_onnx_program(program, args=(more,), strategy=None)
    assert program.exported_program is exported


def test_a_body_that_computes_unrecorded_is_refused():
    with pytest.raises(torch.onnx.OnnxExporterError, match="linalg_qr"):
        torch.onnx.export(Call(lambda x: torch.linalg.qr(x)), (torch.ones(2, 2),))


def test_weights_names_and_values_of_a_program():
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    program = torch.onnx.export(model, (rows(),), input_names=["x"], output_names=["y"])
    assert torch.equal(program(rows())[0], program.call_reference(rows())[0])
    name = program.model_proto.graph.node[0].output[0]
    hidden, = program.compute_values([name], (rows(),))
    assert torch.allclose(hidden, model[0](rows()))
    with pytest.raises(ValueError, match="Value 'nothing' not found in the model"):
        program.compute_values(["nothing"], (rows(),))
    program.apply_weights({"0.bias": torch.full((2,), 7.0)})
    with torch.no_grad():
        model[0].bias.fill_(7.0)
    assert torch.allclose(program(rows())[0], model(rows()))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="'other' not found"):
        program.apply_weights({"other": rows()})


def test_files_without_weights_and_with_weights_as_inputs(tmp_path):
    import onnx

    program = torch.onnx.export(nn.Linear(4, 2), (rows(),))
    program.save(tmp_path / "empty.onnx", include_initializers=False,
                 keep_initializers_as_inputs=True)
    graph = onnx.load(tmp_path / "empty.onnx").graph
    assert len(graph.initializer) == 0
    assert {value.name for value in graph.input} >= {"weight", "bias"}
    program.save(tmp_path / "beside.onnx", external_data=True)
    assert (tmp_path / "beside.onnx.data").exists()
    assert len(program.model_proto.graph.initializer) == 2


def test_verification_measures_differences():
    from flambeau.onnx.verification import verify_onnx_program

    program = torch.onnx.export(nn.ReLU(), (rows(),))
    info, = verify_onnx_program(program)
    assert info.max_abs_diff == 0
    assert info.asdict()["expected_dtype"] == "torch.float32"


def test_an_export_knows_that_it_runs():
    seen = []

    def function(x):
        seen.append(torch.onnx.is_in_onnx_export())
        return x + 1

    torch.onnx.export(Call(function), (rows(),))
    assert seen[0]
    assert not torch.onnx.is_in_onnx_export()
