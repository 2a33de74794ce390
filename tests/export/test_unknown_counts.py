"""Results whose size values decide: meta and fake tensors refuse them, and count nothing."""

from __future__ import annotations

import importlib

import pytest

COUNTED = {
    "nonzero": (lambda torch, x, mask: x.nonzero(), "aten.nonzero.default"),
    "nonzero as a tuple": (lambda torch, x, mask: x.nonzero(as_tuple=True), "aten.nonzero.default"),
    "argwhere": (lambda torch, x, mask: torch.argwhere(x), "aten.nonzero.default"),
    "where": (lambda torch, x, mask: torch.where(mask), "aten.nonzero.default"),
    "mask": (lambda torch, x, mask: x[mask], "aten.nonzero.default"),
    "mask of rows": (lambda torch, x, mask: x[mask[:, 0]], "aten.nonzero.default"),
    "masked_select": (lambda torch, x, mask: x.masked_select(mask), "aten.masked_select.default"),
    "unique": (lambda torch, x, mask: x.unique(), "aten._unique2.default"),
    "unique rows": (lambda torch, x, mask: x.unique(dim=0), "aten.unique_dim.default"),
    "unique_consecutive": (lambda torch, x, mask: x.unique_consecutive(),
                           "aten.unique_consecutive.default"),
    "bincount": (lambda torch, x, mask: mask[:, 0].long().bincount(), "aten.bincount.default"),
    "repeat_interleave": (lambda torch, x, mask: x.repeat_interleave(mask[:, 0].long(), 0),
                          "aten.repeat_interleave.Tensor"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_meta_tensors_refuse(torch, name):
    x, mask = torch.ones(4, 2, device="meta"), torch.ones(4, 2, dtype=torch.bool, device="meta")
    kind = RuntimeError if name == "repeat_interleave" else NotImplementedError
    with pytest.raises(kind, match="meta|Meta"):
        COUNTED[name][0](torch, x, mask)


@pytest.mark.parametrize("name", COUNTED)
def test_fake_tensors_refuse(torch, name):
    fake = importlib.import_module(f"{torch.__name__}._subclasses.fake_tensor")
    run, operator = COUNTED[name]
    with fake.FakeTensorMode():
        x, mask = torch.ones(4, 2), torch.ones(4, 2, dtype=torch.bool)
        with pytest.raises(fake.DynamicOutputShapeException) as caught:
            run(torch, x, mask)
    assert str(caught.value) == str(caught.value.func) == operator


def test_writes_at_masks_have_known_sizes(torch):
    x, mask = torch.ones(4, 2, device="meta"), torch.ones(4, 2, dtype=torch.bool, device="meta")
    x[mask] = 0
    assert torch.where(mask, x, 0).shape == x.masked_fill(mask, 1).shape == (4, 2)
    with pytest.raises(NotImplementedError, match="aten::equal"):
        torch.equal(x, x)
