"""Calls inside composites: a profile lists those that PyTorch's operators make."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau
from flambeau.autograd.traces.inner_calls import parse, place
from flambeau.ops.registration.composites import COMPOSITES

# By name: a call of torch and three tensors of 4 x 4, the last of which requires a gradient.
CALLS = {
    "zeros": lambda t, x, y, w: t.zeros(3),
    "ones": lambda t, x, y, w: t.ones(2, 3),
    "full": lambda t, x, y, w: t.full((3,), 2.0),
    "rand": lambda t, x, y, w: t.rand(3),
    "randn_like": lambda t, x, y, w: t.randn_like(x),
    "zeros_like": lambda t, x, y, w: t.zeros_like(x),
    "empty_like": lambda t, x, y, w: t.empty_like(x),
    "clone": lambda t, x, y, w: x.clone(),
    "to": lambda t, x, y, w: x.to(t.float64),
    "to itself": lambda t, x, y, w: x.to(t.float32),
    "t": lambda t, x, y, w: x.t(),
    "transpose": lambda t, x, y, w: x.transpose(0, 1),
    "unsqueeze": lambda t, x, y, w: x.unsqueeze(0),
    "view_as": lambda t, x, y, w: x.view_as(x),
    "reshape": lambda t, x, y, w: x.reshape(16),
    "narrow": lambda t, x, y, w: x.narrow(0, 0, 2),
    "number": lambda t, x, y, w: x + 1,
    "number in place": lambda t, x, y, w: x.mul_(2),
    "tensors": lambda t, x, y, w: x + y,
    "power": lambda t, x, y, w: x**2,
    "relu": lambda t, x, y, w: t.relu(x),
    "softmax": lambda t, x, y, w: x.softmax(0),
    "sum": lambda t, x, y, w: x.sum(0),
    "stack": lambda t, x, y, w: t.stack([x, y]),
    "mm": lambda t, x, y, w: t.mm(x, y),
    "relu of modules": lambda t, x, y, w: t.nn.ReLU()(x),
    "matmul": lambda t, x, y, w: x @ y,
    "linear": lambda t, x, y, w: t.nn.functional.linear(x, y),
    "linear with a bias": lambda t, x, y, w: t.nn.functional.linear(x, y, x[0]),
    "backward": lambda t, x, y, w: (x * w).sin().backward(t.ones_like(x)),
}


def list_names(nodes: list[Any]) -> list[Any]:
    """Return the names of nodes and of those within them; allocations are left out."""
    return [(node.name, list_names(node.children)) for node in nodes
            if node.name != "[memory]" and "as_strided" not in node.name]


def profile_call(torch: Any, name: str, **options: Any) -> list[Any]:
    x, y = torch.ones(4, 4), torch.ones(4, 4)
    w = torch.ones(4, 4, requires_grad=True)
    with torch.profiler.profile(**options) as prof:
        CALLS[name](torch, x, y, w)
    return list_names(prof.profiler.kineto_results.experimental_event_tree())


@pytest.mark.parity
@pytest.mark.parametrize("name", list(CALLS))
def test_inner_calls_are_pytorchs(name: str) -> None:
    import torch

    assert profile_call(flambeau, name) == profile_call(torch, name)
    details: dict[str, Any] = {"record_shapes": True, "profile_memory": True}
    assert profile_call(flambeau, name, **details) == profile_call(torch, name, **details)


def test_an_operator_within_itself_is_one_event() -> None:
    w = flambeau.ones(4, 4, requires_grad=True)
    w.sum().backward()
    with flambeau.profiler.profile() as prof:
        w.sum().backward()  # adds to the gradient
    counts = {e.key: e.count for e in prof.key_averages()}
    assert counts["aten::add_"] == 1


@pytest.mark.parametrize("details", [False, True])
def test_a_factory_calls_empty_and_fills(details: bool) -> None:
    calls = profile_call(flambeau, "ones", record_shapes=details, profile_memory=details)
    assert calls == [("aten::ones", [("aten::empty", []), ("aten::fill_", [])])]


def test_every_declaration_is_read() -> None:
    declared = [text for text in COMPOSITES.values() if isinstance(text, str)]
    assert len(declared) > 40
    assert all(parse(text) for text in declared)


def test_spans_nest_and_cover_memory() -> None:
    calls = list(place(parse("a b*[c*[d] e] f"), 0, 1000, (400, 600)))
    spans = {timed.call.name: (timed.begin_ns, timed.end_ns) for timed in calls}
    assert [timed.call.name for timed in calls] == ["a", "b", "c", "d", "e", "f"]
    assert spans["a"][1] < spans["b"][0] <= spans["c"][0] < 400
    assert 600 < spans["c"][1] < spans["e"][0] <= spans["e"][1] <= spans["b"][1] < spans["f"][0]


def test_addresses_of_dead_tensors_are_not_used_again() -> None:
    with flambeau.profiler.profile(record_shapes=True) as prof:
        for _ in range(50):
            flambeau.ones(1)
    events = prof.profiler.kineto_results.events()
    seen = [e._event.extra_fields.inputs[0].impl_ptr for e in events if e.name() == "aten::fill_"]
    assert len(seen) == len(set(seen)) == 50


def test_nodes_and_their_evaluation_have_the_operators_sequence_number() -> None:
    x = flambeau.ones(2, requires_grad=True)
    with flambeau.profiler.profile() as prof:
        x.exp().sum().backward()
    numbers = {e.name: e.sequence_nr for e in prof.events()}
    assert numbers["aten::exp"] >= 0
    for name in ("ExpBackward0", "autograd::engine::evaluate_function: ExpBackward0"):
        assert numbers[name] == numbers["aten::exp"]
    assert numbers["aten::fill_"] == -1
    threads = {e.name: (e.thread, e.fwd_thread) for e in prof.events()}
    assert threads["aten::exp"][1] == 0
    assert threads["ExpBackward0"][1] == threads["aten::exp"][0] > 0


def test_labels_that_never_end() -> None:
    with flambeau.profiler.profile() as prof, flambeau.profiler.record_function("outer"):
        label = flambeau.profiler.record_function("inner")
        label.__enter__()
        flambeau.ones(1)
    tree = list_names(prof.profiler.kineto_results.experimental_event_tree())
    assert tree[0][0] == "outer" and tree[0][1][0][0] == "inner"
    assert tree[0][1][0][1][0][0] == "aten::ones"


def test_a_storage_in_an_event_does_not_live_longer() -> None:
    with flambeau.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        x = flambeau.ones(1)
        x.set_(flambeau.ones(1).storage())
        del x
    changes = [e.nbytes() for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]
    assert sum(changes) == 0


def test_functions_without_code_are_events() -> None:
    with flambeau.profiler.profile(with_stack=True) as prof:
        x = flambeau.ones(1)
        x[0] = x[0] + len([x])
    names = [e.name() for e in prof.profiler.kineto_results.events()]
    assert {"<built-in function ones>", "<built-in function len>"} <= set(names)
    assert not {"<built-in function setitem>", "<built-in function getitem>"} & set(names)
