"""torch.jit._get_trace_graph, which counters of FLOPs walk: names, arguments, shapes, scopes."""

from __future__ import annotations


def kinds(graph):
    return [node.kind() for node in graph.nodes() if not node.kind().startswith("prim::")]


def test_layers_have_torchscripts_names(torch):
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5), nn.LayerNorm(5), nn.GELU(),
        nn.Dropout(0.1)).eval()
    graph, y = torch.jit._get_trace_graph(net, (torch.ones(2, 3, 8, 8),))
    assert kinds(graph) == ["aten::" + name for name in (
        "_convolution", "batch_norm", "relu_", "max_pool2d", "adaptive_avg_pool2d", "flatten",
        "linear", "layer_norm", "gelu", "dropout")]
    convolution = next(n for n in graph.nodes() if n.kind() == "aten::_convolution")
    inputs = list(convolution.inputs())
    assert len(inputs) == 13
    assert [value.type().sizes() for value in inputs[:3]] == [[2, 3, 8, 8], [4, 3, 3, 3], [4]]
    assert inputs[6].toIValue() is False
    assert convolution.output().type().sizes() == [2, 4, 6, 6]
    norm = next(n for n in graph.nodes() if n.kind() == "aten::batch_norm")
    assert list(norm.inputs())[5].toIValue() is False
    assert y.shape == (2, 5)


def test_functions_and_operators(torch):
    def call(x):
        y = torch.einsum("ij,kj->ik", x, x)
        return torch.cat([y @ y.t(), y * 2]).view(-1).softmax(0)

    graph, _ = torch.jit._get_trace_graph(call, (torch.ones(2, 3),))
    assert kinds(graph) == ["aten::" + name for name in (
        "einsum", "t", "matmul", "mul", "cat", "view", "softmax")]
    einsum = next(n for n in graph.nodes() if n.kind() == "aten::einsum")
    equation, operands = list(einsum.inputs())[:2]
    assert equation.toIValue() == "ij,kj->ik"
    assert [v.type().sizes() for v in operands.node().inputs()] == [[2, 3]] * 2
    matmul = next(n for n in graph.nodes() if n.kind() == "aten::matmul")
    assert [v.type().sizes() for v in matmul.inputs()] == [[2, 2]] * 2


def test_hooks_name_scopes(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())

    def enter(name):
        def hook(module, inputs):
            torch._C._get_tracing_state().push_scope(name)

        return hook

    def leave(module, inputs, output):
        torch._C._get_tracing_state().pop_scope()

    for name, module in net.named_modules():
        module.register_forward_pre_hook(enter(name or "net"))
        module.register_forward_hook(leave)
    graph, _ = torch.jit._get_trace_graph(net, (torch.ones(1, 2),))
    scopes = {node.kind(): node.scopeName() for node in graph.nodes()}
    assert scopes["aten::linear"] == "net/0"
    assert scopes["aten::relu"] == "net/1"
    assert torch._C._get_tracing_state() is None


def test_graph_of_a_traced_layer(torch):
    traced = torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2))
    assert "aten::linear" in [node.kind() for node in traced.graph.nodes()]
    assert "aten::linear" in str(traced.graph)
