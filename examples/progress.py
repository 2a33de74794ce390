"""What the examples share: the options --seed, --steps, --compile and --losses, and a progress bar
that keeps every step's loss. Knows nothing of PyTorch."""

from __future__ import annotations

import argparse
import json
import sys
import time

BAR = 30
LINES = 10  # how many plain lines a run prints where there is no terminal


def options(description: str, seed: int = 1) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=seed, help="(%(default)s)")
    parser.add_argument("--steps", type=int, help="stop after so many training steps")
    parser.add_argument("--compile", action="store_true", help="compile the training step")
    parser.add_argument("--losses", metavar="FILE", help="write each step's loss there, as JSON")
    return parser


class Progress:
    """Counts the steps of a training run and shows how it goes.

    `record(loss)` after each step; `finished` is true once all, or `--steps`, are done.
    """

    def __init__(self, total: int, args: argparse.Namespace) -> None:
        self.total = min(total, args.steps) if args.steps is not None else total
        self.file = args.losses
        self.losses: list[float] = []
        self.start = self.shown = time.perf_counter()
        self.terminal = sys.stderr.isatty()

    @property
    def finished(self) -> bool:
        return len(self.losses) >= self.total

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def record(self, loss: float) -> None:
        self.losses.append(loss)
        step, now = len(self.losses), time.perf_counter()
        if self.terminal:
            if self.finished or now - self.shown > 0.1:
                self.shown = now
                filled = BAR * step // self.total
                end = "\n" if self.finished else ""
                sys.stderr.write(f"\r{'█' * filled:░<{BAR}} {self.line(step)} {end}")
                sys.stderr.flush()
        elif self.finished or step % max(1, self.total // LINES) == 0:
            print(self.line(step), flush=True)
        if self.finished and self.file:
            with open(self.file, "w", encoding="utf-8") as out:
                json.dump(self.losses, out)

    def line(self, step: int) -> str:
        recent = self.losses[-20:]
        pace = 1000 * self.seconds / step
        average = sum(recent) / len(recent)
        return f"step {step}/{self.total}  loss {average:.4f}  {pace:.1f} ms/step"
