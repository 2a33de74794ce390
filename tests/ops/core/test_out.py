"""`out=`: which dtypes an operator takes for it, and what is written where."""

from __future__ import annotations

import pytest

CASES = {
    "masked_select(): self and result must have the same scalar type":
        lambda torch, x, out: torch.masked_select(x, x > 0, out=out("int32")),
    "nonzero: Expected out tensor to have scalar type Long but got scalar typeFloat":
        lambda torch, x, out: torch.nonzero(x, out=out("float32")),
    "index_select(): self and result must have the same scalar type":
        lambda torch, x, out: torch.index_select(x, 0, torch.tensor([0]), out=out("int32")),
    "Expected out tensor to have dtype float, but got double instead":
        lambda torch, x, out: torch.gather(x, 0, torch.tensor([0]), out=out("float64")),
    "Expected out tensor to have dtype long int, but got float instead":
        lambda torch, x, out: torch.argmax(x, out=out("float32")),
    "take(): self and out expected to have the same dtype, but got self.dtype = Float and "
    "out.dtype = Int":
        lambda torch, x, out: torch.take(x, torch.tensor([0]), out=out("int32")),
    "dtype Double does not match dtype of out parameter (Float)":
        lambda torch, x, out: torch.rand(2, dtype=torch.float64, out=out("float32")),
    "all only supports bool tensor for result, got: Int":
        lambda torch, x, out: torch.all(x, out=out("int32")),
    "Found dtype Double but expected Float":
        lambda torch, x, out: torch.abs(x, out=out("float64")),
    "expected scalar_type Float but found Short":
        lambda torch, x, out: torch.cummax(x, 0, out=(out("int16"), out("int64"))),
    "multinomial expects Long tensor out, got: Float":
        lambda torch, x, out: torch.multinomial(x, 2, out=out("float32")),
    "result type Float can't be cast to the desired output type Int":
        lambda torch, x, out: torch.sin(x, out=out("int32")),
}


@pytest.mark.parametrize("text", CASES)
def test_dtypes_that_are_refused(torch, text):
    def out(name):
        return torch.empty(0, dtype=getattr(torch, name))

    with pytest.raises(RuntimeError) as caught:
        CASES[text](torch, torch.ones(3), out)
    assert str(caught.value) == text


def test_joins_raise_a_type_error(torch):
    with pytest.raises(TypeError, match=r"torch.cat\(\): input types can't be cast"):
        torch.cat([torch.ones(2)], out=torch.empty(0, dtype=torch.int32))


def test_draws_are_written_into_views(torch):
    for draw in (torch.rand, torch.randn, lambda *size, out: torch.randint(1, 5, size, out=out)):
        z = torch.zeros(2, 3)
        draw(2, 2, out=z[:, 1:])
        assert z[:, 0].tolist() == [0, 0]
        assert bool((z[:, 1:] != 0).all())


def test_casts(torch):
    out = torch.empty(0, dtype=torch.float64)
    assert torch.sin(torch.zeros(2), out=out) is out
    assert out.tolist() == [0, 0]
    assert torch.all(torch.ones(2), out=torch.empty(0, dtype=torch.uint8)).item() == 1


def test_nonzero_of_tuples(torch):
    with pytest.raises(RuntimeError, match="does not support the out kwarg when as_tuple is True"):
        torch.nonzero(torch.ones(2), out=torch.empty(0, dtype=torch.int64), as_tuple=True)
