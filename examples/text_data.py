"""Shakespeare's Hamlet as a row of numbers, one for each character, for the examples on text."""

from __future__ import annotations

from pathlib import Path

import torch


class Text:
    """The play, cut into 90 % to train on and the last 10 % to validate with."""

    def __init__(self) -> None:
        text = (Path(__file__).parent / "data" / "hamlet.txt").read_text(encoding="ascii")
        self.letters = sorted(set(text))
        number = {letter: at for at, letter in enumerate(self.letters)}
        codes = torch.tensor([number[letter] for letter in text])
        cut = len(codes) * 9 // 10
        self.train, self.valid = codes[:cut], codes[cut:]

    def batch(self, size: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Random passages and the same passages one letter on, each (size, length)."""
        starts = torch.randint(len(self.train) - length, (size, 1))
        at = starts + torch.arange(length)  # (size, length)
        return self.train[at], self.train[at + 1]

    def validation(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The validation text in consecutive passages, as `batch` gives them."""
        count = (len(self.valid) - 1) // length
        whole = count * length
        return (
            self.valid[:whole].view(count, length),
            self.valid[1 : whole + 1].view(count, length),
        )

    def encode(self, text: str) -> torch.Tensor:
        return torch.tensor([self.letters.index(letter) for letter in text])

    def decode(self, codes: torch.Tensor) -> str:
        return "".join(self.letters[code] for code in codes.tolist())
