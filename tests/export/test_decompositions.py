"""run_decompositions: which operators remain, and that they compute the same."""

import pytest
from flambeau.export import Dim, export, load, save

import flambeau as torch
from flambeau import nn

F = nn.functional


def called(program):
    return [n.target.__name__ for n in program.graph.nodes
            if n.op == "call_function" and hasattr(n.target, "overloadpacket")]


def decomposed(module, *args, **options):
    """The operators that remain; the results are those of the module."""
    program = export(module, args, dynamic_shapes=options.pop("dynamic_shapes", None))
    core = program.run_decompositions(**options)
    module.eval()
    expected, actual = module(*args), core.module()(*args)
    for x, y in zip(expected if isinstance(expected, tuple) else [expected],
                    actual if isinstance(actual, tuple) else [actual], strict=True):
        torch.testing.assert_close(x, y)
    return core


def test_layers_of_a_convolutional_net():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(),
                        nn.Linear(4, 5), nn.LayerNorm(5)).eval()
    core = decomposed(net, torch.randn(2, 3, 8, 8))
    assert called(core) == [
        "convolution.default", "_native_batch_norm_legit_no_training.default", "relu.default",
        "max_pool2d_with_indices.default", "mean.dim", "view.default", "clone.default",
        "permute.default", "addmm.default", "native_layer_norm.default",
    ]
    assert core.graph_signature.user_outputs == (core.graph.output_node().args[0][0].name,)


class Shapes(nn.Module):
    def forward(self, x):
        q = x.reshape(2, 3, 4).transpose(1, 2)
        a, b = x.chunk(2, 1)
        first, _ = x.unbind(0)
        return (F.scaled_dot_product_attention(q, q, q, is_causal=True), a @ b.t(), first,
                torch.stack([a, b]), F.softmax(x, -1) + F.log_softmax(x, 1), F.silu(x),
                q.matmul(q.transpose(1, 2)[0]), x @ first, torch.flatten(q, 1))


def test_functions_and_shapes():
    core = decomposed(Shapes(), torch.randn(2, 12))
    gone = {"chunk", "matmul", "softmax", "reshape", "transpose", "unbind", "stack", "flatten",
            "log_softmax", "silu", "scaled_dot_product_attention", "t"}
    assert not gone & {name.partition(".")[0] for name in called(core)}


def test_dynamic_sizes_stay_dynamic(tmp_path):
    net = nn.Sequential(nn.Linear(3, 2), nn.Flatten())
    shapes = ({0: Dim("batch", min=2, max=9)},)
    core = decomposed(net, torch.randn(4, 5, 3), dynamic_shapes=shapes)
    x = torch.randn(7, 5, 3)
    torch.testing.assert_close(core.module()(x), net(x))
    save(core, tmp_path / "core.pt2")
    loaded = load(tmp_path / "core.pt2")
    torch.testing.assert_close(loaded.module()(x), net(x))
    torch.testing.assert_close(loaded.run_decompositions().module()(x), net(x))
    loaded.example_inputs = None
    with pytest.raises(NotImplementedError, match="no example inputs"):
        loaded.run_decompositions()


def test_a_table_of_ones_own():
    def gelu(x, approximate="none"):
        return x * torch.sigmoid(1.702 * x)

    program = export(nn.GELU(), (torch.ones(2),))
    core = program.run_decompositions({torch.ops.aten.gelu.default: gelu})
    assert called(core) == ["mul.Tensor", "sigmoid.default", "mul.Tensor"]
    assert torch.equal(core.module()(torch.ones(2)), gelu(torch.ones(2)))


def test_a_write_that_others_see_stays():
    class Written(nn.Module):
        def forward(self, x):
            y = x + 1
            z = y.view(-1)
            y.relu_()
            return z

    assert "relu_.default" in called(decomposed(Written(), -torch.ones(2, 2)))
