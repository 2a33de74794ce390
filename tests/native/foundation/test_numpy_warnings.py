"""NumPy's warnings about inf and nan: given to programs for their own arithmetic, not for ours."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import flambeau as torch

ZERO = np.zeros(3)


@pytest.mark.parametrize("compute", [
    lambda x: x / x, lambda x: x.log(), lambda x: (x - 1).sqrt(), lambda x: (x + 1e30).half(),
    lambda x: torch.cumprod(x + 1e30, 0), lambda x: torch.log_softmax(x / 0, 0),
    lambda x: torch.nn.functional.binary_cross_entropy(x, x + 1),
])
def test_flambeau_says_nothing_whatever_the_filters(compute):
    x = torch.zeros(3, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compute(x).sum().backward()
    assert not caught


def test_programs_are_warned_at_their_lines():
    with pytest.warns(RuntimeWarning) as caught:
        np.log(ZERO)
        np.mean(np.zeros(0))
    assert str(caught[0].message) == "divide by zero encountered in log"
    assert caught[0].filename == __file__
    assert "encountered in" in str(caught[-1].message)
    assert "numpy" in caught[-1].filename


def test_filters_and_error_states_of_programs_hold():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="encountered in log"):
            np.log(ZERO)
        assert torch.zeros(1).log().item() == -float("inf")
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError):
            np.log(ZERO)
        assert torch.zeros(1).log().item() == -float("inf")
    with warnings.catch_warnings(record=True) as caught, np.errstate(divide="ignore"):
        warnings.simplefilter("always")
        np.log(ZERO)
    assert not caught


def test_an_error_state_that_a_program_chose_before_stays():
    program = ("import numpy as np; np.seterr(divide='raise'); before = np.geterr(); "
               "import flambeau; assert np.geterr() == before and np.geterrcall() is None")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
