"""The data that the programs train on: the digits and the play that come with the examples."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.utils.data import TensorDataset

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


def digits(split: str, count: int) -> TensorDataset:
    """The first `count` digits of "train" or "test", as images (1, 28, 28) and labels."""
    from mnist_data import load

    images, labels = load(split)
    return TensorDataset(torch.from_numpy(images[:count]), torch.from_numpy(labels[:count]))


def text() -> tuple[torch.Tensor, int]:
    """The play as character codes, and how many characters there are."""
    play = (EXAMPLES / "data" / "hamlet.txt").read_text(encoding="ascii")
    letters = {letter: code for code, letter in enumerate(sorted(set(play)))}
    return torch.tensor([letters[letter] for letter in play]), len(letters)
