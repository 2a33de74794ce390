"""Profiles of memory: what each tensor is for, which versions it has, and when it lives."""

from __future__ import annotations

import gc
import gzip
import json

import pytest

import flambeau as torch
from flambeau._C import _profiler
from flambeau.profiler import _memory_profiler, profile
from flambeau.profiler._memory_profiler import Action, Category, SchemaMatcher, TensorKey
from flambeau.profiler._utils import traverse_dfs


def profile_all(function):
    """Return the profile of a call."""
    gc.collect()  # else the profile sees tensors of earlier ones die
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        function()
    return prof


def nodes_of(prof, name):
    tree = prof.profiler.kineto_results.experimental_event_tree()
    return [node for node in traverse_dfs(tree) if node.name == name]


def categories_of(memory, tensor):
    """Return the categories of all versions of a tensor."""
    address = tensor.untyped_storage().data_ptr()
    keys = [key for key, _ in memory._category_snapshot() if key.storage.ptr == address]
    last = max(key.storage.allocation_id for key in keys)
    return {category for (key, _), category in memory._category_snapshot().items()
            if key.storage.allocation_id == last}


class Training:
    """A small network, and what its last step computed."""

    def __init__(self):
        self.net = torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def step(self):
        self.x = torch.ones(16, 64)
        self.hidden = self.net[:2](self.x)
        self.net[2](self.hidden).square().mean().backward()
        self.optimizer.step()


def test_categories_of_a_training_step():
    training = Training()
    memory = profile_all(training.step)._memory_profile()
    assert categories_of(memory, training.x) == {Category.INPUT}
    assert categories_of(memory, training.hidden) == {Category.ACTIVATION}
    for parameter in training.net.parameters():
        assert categories_of(memory, parameter) == {Category.PARAMETER}
        assert categories_of(memory, parameter.grad) == {Category.GRADIENT}
        state = training.optimizer.state[parameter]["exp_avg"]
        assert categories_of(memory, state) == {Category.OPTIMIZER_STATE}


def test_parameters_of_a_loop_without_modules():
    w, x = torch.ones(40, requires_grad=True), torch.ones(40)

    def step():
        (x * w).sum().backward()
        with torch.no_grad():
            w.add_(w.grad, alpha=-0.1)

    memory = profile_all(step)._memory_profile()
    assert categories_of(memory, w) == {Category.PARAMETER}
    assert categories_of(memory, w.grad) == {Category.GRADIENT}


def test_graph_follows_versions():
    x = torch.ones(30)

    def write():
        with torch.no_grad():
            y = x + x
            y.mul_(x)
            del y

    graph = profile_all(write)._memory_profile()._data_flow_graph
    flows = [(node._event.name, sorted(v for _, v in node.inputs.values()),
              list(node.outputs.values()))
             for node in graph.flow_nodes]
    assert flows == [("aten::add", [0], [0]), ("aten::mul_", [0, 0], [1]), ("[memory]", [1], [])]


def test_timeline_balances():
    def allocate():
        results.append(torch.ones(1000))
        torch.ones(500)

    results = []
    timeline = profile_all(allocate)._memory_profile().timeline
    sizes = [(action, size) for _, action, _, size in timeline]
    assert sizes == [(Action.CREATE, 4000), (Action.CREATE, 2000), (Action.DESTROY, 2000)]
    times = [time for time, *_ in timeline]
    assert times == sorted(times)
    assert times[0] > 0


def test_what_a_profile_lacks_is_named():
    with profile(record_shapes=True) as prof:
        pass
    with pytest.raises(ValueError, match="^profile_memory=True, with_stack=True required for mem"):
        prof._memory_profile()


def test_ids_outlive_a_change_of_storage():
    x = torch.ones(4)

    def change():
        x.sin()
        x.set_(torch.ones(9).untyped_storage(), 0, (9,))
        x.cos()

    prof = profile_all(change)
    before, after = (nodes_of(prof, name)[0].extra_fields.inputs[0]
                     for name in ("aten::sin", "aten::cos"))
    assert (before.impl_ptr, before.id) == (after.impl_ptr, after.id)
    assert before.allocation_id != after.allocation_id
    assert (before.sizes, after.sizes) == ([4], [9])
    assert after.storage_data_ptr == x.untyped_storage().data_ptr()


