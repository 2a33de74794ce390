"""Objects of the library from outside, whose settings a step uses: gradient scalers, distributions,
transforms. They may change between calls."""

from __future__ import annotations

import pytest

from .source_scenes import compare_source

_SCALER = "T.amp.GradScaler('cpu', init_scale=4.0)"
_NORMAL = "T.distributions.Normal(T.zeros(2), T.ones(2))"

# By name: the object `o`, an expression, what happens between calls.
SCENES = {
    "scaled_loss": (_SCALER, "o.scale(x)", "o.update(7.0)"),
    "get_scale": (_SCALER, "o.get_scale()", "o.update(7.0)"),
    "is_enabled": (_SCALER, "o.is_enabled()", "o._enabled = False"),
    "growth": (_SCALER, "o.get_growth_interval()", "o.set_growth_interval(5)"),
    "state_of_a_scaler": (_SCALER, "o.state_dict()['scale']", "o.update(7.0)"),
    "location": (_NORMAL, "o.log_prob(x)", "o.loc = T.ones(2) * 3"),
    "location_of_a_base": (f"T.distributions.Independent({_NORMAL}, 1)", "o.log_prob(x)",
                           "o.base_dist.loc = T.ones(2) * 3"),
    "dimensions": (f"T.distributions.Independent({_NORMAL}, 1)", "o.log_prob(x)",
                   "o.reinterpreted_batch_ndims = 0"),
    "divergence": (_NORMAL, f"T.distributions.kl_divergence({_NORMAL}, o)",
                   "o.loc = T.tensor(8.0)"),
    "transform": ("T.distributions.AffineTransform(1.0, 2.0)", "o(x)", "o.loc = 5.0"),
    "transform_in_a_list": (
        "T.distributions.ComposeTransform([T.distributions.AffineTransform(1.0, 2.0)])", "o(x)",
        "o.parts[0].loc = 8.0"),
    "property": ("T.distributions.AffineTransform(1.0, 2.0)", "o.event_dim", "o._event_dim = 1"),
}


@pytest.mark.parametrize("name", SCENES)
def test_settings_of_an_object_are_read_in_each_call(name: str) -> None:
    start, expression, change = SCENES[name]
    compare_source(f"o = {start}\ndef f(x): return x * 2, {expression}", change)


def test_a_scaler_that_the_step_updates() -> None:
    compare_source(f"""
        o = {_SCALER}
        o.set_growth_interval(2)
        p = T.nn.Parameter(T.ones(2))
        optimizer = T.optim.SGD([p], 0.1)
        def f(x):
            optimizer.zero_grad()
            o.scale((p * x).sum()).backward()
            o.step(optimizer)
            o.update()
            return p.detach().clone()
        """, "o.update(3.0)", "o.get_scale(), o._flambeau_stepped, o._growth_tracker")


def test_a_scaler_whose_growth_is_counted_outside_keeps_its_program() -> None:
    import flambeau as torch

    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    step = torch.compile(lambda x: scaler.scale(x) + 1, options={"mode": "now"})
    for _ in range(6):
        assert step(torch.ones(2)).tolist() == [5, 5]
        scaler._growth_tracker += 1
    assert "program, run" in str(step.explain()) or "kernel" in str(step.explain())
    assert len(step._programs) == 1
