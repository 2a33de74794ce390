"""Views of bytes as another dtype: shapes, and what is refused, in PyTorch's words."""

import pytest

import flambeau as torch


def test_shapes():
    x = torch.zeros(4, 6)
    assert x.view(torch.int16).shape == (4, 12)
    assert x[:, 2:].view(torch.float64).shape == (4, 2)
    assert x[:0].view(torch.float64).shape == (0, 3)
    assert torch.arange(2, dtype=torch.int32).view(torch.uint8).tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(("make", "dtype", "message"), [
    (lambda: torch.zeros(4, 5), torch.float64, "size(-1) must be divisible by 2 to view Float as "
     "Double (different element sizes), but got 5"),
    (lambda: torch.zeros(4, 6)[:, 1:5], torch.float64, "storage_offset() must be divisible by 2 to "
     "view Float as Double (different element sizes), but got 1"),
    (lambda: torch.zeros(16).as_strided((4, 2), (1, 1)), torch.float64, "stride(0) must be "
     "divisible by 2 to view Float as Double (different element sizes), but got 1"),
    (lambda: torch.zeros(5, 1).expand(5, 64), torch.int8, "stride(-1) must be 1 to view Float as "
     "Char (different element sizes), but got 0"),
])
def test_refusals(make, dtype, message):
    with pytest.raises(RuntimeError) as error:
        make().view(dtype)
    assert str(error.value) == f"self.{message}"
