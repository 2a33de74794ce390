"""The graph compiler's decisions on the machines measured so far, pinned."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.kernels.flash_attention import choose_block_extent
from flambeau.native.target.graph_costs import choose_depth_split, predict_seconds

# (m, n, k), threads: parts of the depth, blocks of rows.
SPLITS = [
    ((256, 784, 512), 32, (1, 1)), ((128, 512, 1600), 16, (1, 1)),
    ((1024, 1024, 1024), 32, (1, 1)), ((64, 64, 8192), 8, (8, 1)), ((64, 64, 8192), 16, (16, 1)),
    ((64, 64, 8192), 32, (32, 1)),
]
# Rows, columns, depth, width, bytes of a number, causal: the extent of a block.
ATTENTION_BLOCKS = [
    ((64, 64, 32, 32, 4, True), 64), ((96, 96, 64, 64, 4, False), 48),
    ((512, 512, 64, 64, 4, False), 64), ((512, 512, 64, 64, 4, True), 64),
    ((1024, 1024, 128, 128, 4, True), 48), ((50, 50, 64, 64, 8, False), 32),
    ((128, 128, 256, 256, 8, False), 0),
]


@pytest.mark.parametrize(("shape", "threads", "split"), SPLITS)
def test_split_k(shape: tuple[int, int, int], threads: int, split: tuple[int, int]) -> None:
    assert choose_depth_split(*shape, threads) == split


@pytest.mark.parametrize(("problem", "extent"), ATTENTION_BLOCKS)
def test_blocks_of_attention(problem: tuple[int, int, int, int, int, bool], extent: int) -> None:
    assert choose_block_extent(*problem) == extent


def test_kernels_of_a_perceptron() -> None:
    """The program of the benchmark's perceptron with Adam, as measured on two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                              nn.Linear(128, 10))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        @torch.compile(mode="now")
        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        batch = torch.randn(64, 784), torch.randint(10, (64,))
        for _ in range(4):
            step(*batch)
        program = step._programs[0].step
        assert (len(program.tasks), program.plan.size) == (14, 201_792)
    finally:
        torch.set_num_threads(before)


def test_the_prediction_is_the_slower_of_arithmetic_and_memory() -> None:
    assert predict_seconds(2e9, 1e6, (1e11, 1e10)) == pytest.approx(0.02)
    assert predict_seconds(1e6, 2e8, (1e11, 1e10)) == pytest.approx(0.02)