def test_modules_and_optimizers_in_the_tree():
    training = Training()
    training.step()
    prof = profile_all(training.step)
    linear = nodes_of(prof, "nn.Module: Linear_0")[0]
    assert linear.tag is _profiler._EventType.PyCall
    assert linear.extra_fields.module.cls_name == "Linear"
    weight = linear.extra_fields.module.parameters[0][1]
    assert weight.storage_data_ptr == training.net[0].weight.data_ptr()
    tree = prof.profiler.kineto_results.experimental_event_tree()
    steps = [node.extra_fields.optimizer for node in traverse_dfs(tree)
             if node.tag == _profiler._EventType.PyCall and node.extra_fields.optimizer]
    assert [step.self_ptr for step in steps] == [id(training.optimizer)]
    names = [name for name, _ in steps[0].parameters[0][2]]
    assert names == list(training.optimizer.state[training.net[0].weight])


def test_gradients_are_the_same_arrays_with_a_profile():
    """An observer's references must not make the engine copy gradients."""
    w = torch.ones(20, requires_grad=True)
    addresses = []

    def run():
        y = w * 2
        y.register_hook(lambda g: None)
        y.sum().backward()
        addresses.append(w.grad.data_ptr())

    prof = profile_all(run)
    leaf = nodes_of(prof, "torch::autograd::AccumulateGrad")[0]
    assert leaf.extra_fields.inputs[0].storage_data_ptr == addresses[0]
    freed = [node for node in nodes_of(prof, "[memory]") if node.parent is leaf]
    assert not freed  # nothing was allocated for a copy


def test_overloads_and_written_arguments():
    a, b = torch.ones(3), torch.ones(3)

    def call():
        a.mul_(b)
        torch.cat([a, b])
        torch.sin(a, out=b)

    prof = profile_all(call)
    expected = {"aten::mul_": ("Tensor", (True, False)), "aten::cat": ("", (False, False)),
                "aten::sin": ("out", (False, True))}
    for name, (overload, written) in expected.items():
        fields = nodes_of(prof, name)[0].extra_fields
        assert [s.overload_name for s in SchemaMatcher.match_schemas(fields)] == [overload]
        assert SchemaMatcher.inputs_are_mutable(fields) == written
    assert SchemaMatcher.lookup_schemas("label") is None
    assert SchemaMatcher.lookup_schemas("own::label") == ()


def test_timelines_as_files(tmp_path):
    prof = profile_all(Training().step)
    prof.export_memory_timeline(str(tmp_path / "memory.json"))
    times, totals = json.loads((tmp_path / "memory.json").read_text())
    assert times == sorted(times)
    assert all(len(total) == 8 and min(total) >= 0 for total in totals)
    parameters = [total[Category.PARAMETER.value] for total in totals]
    assert max(parameters) == 4 * (64 * 32 + 32 + 32 * 8 + 8)
    prof.export_memory_timeline(str(tmp_path / "memory.raw.json.gz"))
    raw = json.loads(gzip.decompress((tmp_path / "memory.raw.json.gz").read_bytes()))
    assert {action for _, action, _, _ in raw} >= {1, 2, 3}
    prof.export_memory_timeline(str(tmp_path / "memory.html"))
    page = (tmp_path / "memory.html").read_text()
    assert page.count("<polygon") == 8
    assert "Optimizer state" in page


def test_keys_of_tensors_without_memory():
    assert TensorKey.from_tensor(None) is None
    assert _memory_profiler.TensorAndID


def test_frees_of_what_an_earlier_profile_saw():
    with profile(profile_memory=True):
        x = torch.empty(3, 997)
    with profile(profile_memory=True) as prof:
        del x
    sizes = [node.extra_fields.alloc_size for node in nodes_of(prof, "[memory]")]
    assert sizes.count(-4 * 3 * 997) == 1  # besides garbage of earlier profiles


def test_nested_tensors_have_no_sizes():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    prof = profile_all(lambda: torch.nn.functional.relu(nested))
    assert nodes_of(prof, "aten::relu")
