"""Nothing outside of a program's memory is touched: graphs run between guard pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("guard_page_run.py")


def run(first: int, last: int) -> None:
    actual = subprocess.run([sys.executable, str(PROGRAM), str(first), str(last)],
                            capture_output=True, text=True, timeout=600, check=False)
    assert actual.returncode == 0, actual.stdout[-200:] + actual.stderr[-3000:]


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
def test_nothing_outside_is_touched():
    run(0, 25)
    run(2227, 2228)  # a product in bfloat16, one column wider than a tile


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_nothing_outside_is_touched_by_more(first):
    run(first, first + 50)


_MANY_OUTPUTS = """
import sys, warnings
sys.path[:0] = [{tests!r}]
from compiler.programs.guard_page_run import install
install()
import flambeau as torch
torch.set_num_threads(1)
warnings.simplefilter("ignore")
F = torch.nn.functional
names = ("ceil round trunc frac exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos "
         "tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc isinf").split()

def outputs(x):
    return [getattr(torch, name)(x) for name in names] + [F.gelu(x), F.silu(x), F.celu(x)]

compiled = torch.compile(outputs, mode="now")
for elements in {extents!r}:
    for _ in range(5):
        compiled(torch.linspace(-3, 3, elements, dtype=torch.float64))
assert compiled.ready
"""


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
def test_many_outputs_of_mixed_types():
    """32 float64 values live at once spill the tail's mask, which the bool output widens."""
    program = _MANY_OUTPUTS.format(tests=str(PROGRAM.parents[2]), extents=(324,))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=600, check=False)
    assert done.returncode == 0, f"ended by signal {-done.returncode}: {done.stderr[-2000:]}"
