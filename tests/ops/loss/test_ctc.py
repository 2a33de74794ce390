"""CTC loss against the sum over all paths, and its gradient behind a log_softmax."""

from __future__ import annotations

import itertools
from time import monotonic, sleep

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.ops.native import scan


def over_all_paths(log_probs, targets, times, lengths, blank):
    """Minus the log of the probability of every path that reads as the target, for each."""
    losses = []
    for n, (time, length) in enumerate(zip(times, lengths, strict=True)):
        total, wanted = 0.0, list(targets[n, :length])
        for path in itertools.product(range(log_probs.shape[2]), repeat=time):
            if [k for k, _ in itertools.groupby(path) if k != blank] == wanted:
                total += np.exp(sum(log_probs[t, n, k] for t, k in enumerate(path)))
        losses.append(-np.log(total))
    return np.array(losses)


TARGETS = np.array([[1, 2, 2], [3, 1, 0], [1, 0, 0]])
TIMES, LENGTHS = [5, 4, 5], [3, 2, 0]


def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, 3, 4))


def loss(x, **options):
    return F.ctc_loss(F.log_softmax(x, 2), torch.from_numpy(TARGETS), TIMES, LENGTHS, **options)


def test_is_the_sum_over_all_paths():
    x = logits()
    log_probs = F.log_softmax(torch.from_numpy(x), 2).numpy()
    wanted = over_all_paths(log_probs, TARGETS, TIMES, LENGTHS, 0)
    np.testing.assert_allclose(loss(torch.from_numpy(x), reduction="none").numpy(), wanted)
    mean = (wanted / np.maximum(LENGTHS, 1)).mean()
    np.testing.assert_allclose(loss(torch.from_numpy(x)).item(), mean)


def test_gradient_is_the_slope():
    x = torch.from_numpy(logits()).requires_grad_()
    loss(x, reduction="sum").backward()
    step, point = 1e-6, logits()
    for at in ((0, 0, 0), (1, 1, 3), (4, 0, 2), (3, 2, 1)):
        there, here = point.copy(), point.copy()
        there[at] += step
        here[at] -= step
        rise = loss(torch.from_numpy(there), reduction="sum") - loss(
            torch.from_numpy(here), reduction="sum")
        assert x.grad[at].item() == pytest.approx(rise.item() / (2 * step), abs=1e-6)


def test_impossible_targets():
    x = torch.from_numpy(logits()[:2]).requires_grad_()
    y = F.ctc_loss(F.log_softmax(x, 2), torch.from_numpy(TARGETS), [2, 2, 2], LENGTHS,
                   reduction="none", zero_infinity=True)
    assert y[0].item() == 0
    assert y[1].item() > 0
    y.sum().backward()
    assert x.grad[:, 0].abs().sum().item() == 0
    assert torch.isfinite(x.grad).all()


def test_targets_one_after_the_other():
    x = torch.from_numpy(logits())
    together = F.ctc_loss(F.log_softmax(x, 2), torch.tensor([1, 2, 2, 3, 1]), TIMES, LENGTHS)
    assert together.item() == pytest.approx(loss(x).item())


def test_lengths_are_checked():
    x = torch.from_numpy(logits())
    with pytest.raises(RuntimeError, match="to have value at most 5, but got value 6"):
        F.ctc_loss(x, torch.from_numpy(TARGETS), [6, 4, 5], LENGTHS)
    with pytest.raises(RuntimeError, match="target_lengths must be of size batch_size"):
        F.ctc_loss(x, torch.from_numpy(TARGETS), TIMES, [1])
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        F.ctc_loss(x, torch.from_numpy(TARGETS), TIMES, LENGTHS, blank=4)


def test_targets_may_hold_the_blank():
    """The blank is then a label like others; the number is PyTorch's."""
    torch.manual_seed(0)
    logits = torch.zeros(5, 1, 4)
    logits[:, 0, 2] = 1.0
    lengths = torch.tensor([5]), torch.tensor([3])
    actual = F.ctc_loss(logits.log_softmax(-1), torch.tensor([[2, 3, 0]]), *lengths)
    assert actual.item() * 3 == pytest.approx(3.9183965921401978, rel=1e-5)


def test_kernels_agree_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses and gradients of a batch large enough for kernels, whose sequences end early."""
    rng = np.random.default_rng(0)
    times, batch, labels = 30, 9, 8
    x = torch.from_numpy(rng.normal(size=(batch, times, 12))).transpose(0, 1)
    targets = torch.from_numpy(rng.integers(0, 12, (batch, labels)))  # some are blanks
    ends = torch.tensor([30, 30, 29, 20, 8, 1, 0, 30, 3])
    lengths = torch.tensor([8, 1, 0, 8, 3, 1, 0, 5, 8])

    def compute() -> tuple[np.ndarray, np.ndarray]:
        leaf = x.clone().requires_grad_()
        y = F.ctc_loss(F.log_softmax(leaf, 2), targets, ends, lengths, reduction="none",
                       zero_infinity=True)
        y.sum().backward()
        return y.detach().numpy(), leaf.grad.numpy()

    with monkeypatch.context() as m:
        m.setattr(scan, "MAX_NUMPY_ROW_ELEMENTS", 1 << 60)
        wanted = compute()
    used = []
    real = scan.run_row_kernel
    monkeypatch.setattr(scan, "run_row_kernel", lambda *a: (used.append(a), real(*a)))
    until = monotonic() + 120
    while not used:
        assert monotonic() < until, "no kernel came"
        compute()
        sleep(0.002)
    for a, b in zip(compute(), wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)
