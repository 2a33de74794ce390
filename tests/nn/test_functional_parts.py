"""Private parts of torch.nn.functional, which copies of PyTorch's attention call."""

from __future__ import annotations

import io

import pytest


def test_masks_become_numbers_to_add(torch):
    F, inf = torch.nn.functional, float("inf")
    mask = F._canonical_mask(torch.tensor([True, False]), "mask", None, "", torch.float64)
    assert mask.dtype is torch.float64
    assert mask.tolist() == [-inf, 0]
    assert F._canonical_mask(None, "mask", None, "", torch.float32) is None
    with pytest.warns(UserWarning, match="mismatched src_mask and other is deprecated"):
        F._canonical_mask(torch.zeros(2), "src_mask", torch.bool, "other", torch.float32)
    with pytest.raises(AssertionError, match="only bool and floating types of mask"):
        F._canonical_mask(torch.zeros(2).long(), "mask", None, "", torch.float32)
    assert F._none_or_dtype(torch.zeros(1)) is torch.float32
    assert F._none_or_dtype(None) is None


def test_projections_agree(torch):
    F = torch.nn.functional
    x, y = torch.randn(5, 2, 4), torch.randn(3, 2, 4)
    w, b = torch.randn(12, 4), torch.randn(12)
    right = [F.linear(x, w[4 * i:4 * i + 4], b[4 * i:4 * i + 4]) for i in range(3)]
    other = [F.linear(y, w[4 * i:4 * i + 4], b[4 * i:4 * i + 4]) for i in range(3)]
    for found, expected in [
        (F._in_projection_packed(x, x, x, w, b), right),
        (F._in_projection_packed(x, y, y, w, b), [right[0], *other[1:]]),
        (F._in_projection_packed(x, y, y.clone(), w, b), [right[0], *other[1:]]),
        (F._in_projection(x, y, y, *w.chunk(3), *b.chunk(3)), [right[0], *other[1:]]),
    ]:
        assert all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(found, expected, strict=True))
    with pytest.raises(AssertionError, match="expecting key weights shape"):
        F._in_projection(x, y, y, w[:4], w[:3], w[:4])


def test_other_parts(torch):
    F = torch.nn.functional
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert F._get_softmax_dim("softmax", 3, 3) == 0
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        F._verify_batch_size(torch.Size([1, 3, 1]))
    transforms = torch.distributions.transforms
    assert 0 < transforms._clipped_sigmoid(torch.tensor(-200.0)) < 1e-30
    file = io.BytesIO()
    torch.save({"a": torch.ones(2)}, file)
    assert torch.storage._load_from_bytes(file.getvalue())["a"].tolist() == [1, 1]
