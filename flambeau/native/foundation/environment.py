"""Environment flags: every variable that flambeau reads, with its type and default.

docs/flags.md is generated: python -m flambeau.native.foundation.environment > docs/flags.md
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Generic, TypeVar

from .user_frames import warn

T = TypeVar("T", int, float, str)


@dataclass(frozen=True)
class Flag(Generic[T]):
    """An environment variable. Its value has the type of `default`, and is at least `minimum`."""

    name: str
    default: T
    minimum: T
    default_text: str  # the default, as shown in the docs
    text: str

    def value(self) -> T:
        """Return the current value. Warn and return the default if it is malformed or too small."""
        text = os.environ.get(self.name, "").strip()
        if not text:
            return self.default
        try:
            value = type(self.default)(text)
            if value >= self.minimum:
                return value
        except ValueError:
            pass
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        warn(f"{self.name}={text!r} is not {kind} from {self.minimum} up, and is not "
             "heeded")
        return self.default


DEBUG = Flag(
    "FLAMBEAU_DEBUG", 0, 0, "0",
    "Prints each program that `compile` makes to stderr, once: 1 its kernels with their times, "
    "2 also the graph, 3 the groups of nodes that one kernel computes, 4 the loops, 5 LLVM IR, "
    "6 assembly. `compiled.explain(level)` gives the same text.",
)
CHECK = Flag(
    "FLAMBEAU_CHECK", 0, 0, "0",
    "1: programs that an earlier process checked against the eager step are checked in this one "
    "too, which takes some eager steps.",
)
CACHE_DIR = Flag(
    "FLAMBEAU_CACHE_DIR", "", "", "the system's place for caches, `flambeau` in it",
    "The folder where machine code is kept between runs.",
)
CACHE_SIZE = Flag(
    "FLAMBEAU_CACHE_SIZE", 512.0, 0.0, "512",
    "How many megabytes that folder may hold; what was not used for longest goes first. 0 keeps "
    "nothing.",
)
THREADS = Flag(
    "FLAMBEAU_THREADS", 0, 1, "`OMP_NUM_THREADS`, else every core that the process may use",
    "How many threads kernels, programs and matrix products run on, as `set_num_threads`.",
)
CPU = Flag(
    "FLAMBEAU_CPU", "", "", "the processor at hand",
    "The processor that machine code is made for: `avx512-bf16`, `avx512`, `avx2` or `sse4`, to "
    "see how a program does on a lesser one; `amx`, to have all large float32 products made of "
    "bfloat16 parts on the matrix unit (see docs/compile.md).",
)
COMPILE_WORKERS = Flag(
    "FLAMBEAU_MAKERS", -1, 0, "as many as are worth it, up to the threads",
    "How many processes at most make machine code, in which neither Python's lock nor the memory "
    "of the program is used. 0: it is made on threads of the program.",
)
TRACEBACK = Flag(
    "FLAMBEAU_TRACEBACK", "", "", "ends at your line",
    "`full`: tracebacks show every frame inside flambeau, in programs that `flambeau` runs, in "
    "notebooks and under pytest.",
)
FLAGS = (DEBUG, CHECK, CACHE_DIR, CACHE_SIZE, THREADS, CPU, COMPILE_WORKERS, TRACEBACK)


def flags_page() -> str:
    """Return the text of docs/flags.md."""
    rows = [f"| `{flag.name}` | {flag.default_text} | {flag.text} |" for flag in FLAGS]
    return "\n".join([
        "# Environment flags", "",
        "All that flambeau reads from the environment. Written by "
        "`python -m flambeau.native.foundation.environment > docs/flags.md`.", "",
        "| Flag | Default | |", "|---|---|---|", *rows, "",
    ])


if __name__ == "__main__":
    print(flags_page(), end="")
