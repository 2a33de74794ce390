"""Reductions that PyTorch does not compute for booleans refuse them with its texts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda t, x: t.argmax(x), RuntimeError, "argmax(): does not support bool input"),
    (lambda t, x: x.argmin(0), RuntimeError, "argmin(): does not support bool input"),
    (lambda t, x: t.isin(x, x), RuntimeError,
     "Unsupported input type encountered for isin(): Bool"),
    (lambda t, x: x.kthvalue(1), NotImplementedError,
     "\"kthvalue_cpu\" not implemented for 'Bool'"),
    (lambda t, x: x.median(), NotImplementedError, "\"median_cpu\" not implemented for 'Bool'"),
    (lambda t, x: x.nanmedian(0), NotImplementedError,
     "\"median_out\" not implemented for 'Bool'"),
    (lambda t, x: x.topk(1), RuntimeError, "topk does not support bool dtypes on CPU"),
])
def test_refusals(torch, call, error, text):
    with pytest.raises(error) as caught:
        call(torch, torch.tensor([True, False, True]))
    assert text in str(caught.value)


def test_extremes_along_an_axis_take_booleans(torch):
    x = torch.tensor([[True, False], [False, False]])
    assert [y.tolist() for y in x.max(1)] == [[True, False], [0, 0]]
    assert [y.tolist() for y in x.min(1)] == [[False, False], [1, 0]]
