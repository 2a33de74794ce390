"""Names that libraries of optimizers import: lists of tensors by device and dtype."""

from __future__ import annotations

from importlib import import_module


def test_lists_are_grouped_by_device_and_dtype(torch):
    module = import_module(torch.__name__ + ".utils._foreach_utils")
    a, b, c = torch.ones(2), torch.ones(3, dtype=torch.float64), torch.ones(4)
    groups = module._group_tensors_by_device_and_dtype([[a, b, c], [c, None, a]], True)
    assert len(groups) == 2
    (first, second), places = groups[a.device, torch.float32]
    assert first[0] is a and first[1] is c and second[0] is c and second[1] is a
    assert places == [0, 2]
    assert groups[b.device, torch.float64][0][1] == [None]
    assert module._has_foreach_support([a, None], a.device)
    assert "cpu" in module._get_fused_kernels_supported_devices()
