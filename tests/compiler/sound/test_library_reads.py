"""Public functions that look at values or memory in Python: a compiled step gives eager's results,
whether it is proved or followed, from operands that the step itself computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import distributions as D
from flambeau.compiler.follow.memory_layout import RecycledMemory
from flambeau.nn.utils import rnn

CALLS: dict[str, Callable[[Any], Any]] = {
    "isin": lambda x: torch.isin((x * 3).long(), torch.arange(3)),
    "isin of a constant": lambda x: torch.isin(torch.arange(3), (x * 3).long()),
    "mask of attention": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=x @ x.t() > 0),
    "pad_sequence": lambda x: rnn.pad_sequence([x * 2, x[:1] * 3]),
    "pad_sequence, batch first": lambda x: rnn.pad_sequence([x * 2, x[:1] * 3], True, 1.0, "left"),
    "pack and pad": lambda x: rnn.pad_packed_sequence(rnn.pack_padded_sequence(
        (x * 2)[..., None], torch.tensor([3, 2, 1])))[0],
    "rrelu": lambda x: F.rrelu(x * 2),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x * 2, x.exp()),
    "embedding_bag": lambda x: F.embedding_bag((x[0] * 2).abs().long().clamp(0, 2), x,
                                               torch.tensor([0, 2]), mode="max"),
    "renormalized embedding": lambda x: F.embedding((x[0] * 2).abs().long().clamp(0, 2), x.clone(),
                                                    max_norm=0.5),
    "index_reduce": lambda x: x.index_reduce(0, (x[:, 0] * 2).abs().long().clamp(0, 2), x, "prod"),
    "segment_reduce": lambda x: torch.segment_reduce(x * 2, "max", lengths=torch.stack(
        [(x[0, 0] > 0).long(), 3 - (x[0, 0] > 0).long()])),
    "lu_unpack": lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x + 3 * torch.eye(3)))[2],
    "lu_solve": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x * 2), x),
    "polar": lambda x: torch.polar(x.abs(), x * 2).real,
    "cov": lambda x: torch.cov(x * 2, aweights=x[0].abs()),
    "quantile": lambda x: torch.quantile(x * 2, x[0].sigmoid()),
    "nanquantile": lambda x: torch.nanquantile(torch.where(x > 0, x, torch.nan), x[0].sigmoid()),
    "histogramdd": lambda x: torch.histogramdd(x * 2, [2, 2, 2])[0],
    "edges of histogramdd": lambda x: torch.histogramdd(x * 2, [2, 2, 2])[1][2],
    "repeat_interleave": lambda x: torch.repeat_interleave(x * 2, torch.tensor([1, 2, 0]), 0),
    "equal": lambda x: torch.tensor(torch.equal(x * 2, x + x)),
    "allclose": lambda x: x * 2 if torch.allclose(x, x.round(), atol=0.4) else x * 3,
    "istft": lambda x: torch.istft(torch.stft(x.flatten(), 4, window=x.abs().flatten()[:4] + 1,
                                              return_complex=True), 4,
                                   window=x.abs().flatten()[:4] + 1),
    "matrix_rank": lambda x: torch.linalg.matrix_rank(x.round()),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x * 2, (x[:, 0] * 2).abs().long().clamp(
        0, 2)),
    "multivariate normal": lambda x: D.MultivariateNormal(x[0], x @ x.t() + torch.eye(3)).log_prob(
        x),
    "divergence": lambda x: D.kl_divergence(D.Normal(x, x.exp()), D.Normal(x * 2, 1.0)),
}


@pytest.fixture(autouse=True)
def spoiled_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followed calls get memory that no check would pass, until a program computes it."""
    take = RecycledMemory.take

    def spoil(self: RecycledMemory, s: int) -> np.ndarray:
        array = take(self, s)
        array.fill(array.dtype.kind == "b" or -77)
        return array

    monkeypatch.setattr(RecycledMemory, "take", spoil)


@pytest.mark.parametrize("follows", [False, True], ids=["proved", "followed"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_eager_calls(name: str, follows: bool) -> None:
    call, positions = CALLS[name], itertools.count(0.5)  # a step that advances it is followed

    def step(x: Any) -> Any:
        if follows:
            next(positions)
        y = call(x * 2)
        if follows:
            next(positions)  # its results are not computed yet
        return y

    fast = torch.compile(step, options={"mode": "now", "follow": follows})
    generator = torch.Generator().manual_seed(0)
    for _ in range(7):
        x = torch.randn(3, 3, generator=generator)
        torch.testing.assert_close(fast(x), call(x * 2), equal_nan=True)
    assert "Error" not in fast.explain()
