"""Programs of segments: where their inputs lie."""

from __future__ import annotations

import itertools
import warnings

import flambeau as torch
import flambeau.nn.functional as F


def test_a_program_built_while_an_input_lies_further_on_reads_the_right_row() -> None:
    table = torch.arange(24.0).reshape(8, 3)
    seen: list[float] = []

    def step(x, row, stops):
        y = table[row] * x
        seen.insert(0, y.sum().item() if stops else 0.0)  # keeps its Python, and ends a segment
        return y + 1

    followed = torch.compile(step, options={"mode": "now", "follow": True})
    x = torch.ones(3)
    for row, stops in [(0, False)] * 6 + [(5, True)] * 4 + [(2, True), (0, True), (7, True)]:
        y = followed(x, row, stops)
        assert (y - 1).tolist() == table[row].tolist()
        assert seen[0] == (table[row].sum().item() if stops else 0.0)
    assert "is followed" in followed.explain()


def test_a_backward_pass_after_a_look_at_the_loss_is_a_program_of_its_own() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        loss = net(x).square().mean()
        if loss > 1e6:
            return None
        loss.backward()
        opt.step()
        return loss

    followed = torch.compile(step, options={"mode": "now", "follow": True})
    for _ in range(9):
        followed(torch.ones(2, 3))
    text = followed.explain()
    assert "computes values unseen" not in text
    assert "2 programs, run" in text


def test_a_permutation_at_the_beginning_begins_no_list() -> None:
    seen: list[int] = []

    def step(x):
        order = torch.randperm(4)
        seen.append(len(seen))
        return x[order] * 2

    followed = torch.compile(step, options={"mode": "now", "follow": True})
    x = torch.arange(4.0)
    for _ in range(9):
        assert sorted(followed(x).tolist()) == [0.0, 2.0, 4.0, 6.0]
    assert "1 program, run" in followed.explain()


def test_arguments_that_are_one_tensor_are_not_taken_for_two_windows_on_one() -> None:
    seen: list[int] = []

    def step(a, b):
        seen.append(len(seen))
        return b * a + 1

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    for call in range(9):
        whole = torch.arange(4.0) + call
        a, b = whole[:-1], whole[1:]
        if call >= 5:
            a = torch.arange(3.0)
            b = a.detach()
        assert followed(a, b).tolist() == (b * a + 1).tolist()
    assert "is followed" in followed.explain()


def test_an_empty_input_may_begin_behind_the_end_of_its_memory() -> None:
    seen: list[int] = []

    def step(x):
        seen.append(len(seen))
        return x.chunk(2)[1].half(), x + 1

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    for _ in range(6):
        half, y = followed(torch.from_numpy(torch.zeros(3, 0).numpy()))
        assert (half.shape, half.dtype, y.shape) == ((1, 0), torch.float16, (3, 0))
    assert "is followed" in followed.explain()


def test_a_program_that_gives_nan_where_operators_do_is_right() -> None:
    table, seen = torch.full((3,), float("nan")), []

    def step(x):
        seen.append(len(seen))
        return x * table

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    for _ in range(6):
        assert followed(torch.ones(3)).isnan().all()
    assert "is followed" in followed.explain()


def test_results_whose_memory_was_computed_as_integers():
    """PReLU's kernel selects by bits; its result lies in memory that NumPy knows as integers."""
    positions, w = itertools.cycle("ab"), torch.tensor([0.25])

    def step(x):
        next(positions)
        return F.prelu(x * 2, w) + 1, F.prelu(x, w)

    fast = torch.compile(step, options={"mode": "now", "follow": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(8):
            x = torch.randn(64, 64)
            for actual, expected in zip(fast(x), step(x), strict=True):
                torch.testing.assert_close(actual, expected)
    assert "is followed" in fast.explain()
