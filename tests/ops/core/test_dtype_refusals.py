"""Arguments that operators refuse: PyTorch's type of error and its words."""

import pytest

import flambeau as torch

EMPTY = torch.ones(5, 0, 5)
CASES = {
    "arange": (lambda: torch.arange(0, 64, 0.5, out=torch.zeros(0, dtype=torch.int64)),
               ValueError, "step must be nonzero"),
    "linspace": (lambda: torch.linspace(0, 3, 1.0), TypeError, "invalid combination of arguments"),
    "logspace": (lambda: torch.logspace(0, 3, 2.5), TypeError, "invalid combination of arguments"),
    "amax": (lambda: EMPTY.amax(), RuntimeError, "reduction dim to be specified"),
    "amin": (lambda: EMPTY.amin(()), RuntimeError, "reduction dim to be specified"),
    "amax of an axis": (lambda: EMPTY.amax(1), IndexError, "reduction dim 1 to have non-zero size"),
    "aminmax": (lambda: EMPTY.aminmax(), RuntimeError, "as the operation has no identity"),
    "aminmax of an axis": (lambda: EMPTY.aminmax(dim=1), IndexError,
                           "aminmax: Expected reduction dim 1"),
    "mean": (lambda: torch.ones(3).mean(dtype=torch.int64), RuntimeError,
             "Optional dtype must be either a floating point or complex dtype. Got: Long"),
    "narrow": (lambda: torch.ones(3).narrow(0, torch.tensor(True), 1), RuntimeError,
               "start must be an 0-dim integral Tensor"),
    "index_add": (lambda: torch.ones(3, 2).index_add(0, torch.tensor([0, 1]), torch.ones(2)),
                  RuntimeError, "source tensor shape must match self tensor shape"),
    "masked_scatter": (
        lambda: torch.ones(3).masked_scatter(torch.ones(3, dtype=torch.uint8), torch.ones(3)),
        RuntimeError, "masked_scatter_ only supports boolean masks"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case):
    call, kind, words = CASES[case]
    with pytest.raises(kind, match=words):
        call()
