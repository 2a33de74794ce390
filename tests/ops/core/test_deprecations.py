"""Functions that PyTorch calls deprecated say so, once in a process."""

from __future__ import annotations

import warnings

import pytest

import flambeau as torch
from flambeau.native.foundation.user_frames import OneTime

A = torch.tensor([[4.0, 0.0], [0.0, 2.0]])
CASES = {
    "torch.cholesky is deprecated": lambda: torch.cholesky(A),
    "torch.triangular_solve is deprecated": lambda: torch.triangular_solve(A, A),
    "torch.qr is deprecated": lambda: torch.qr(A),
    "torch.lu is deprecated": lambda: torch.lu(A),
    "torch.lu_solve is deprecated": lambda: torch.lu_solve(A, *torch.linalg.lu_factor(A)),
    "torch.chain_matmul is deprecated": lambda: torch.chain_matmul(A, A),
    "The use of `x.T` on tensors of dimension other than 2": lambda: A[0].T,
    "Tensor.T is deprecated on 0-D tensors": lambda: torch.tensor(1.0).T,
    "Tensor.mH is deprecated on 0-D tensors": lambda: torch.tensor(1.0).mH,
}


@pytest.fixture(autouse=True)
def not_warned(monkeypatch):
    monkeypatch.setattr(OneTime, "told", set())


@pytest.mark.parametrize("text", CASES)
def test_once_at_the_callers_line(text):
    with pytest.warns(UserWarning, match="deprecated") as caught:
        CASES[text]()
        CASES[text]()
    assert [str(w.message).startswith(text) for w in caught] == [True]
    assert caught[0].filename == __file__


def test_always_on_request():
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="torch.qr is deprecated") as caught:
            torch.qr(A)
            torch.qr(A)
    finally:
        torch.set_warn_always(False)
    assert len(caught) == 2


def test_range_says_so_at_every_call():
    with pytest.warns(UserWarning, match=r"torch\.range is deprecated") as caught:
        torch.range(1, 2)
        torch.range(1, 2)
    assert len(caught) == 2


def test_matrices_are_transposed_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert A.T.shape == A.mT.shape == A.H.shape == (2, 2)
