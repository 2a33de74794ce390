"""Operators refuse floats, bools and text where PyTorch takes an int, and text where it takes a
number. Functions are named as PyTorch names them; methods count `self` here, so only the names and
the kinds are compared."""

import pytest

# A call of each operator with a place for an integer.
CALLS = {
    "triu": lambda torch, x, n: torch.triu(x, n),
    "tril": lambda torch, x, n: torch.tril(x, n),
    "topk": lambda torch, x, n: torch.topk(x, n),
    "kthvalue": lambda torch, x, n: torch.kthvalue(x, n),
    "select": lambda torch, x, n: torch.select(x, 0, n),
    "diagonal": lambda torch, x, n: torch.diagonal(x, n),
    "diag_embed": lambda torch, x, n: torch.diag_embed(x, n),
    "unfold": lambda torch, x, n: x.unfold(0, n, 1),
    "round": lambda torch, x, n: torch.round(x, decimals=n),
    "cumsum": lambda torch, x, n: torch.cumsum(x, n),
    "softmax": lambda torch, x, n: torch.softmax(x, n),
    "gather": lambda torch, x, n: torch.gather(x, n, x.long()),
    "index_select": lambda torch, x, n: torch.index_select(x, n, torch.tensor([0])),
    "cat": lambda torch, x, n: torch.cat([x, x], n),
    "stack": lambda torch, x, n: torch.stack([x, x], n),
    "unbind": lambda torch, x, n: torch.unbind(x, n),
    "unsqueeze": lambda torch, x, n: torch.unsqueeze(x, n),
}
FILLS = {
    "full": lambda torch, x, v: torch.full((2,), v),
    "full_like": lambda torch, x, v: torch.full_like(x.bool(), v),
    "fill_diagonal_": lambda torch, x, v: x.bool().fill_diagonal_(v),
    "fill_": lambda torch, x, v: x.bool().fill_(v),
    "masked_fill": lambda torch, x, v: x.bool().masked_fill(x.bool(), v),
    "index_fill": lambda torch, x, v: x.bool().index_fill(0, torch.tensor([0]), v),
}


@pytest.mark.parametrize("value", [1.0, True, "a"], ids=["float", "bool", "str"])
@pytest.mark.parametrize("name", list(CALLS))
def test_floats_bools_and_text_are_no_integers(torch, name, value):
    with pytest.raises(TypeError) as caught:
        CALLS[name](torch, torch.ones(2, 2), value)
    text = str(caught.value)
    if (name, value) == ("unbind", "a"):  # PyTorch takes the name of an axis
        return
    assert text.startswith(f"{name}()")
    assert f"must be int, not {type(value).__name__}" in text or "invalid combination" in text


@pytest.mark.parametrize("name", list(CALLS))
def test_integers_of_numpy_and_tensors_are_taken(torch, name):
    np = pytest.importorskip("numpy")
    x = torch.ones(2, 2)
    for n in (1, np.int64(1)):
        CALLS[name](torch, x, n)
    if name not in ("round",):
        CALLS[name](torch, x, torch.tensor(1))


@pytest.mark.parametrize("value", [None, "a"], ids=["None", "str"])
@pytest.mark.parametrize("name", list(FILLS))
def test_text_and_none_are_no_numbers(torch, name, value):
    with pytest.raises(TypeError) as caught:
        FILLS[name](torch, torch.ones(2, 2), value)
    assert str(caught.value).startswith(f"{name}()")
    assert type(value).__name__ in str(caught.value)
