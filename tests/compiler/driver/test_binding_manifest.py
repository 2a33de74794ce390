"""A program of an earlier process is bound by its manifest, if that fits the call."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

import flambeau as torch
from flambeau.compiler.driver import (
    binding_manifest, installation, pipeline, program_builder, program_cache,
)
from flambeau.compiler.ir import source_hashes
from flambeau.compiler.trace.trace_signature import TraceSignature

SOURCE = """
import flambeau as torch
from flambeau import nn
import flambeau.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(7, 12)
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten())
        self.head = nn.Linear(4 * 4 + 12, 5, bias=False)

    def forward(self, x, k):
        return self.head(torch.cat([self.net(x), self.rows(k)], 1))

def training(form="tuple", make=torch.optim.Adam):
    torch.manual_seed(3)
    net = Net()
    half = [{"params": net.head.parameters(), "lr": 0.1}, {"params": net.net.parameters()}, {"params": net.rows.parameters()}]
    optimizer = make(half, lr=0.01)
    def step(x, k, y, rate=2):
        optimizer.zero_grad()
        out = net(x, k)
        loss = F.cross_entropy(out, y) * rate
        loss.backward()
        optimizer.step()
        if form == "tuple":
            return loss, out.detach().t(), x
        return {"loss": loss, "parts": [out.detach(), None, 3, x[0]]}
    return net, optimizer, step
"""  # noqa: E501


@pytest.fixture(autouse=True)
def _no_signatures(tmp_path, monkeypatch):
    """There are some here, in a cache of the test's own, where every program is kept."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(pipeline, "MIN_CACHED_PLAN_SECONDS", 0.0)


@pytest.fixture
def steps(tmp_path):
    """The module of the step."""
    path = tmp_path / "steps.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("steps", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def graphs(monkeypatch):
    """How many graphs were made of traces."""
    graphs_built, original = [], program_builder.trace_to_graph

    def trace_to_graph(*args):
        graphs_built.append(args)
        return original(*args)

    monkeypatch.setattr(program_builder, "trace_to_graph", trace_to_graph)
    return graphs_built


def batch(k=0):
    torch.manual_seed(k)
    return torch.randn(6, 3, 4, 4), torch.randint(7, (6,)), torch.randint(5, (6,))


def arrays(x):
    if isinstance(x, torch.Tensor):
        return [x.detach().numpy().copy()]
    if isinstance(x, dict):
        return arrays(list(x.values()))
    if isinstance(x, (list, tuple)):
        return [a for part in x for a in arrays(part)]
    return []


def trained(steps, calls=4, more=(), late=batch, options=None, **form):
    """What a training gives, bit by bit."""
    net, optimizer, step = steps.training(**form)
    step = torch.compile(step, options={"mode": "now", **(options or {})})
    arrays_seen = []
    for k in range(calls):
        arrays_seen += arrays(step(*late(k), *more))
        arrays_seen += [p.grad.numpy().copy() for p in net.parameters()]
        assert [p.grad.stride() for p in net.parameters()] == [p.stride() for p in net.parameters()]
    assert step._programs
    arrays_seen += [t.numpy().copy() for t in net.state_dict().values()]
    states = [t.numpy().copy() for s in optimizer.state.values() for t in s.values()]
    return step, arrays_seen + states


def same(a, b):
    return len(a) == len(b) and all(map(np.array_equal, a, b))


@pytest.mark.parametrize(("form", "make", "options"), [
    ("tuple", torch.optim.Adam, {}), ("dict", torch.optim.SGD, {}),
    ("dict", torch.optim.AdamW, {"random": "counter"}),
], ids=["tuple", "dict", "counter"])
def test_a_recipe_needs_no_graph_and_changes_no_bit(steps, graphs, form, make, options):
    settings_of_run = {"form": form, "make": make, "options": options}
    _, cold = trained(steps, **settings_of_run)
    graphs.clear()
    step, warm = trained(steps, **settings_of_run)
    assert not graphs
    assert same(cold, warm)
    assert "kernels" in step.explain(4)  # of the graph on disk
    assert not graphs


