"""Nothing outside of a program's memory is touched: graphs run between guard pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("guard_page_run.py")


def run(first: int, last: int) -> None:
    found = subprocess.run([sys.executable, str(PROGRAM), str(first), str(last)],
                           capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    assert found.returncode == 0, found.stdout[-200:] + found.stderr[-3000:]


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
def test_nothing_outside_is_touched():
    run(0, 25)
    run(2227, 2228)  # a product in bfloat16, one column wider than a tile


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_nothing_outside_is_touched_by_more(first):
    run(first, first + 50)
