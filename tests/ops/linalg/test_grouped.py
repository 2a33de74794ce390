"""grouped_mm: each of its four forms against products of the parts."""

import pytest

import flambeau as torch

ENDS = torch.tensor([2, 4, 8], dtype=torch.int32)


def grouped(a, b):
    offs = ENDS if 2 in (a.dim(), b.dim()) else None
    return torch.nn.functional.grouped_mm(a, b, offs=offs)


@pytest.mark.parametrize("shapes", [
    ((8, 8), (3, 8, 16)), ((3, 8, 16), (16, 8)), ((16, 8), (8, 16)), ((3, 8, 16), (3, 16, 8)),
])
def test_forms(shapes):
    a, b = (torch.randn(shape) for shape in shapes)
    parts = [slice(0, 2), slice(2, 4), slice(4, 8)]
    expected = {
        (2, 3): lambda: torch.cat([a[p] @ b[i] for i, p in enumerate(parts)]),
        (3, 2): lambda: torch.cat([a[i] @ b[:, p] for i, p in enumerate(parts)], 1),
        (2, 2): lambda: torch.stack([a[:, p] @ b[p] for p in parts]),
        (3, 3): lambda: a @ b,
    }[a.dim(), b.dim()]()
    torch.testing.assert_close(grouped(a, b), expected)


def test_refusals():
    for a, b, message in [
        (torch.ones(8, 6), torch.ones(3, 6, 8), "multiple of 16 bytes"),
        (torch.ones(8, 8), torch.ones(3, 4, 8), "contraction dimension"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            grouped(a, b)
