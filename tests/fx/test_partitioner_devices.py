"""Partitions by the memory of devices: the same nodes on the same devices as in PyTorch."""

import importlib

import pytest

import flambeau


def module(torch, name):
    return importlib.import_module(f"{torch.__name__}.fx.experimental.{name}")


def network(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.c = torch.nn.Parameter(torch.ones(4))

        def forward(self, a):
            x = a + self.c
            y = self.linear(x)
            z = x * 2 + y
            return z + y, z

    return Net(), [torch.ones(4)]


def recommender(torch):
    class Recommender(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.below = torch.nn.Linear(4, 4)
            self.tables = torch.nn.ModuleList(
                torch.nn.EmbeddingBag(1000, 4, mode="sum") for _ in range(3))
            self.above = torch.nn.Linear(16, 4)

        def forward(self, x, ids):
            rows = [table(ids) for table in self.tables]
            return self.above(torch.cat([self.below(x), *rows], 1))

    return Recommender(), [torch.ones(2, 4), torch.zeros(2, 3, dtype=torch.int64)]


def divided(torch, build, mode, memories, **settings):
    net, inputs = build(torch)
    sizes = importlib.import_module(f"{torch.__name__}.fx.passes.graph_manipulation")
    tools = module(torch, "partitioner_utils")
    partitioners = module(torch, "accelerator_partitioner")
    gm = torch.fx.symbolic_trace(net)
    sizes.get_size_of_all_nodes(gm, inputs)
    calls = [n for n in gm.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    latencies = {n: tools.NodeLatency(n.size_bytes.total_size, n.size_bytes.output_size)
                 for n in calls}
    devices = [tools.Device(str(i), memory, i) for i, memory in enumerate(memories)]
    config = tools.PartitionerConfig(
        devices, tools.PartitionMode[mode], 2.0, latencies, {n: i for i, n in enumerate(calls)},
        {i: [0] for i in range(len(calls))}, **settings)
    partitioner = partitioners.Partitioner()
    result = partitioner.partition_graph(gm, net, config)
    for ours, theirs in zip(result.module_with_submodules(*inputs), net(*inputs), strict=True):
        assert torch.allclose(ours, theirs)
    costs = tools.get_partition_to_latency_mapping(partitioner.partitions, latencies)
    return ([(sorted(n.name for n in p.nodes), p.used_mem_bytes, p.logical_device_ids)
             for p in partitioner.partitions],
            [(n.logical_device_ids, n.size_bytes) for n in result.dag.nodes],
            [tuple(costs[p]) for p in partitioner.partitions],
            tools.get_latency_of_partitioned_graph(partitioner.partitions, costs, 2.0))


@pytest.mark.parity
@pytest.mark.parametrize(("build", "mode", "memories", "settings"), [
    (network, "size_based", [400], {}),
    (network, "size_based", [130, 130, 130], {}),
    (network, "size_based", [150, 60, 130, 200], {"saturate_host": True}),
    (network, "cost_aware", [160, 160, 160], {}),
    (network, "aot_based", [200], {}),
    (recommender, "sparse_nn", [25_000, 25_000, 25_000], {}),
    (recommender, "sparse_nn", [34_000, 34_000], {}),
])
def test_partitions_are_pytorchs(build, mode, memories, settings, capsys):
    import torch

    ours = divided(flambeau, build, mode, memories, **settings)
    assert ours == divided(torch, build, mode, memories, **settings)


def test_exchanges_make_the_critical_path_shorter():
    by_size = divided(flambeau, network, "size_based", [130, 130, 130])
    exchanged = divided(flambeau, network, "kl_based", [130, 130, 130])
    assert exchanged[-1] <= by_size[-1]


@pytest.mark.parametrize(("build", "mode", "memories", "text"), [
    (network, "size_based", [], "No devices"),
    (network, "size_based", [20, 20], "Devices do not have enough memory for the module"),
    (network, "size_based", [60, 60, 60, 60, 60], "linear is too large to fit any device"),
    (recommender, "sparse_nn", [17_000, 34_000], "All devices must have same memory size!"),
])
def test_too_little_memory(build, mode, memories, text):
    with pytest.raises(RuntimeError, match=text):
        divided(flambeau, build, mode, memories)
