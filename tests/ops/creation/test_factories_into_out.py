"""Factories with out=: a layout or device that out does not have is refused."""

import pytest

import flambeau as torch

CALLS = {
    "zeros": lambda **options: torch.zeros(3, **options),
    "ones": lambda **options: torch.ones(3, **options),
    "empty": lambda **options: torch.empty(3, **options),
    "full": lambda **options: torch.full((3,), 2.0, **options),
    "eye": lambda **options: torch.eye(3, **options),
    "arange": lambda **options: torch.arange(3, **options),
    "linspace": lambda **options: torch.linspace(0, 1, 3, **options),
    "logspace": lambda **options: torch.logspace(0, 1, 3, **options),
    "rand": lambda **options: torch.rand(3, **options),
    "randint": lambda **options: torch.randint(5, (3,), **options),
}


@pytest.mark.parametrize("name", CALLS)
def test_layouts_and_devices(name):
    out = torch.full((3, 3) if name == "eye" else (3,), 7.0)
    before = out.clone()
    with pytest.raises(RuntimeError, match=r"layout Sparse does not match layout of out parameter "
                                           r"\(Strided\)"):
        CALLS[name](out=out, layout=torch.sparse_coo)
    with pytest.raises(RuntimeError, match=r"layout SparseCsr does not match layout"):
        CALLS[name](out=out, layout=torch.sparse_csr)
    with pytest.raises(RuntimeError, match=r"device type meta does not match device type of out "
                                           r"parameter \(cpu\)"):
        CALLS[name](out=out, device="meta")
    assert torch.equal(out, before)
    assert CALLS[name](out=out, layout=torch.strided, device="cpu") is out


def test_the_rank_of_a_memory_format():
    with pytest.raises(RuntimeError) as raised:
        torch.ones(2, 3).to(memory_format=torch.channels_last)
    assert str(raised.value) == "required rank 4 tensor to use channels_last format"
