"""Random training programs do compiled what they do eagerly, whatever changes around them."""

from __future__ import annotations

import pytest

from .random_training import TrainingProgram, run_both
from .scenario import assert_same


def _check(seed: int, **options) -> None:
    program = TrainingProgram(seed)
    eager, compiled = run_both(program, **options)
    try:
        assert_same(compiled, eager, f"seed {seed}")
    except AssertionError as error:
        pytest.fail(f"{error}\n{program}", pytrace=False)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    _check(seed, backend="evaluate")


def test_an_update_that_raises():
    """Calls that are followed later raise in the optimizer's step, too, not after it."""
    program = TrainingProgram(500029)
    program.way, program.net = "followed", "deep"
    program.optimizer = "torch.optim.AdamW(net.parameters(), lr=0.02, amsgrad=True)"
    program.changes = [(11, "net.double()")]
    program.source = """def step(x, y):
    x = x + torch.from_numpy(rng.standard_normal(4).astype('float32'))
    x = x.to(next(net.parameters()).dtype); y = y.to(x.dtype)
    if st['i'] % cfg['cycle'] == 0: opt.zero_grad()
    loss = F.mse_loss(net(x), y) + cfg['decay'] * sum(p.pow(2).sum() for p in net.parameters())
    loss.backward()
    opt.step()
    results.append(loss.detach())
    total[0] += loss.item() * len(x)
    return loss.item()
"""
    eager, compiled = run_both(program, backend="evaluate")
    assert ["RuntimeError", "expected dtype torch.float32 for `end` but got dtype torch.float64"
            ] in eager
    assert_same(compiled, eager, "an update that raises")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1_000, 4_000, 50))
def test_thousands_of_random_programs(start):
    for seed in range(start, start + 50):
        _check(seed, **({} if seed % 20 == 0 else {"backend": "evaluate"}))