def test_batches_out_of_one_memory_are_arguments_as_ever(steps, graphs):
    data = torch.arange(7 * 6 * 48.0).reshape(42, 3, 4, 4).sin()
    late = lambda k: (data[6 * k + 6 : 6 * k + 12], *batch(k)[1:])  # noqa: E731
    _, cold = trained(steps, late=late)
    graphs.clear()
    _, warm = trained(steps, late=late)
    assert not graphs
    assert same(cold, warm)


def test_labels_that_are_reshaped_are_looked_at_in_each_call(steps, graphs):
    results = []
    for _ in range(2):
        graphs.clear()
        net, _, _ = steps.training()

        def step(x, k, y, net=net):
            with torch.no_grad():
                return torch.nn.functional.cross_entropy(net(x, k), y.t().flatten() - 1)

        step = torch.compile(step, mode="now")
        x, k, y = batch()
        y = y.reshape(2, 3) + 1
        results.append([step(x, k, y).numpy() for _ in range(2)])
        assert step._programs
        with pytest.raises(IndexError):
            step(x, k, y + 7)
    assert not graphs
    assert same(*results)


@pytest.mark.parametrize("change", ["another result", "another gradient", "other memory"])
def test_other_circumstances_need_a_graph(steps, graphs, monkeypatch, change):
    _, cold = trained(steps)
    graphs.clear()
    original, bindings = binding_manifest.read_manifest, []

    def followed(manifests, trace, leaves):
        manifests = json.loads(json.dumps(manifests))
        manifest = manifests[0]
        where = {"another result": manifest[5][0], "another gradient": manifest[8][0],
                 "other memory": manifest[4]}
        where[change][-1] = "something else"
        bindings.append(original(manifests, trace, leaves))
        return bindings[-1]

    monkeypatch.setattr(program_builder, "read_manifest", followed)
    _, warm = trained(steps)
    assert bindings == [None]
    assert len(graphs) == 1
    assert same(cold, warm)


def test_a_table_that_is_gone_is_made_anew(steps, graphs, monkeypatch):
    _, cold = trained(steps)
    graphs.clear()
    with monkeypatch.context() as patch:
        patch.setattr(program_cache, "load_table", lambda key: None)
        _, warm = trained(steps)
    assert len(graphs) == 1
    assert same(cold, warm)


def test_other_sources_of_operators_match_no_signature(steps, graphs, monkeypatch):
    trained(steps)
    graphs.clear()
    monkeypatch.setattr(source_hashes, "hash_sources", lambda *paths: "others")
    trained(steps)
    assert graphs


def recipes(monkeypatch, step, *args):
    """The recipes of what a step keeps."""
    manifests, original = [], installation.store_signature

    def keep(key, signature: TraceSignature):
        manifests.append(signature.manifest)
        original(key, signature)

    monkeypatch.setattr(installation, "store_signature", keep)
    for _ in range(3):
        step(*args)
    return manifests


def test_labels_of_the_step_s_own_are_checked_in_each_call(steps):
    """Whether they are within bounds depends on what they are at that moment."""
    net, optimizer, _ = steps.training()
    x, k, y = batch()

    def step(x):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x, k), y)
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(step, mode="now")
    for _ in range(4):
        compiled(x)
    assert compiled.ready
    y[0] = 99
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x)


@pytest.mark.parametrize("form", ["the same", "parts of one"])
def test_results_on_one_memory_stay_on_it(steps, form):
    net, _, _ = steps.training()
    x, k, _ = batch()

    def step(x):
        with torch.no_grad():
            out = net(x, k)
        return (out, out) if form == "the same" else (out[:2], out[2:])

    compiled = torch.compile(step, mode="now")
    for _ in range(4):
        first, second = compiled(x)
    assert compiled.ready
    assert (first is second) is (form == "the same")
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def test_formulas_from_elsewhere_have_no_recipe(steps, monkeypatch):
    class Mine(torch.optim.SGD):
        @staticmethod
        def _flambeau_formula(*args):
            return torch.optim.SGD._flambeau_formula(*args)

    _, _, step = steps.training(make=Mine)
    assert recipes(monkeypatch, torch.compile(step, mode="now"), *batch()) == [None]
