"""The state of the default generator, read and states by a step, is that of each call."""

from __future__ import annotations

import pytest

import flambeau as torch


@pytest.mark.parametrize("read", [torch.get_rng_state, torch.random.get_rng_state])
def test_a_state_that_a_step_keeps(read):
    def run(transform):
        torch.manual_seed(0)
        states = {}

        def step(x):
            states["state"] = read()
            return x + torch.rand(4)

        step, seen = transform(step), []
        for call in range(8):
            if call in (4, 6):
                torch.set_rng_state(states["state"])
            seen.append(step(torch.zeros(4)).tolist())
        return seen

    assert run(lambda f: torch.compile(f, mode="now", backend="evaluate")) == run(lambda f: f)
