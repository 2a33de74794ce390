"""Numbers that do not fit a dtype raise, with PyTorch's text, before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

WRITES = {
    "fill_": "x.fill_(v)", "full": "torch.full((2,), v, dtype=torch.uint8)",
    "masked_fill": "x.masked_fill(x == 1, v)", "index": "x.__setitem__(0, v)",
    "index of positions": "x.__setitem__([0, 1], v)", "index_fill_": "x.index_fill_(0, at, v)",
    "scatter_": "x.scatter_(0, at, v)", "pad": "F.pad(x, (1, 0), value=v)",
    "new_full": "x.new_full((2,), v)", "fill_diagonal_": "x.view(1, 3).fill_diagonal_(v)",
    "tensor": "torch.tensor([1, v], dtype=torch.uint8)",
}


def _names(torch: Any, value: Any) -> dict[str, Any]:
    return {"torch": torch, "F": torch.nn.functional, "v": value, "at": torch.tensor([0]),
            "x": torch.ones(3, dtype=torch.uint8)}


@pytest.mark.parametrize("value", (256, 255.5, -0.5, -256, float("nan")))
@pytest.mark.parametrize("way", WRITES)
def test_a_number_beyond_eight_bits_is_refused(torch: Any, way: str, value: Any) -> None:
    names = _names(torch, value)
    with pytest.raises(RuntimeError, match=r"cannot be converted to type uint8(_t)? without over"):
        eval(WRITES[way], names)
    assert names["x"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("way", [way for way in WRITES if way != "pad"])
def test_negative_integers_wrap_around(torch: Any, way: str) -> None:
    names = _names(torch, -1)
    result = eval(WRITES[way], names)
    assert 255 in (names["x"] if result is None else result).flatten().tolist()


def test_fractions_are_cut_off(torch: Any) -> None:
    assert torch.tensor([1.7, -1.7, 3], dtype=torch.int8).tolist() == [1, -1, 3]
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        torch.tensor([2**63], dtype=torch.int16)


@pytest.mark.parametrize("text", (
    "torch.meshgrid(m, m[0], indexing='ij')", "F.linear(m, m.sum())", "F.linear(m.sum(), m)",
    "F.linear(m, m[None])", "F.linear(m, m[0], m[0])", "torch.tensordot(m.int(), m.long(), 1)"))
def test_operands_of_a_wrong_rank_or_dtype_are_refused(torch: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match="Expected 0D|at least 1D|<= 2 dim|a matrix|same dtype"):
        eval(text, {"torch": torch, "F": torch.nn.functional, "m": torch.ones(2, 2)})


@pytest.mark.parametrize("text", (
    "b ** b", "True ** b", "b.pow(b)", "torch.addcmul(b, b, b)", "F.gelu(c)",
    "F.pad(b[None, None], (1, 1), mode='reflect')",
    "F.pad(b[None, None], (1, 1), mode='replicate')"))
def test_dtypes_without_a_kernel_are_refused(torch: Any, text: str) -> None:
    names = {"torch": torch, "F": torch.nn.functional, "b": torch.ones(3, dtype=torch.bool),
             "c": torch.ones(3, dtype=torch.complex64)}
    with pytest.raises(NotImplementedError, match="not implemented for '(Bool|ComplexFloat)'"):
        eval(text, names)


def test_axes_of_length_one_are_contracted_in_the_operands_dtype(torch: Any) -> None:
    x, y = torch.ones(1, 2, dtype=torch.int32), torch.ones(2, 3, dtype=torch.int32)
    result = torch.tensordot(x, y, ([0], [1]))
    assert result.dtype is torch.int32 and result.tolist() == [[3, 3], [3, 3]]


def test_nothing_is_divided_by_zero(torch: Any) -> None:
    x, zero = torch.zeros(0, 1, dtype=torch.int32), torch.tensor(0)
    assert (x % zero).shape == (x // zero).shape == x.fmod(zero).shape == (0, 1)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.ones(1, dtype=torch.int32) % zero


@pytest.mark.parametrize(("text", "error", "message"), [
    ("torch.arange(2**63)", RuntimeError, "cannot be converted to type int64_t without overflow"),
    ("torch.arange(0, 2**63, 2**62)", RuntimeError, "type int64_t without overflow"),
    ("torch.arange(2**64)", OverflowError, "int too big to convert"),
    ("torch.arange(-2**63 - 1, 0)", OverflowError, "can't convert negative int to unsigned"),
    ("torch.full((2,), 2**64)", OverflowError, "int too big to convert"),
    ("torch.linspace(0, 2**64, 3)", OverflowError, "int too big to convert"),
    ("torch.ones(2, dtype=torch.int64) * 2**64", OverflowError, "int too big to convert"),
    ("torch.randint(2**63, (2,))", ValueError, "Overflow when unpacking long long"),
    ("torch.randint(-2**63 - 1, 0, (2,))", ValueError, "Overflow when unpacking long long"),
])
def test_integers_beyond_64_bits_are_refused(
    torch: Any, text: str, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        eval(text, {"torch": torch})


@pytest.mark.parametrize(("mode", "dtype", "message"), [
    ("mean", "float32", r"Index 1 of input takes value 11 which is not in the valid range \[0, 10"),
    ("sum", "float16", r"Index 1 of input takes value 11 which is not in the valid range \[0, 10"),
    ("sum", "float64", "Expected idx >= 0 && idx < num_embeddings but found idx to be 11"),
    ("max", "float32", "Expected idx >= 0 && idx < num_embeddings but found idx to be 11"),
])
def test_bags_name_the_index_that_has_no_row(
    torch: Any, mode: str, dtype: str, message: str
) -> None:
    table = torch.ones(10, 3, dtype=getattr(torch, dtype))
    with pytest.raises(RuntimeError, match=message):
        torch.nn.functional.embedding_bag(torch.tensor([[1, 11]]), table, mode=mode)
