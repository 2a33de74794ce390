"""Arrays that are too large: PyTorch raises RuntimeErrors, which programs catch to try less."""

from __future__ import annotations

import pytest

MANY = 1 << 46


@pytest.mark.parametrize("make", [
    lambda torch: torch.empty(MANY), lambda torch: torch.zeros(MANY // 2, 4),
    lambda torch: torch.full((MANY,), 1.5), lambda torch: torch.rand(MANY),
    lambda torch: torch.arange(0.0, 1e17), lambda torch: torch.empty_strided((MANY,), (1,)),
    lambda torch: torch.zeros(1 << 20, 1) @ torch.zeros(1, 1 << 30),
    lambda torch: torch.zeros(1 << 20)[:, None] + torch.zeros(1 << 27),
    lambda torch: torch.zeros(3).expand(MANY, 3).clone(),
], ids=["empty", "zeros", "full", "rand", "arange", "strided", "matmul", "add", "clone"])
def test_no_memory(torch, make):
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator: can't allocate memory: you tried"):
        make(torch)


def test_sizes_beyond_an_int64(torch):
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed with sizes="):
        torch.empty([2, 4, 2**29, 2**29])
    x = torch.empty((), dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed with sizes="):
        x.resize_([2, 4, 2**29, 2**29])
    with pytest.raises(RuntimeError, match="overflow"):
        x.resize_([8, 8, 2**29, 2**29])
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        x.resize_([0, 4, 2**61])
    with pytest.raises(RuntimeError, match="invalid size, possible overflow"):
        torch.arange(1e-38, 3.4e38)
    with pytest.raises(RuntimeError, match=r"n cannot be greater than 2\^53\+1 for Double type"):
        torch.randperm(2**53 + 2, out=torch.empty(0, dtype=torch.float64))


def test_meta_tensors_take_no_memory(torch):
    for y in (torch.linspace(0, 1, MANY, device="meta"), torch.eye(MANY, 2, device="meta"),
              torch.logspace(torch.empty((), device="meta"), 2, MANY, device="meta")):
        assert y.shape[0] == MANY
    assert torch.empty(2, 3, dtype=torch.float8_e5m2, device="meta").element_size() == 1
