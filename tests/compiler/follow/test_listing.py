"""A listing has the interface of a recorder: both run the recorders of library functions."""

import ast
import inspect
import itertools

import pytest

import flambeau as torch
from flambeau.compiler.capture import record_library, record_optimizer
from flambeau.compiler.follow.listing import LISTING, NOTHING


@pytest.mark.parametrize("listing", (LISTING, NOTHING), ids=("listing", "nothing"))
def test_recorders_of_library_functions_use_what_a_listing_has(listing):
    nodes = [node for module in (record_library, record_optimizer)
             for node in ast.walk(ast.parse(inspect.getsource(module)))]
    used = {node.attr for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            and node.value.id in ("r", "recorder")}
    assert "note_version" in used
    assert used <= set(dir(listing))


def test_a_followed_step_may_drop_the_state_of_its_optimizer():
    """Its optimizer begins anew in each call, while the call is listed."""
    def run(compiled):
        p = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.Adam([p], 0.1)

        def step(x):
            optimizer.zero_grad()
            (p * x).sum().backward()
            optimizer.step()
            optimizer.state.clear()
            return p.detach().clone()

        step = torch.compile(step, options={"mode": "now", "follow": True}) if compiled else step
        return torch.stack([step(torch.ones(2)) for _ in range(8)])

    torch.testing.assert_close(run(True), run(False))


@pytest.mark.parametrize("write", [
    lambda w: w.apply_(lambda v: v + 1), lambda w: w.map_(torch.ones(3), lambda a, b: a + b),
    lambda w: w.set_(torch.zeros(3)), lambda w: w.resize_(3).add_(1),
])
def test_what_listed_events_read_is_not_written_before_they_run(write):
    def make():
        weight, ticks = torch.ones(3), itertools.cycle("a")

        def step(x):
            next(ticks)
            y = weight * x
            write(weight)
            return y + 0, weight * 1

        return step

    call, eager = torch.compile(make(), options={"mode": "now", "follow": True}), make()
    for i in range(8):
        x = torch.full((3,), float(i))
        for actual, wanted in zip(call(x), eager(x), strict=True):
            assert torch.equal(actual, wanted)
