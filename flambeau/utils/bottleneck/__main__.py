"""`python -m flambeau.utils.bottleneck script.py [arguments]`: profile a script.

Runs it twice, under cProfile and under the operator profiler, and prints the slowest entries.
"""

from __future__ import annotations

import argparse
import cProfile
import platform
import pstats
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...autograd import profiler

_RULE = "-" * 80
_ROWS = 15


def _print_heading(text: str) -> None:
    print(f"{_RULE}\n  {text}\n{_RULE}")


def _run(script: str) -> None:
    runpy.run_path(script, run_name="__main__")


def main() -> None:
    """Run the script named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m flambeau.utils.bottleneck")
    parser.add_argument("scriptfile", help="the script to look at; it must end by itself")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    supplied = parser.parse_args()
    sys.argv = [supplied.scriptfile, *supplied.args]
    sys.path.insert(0, str(Path(supplied.scriptfile).resolve().parent))
    torch: Any = sys.modules["flambeau"]
    sys.modules.setdefault("torch", torch)
    by_function = cProfile.Profile()
    by_function.runcall(_run, supplied.scriptfile)
    by_operator = profiler.profile()
    with by_operator:
        _run(supplied.scriptfile)
    _print_heading("Environment Summary")
    print(f"flambeau {torch.__version__}, Python {platform.python_version()}, "
          f"NumPy {np.__version__}, {torch.get_num_threads()} threads")
    _print_heading("cProfile output")
    pstats.Stats(by_function).strip_dirs().sort_stats("tottime").print_stats(_ROWS)
    _print_heading("autograd profiler output (CPU mode)")
    print(f"        top {_ROWS} events sorted by cpu_time_total\n")
    print(by_operator.events().table(sort_by="cpu_time_total", row_limit=_ROWS))


if __name__ == "__main__":
    main()
