"""torch.backends.*.fp32_precision: an operator takes its library's setting, that the general one's.
"""

from __future__ import annotations

import pytest

PATHS = ("", "cudnn", "cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv")


def place(torch, path):
    value = torch.backends
    for part in filter(None, path.split(".")):
        value = getattr(value, part)
    return value


def settings(torch):
    return [place(torch, path).fp32_precision for path in PATHS]


@pytest.fixture(autouse=True)
def restored(torch):
    before = [place(torch, path).fp32_precision for path in PATHS]
    yield
    for path, value in zip(PATHS, before, strict=True):
        place(torch, path).fp32_precision = value


def test_settings_are_inherited(torch):
    for path in PATHS:
        place(torch, path).fp32_precision = "none"
    assert settings(torch) == ["none"] * 7
    torch.backends.fp32_precision = "tf32"
    assert settings(torch) == ["tf32"] * 7
    torch.backends.cudnn.fp32_precision = "ieee"
    torch.backends.mkldnn.conv.fp32_precision = "bf16"
    assert settings(torch) == ["tf32", "ieee", "ieee", "ieee", "ieee", "tf32", "bf16"]
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert settings(torch) == ["tf32", "ieee", "tf32", "ieee", "ieee", "tf32", "bf16"]


def test_a_library_does_not_inherit_what_it_lacks(torch):
    for path in PATHS[1:]:
        place(torch, path).fp32_precision = "none"
    torch.backends.fp32_precision = "bf16"
    assert settings(torch) == ["bf16", "none", "none", "none", "none", "bf16", "bf16"]


def test_contexts_restore_the_settings(torch):
    before = settings(torch)
    with torch.backends.flags(fp32_precision="ieee"):
        assert torch.backends.fp32_precision == "ieee"
    with torch.backends.cudnn.flags(enabled=True, fp32_precision="tf32"):
        assert torch.backends.cudnn.fp32_precision == "tf32"
    assert settings(torch) == before


def test_the_older_switch_sets_it(torch):
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = False
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"


def test_refusals(torch):
    with pytest.raises(RuntimeError, match="Unknown precision: bad"):
        torch.backends.fp32_precision = "bad"
    with pytest.raises(RuntimeError, match="backend 'cuda' does not support precision 'bf16'"):
        torch.backends.cudnn.fp32_precision = "bf16"
    with pytest.raises(TypeError, match="incompatible function arguments"):
        torch.backends.mkldnn.matmul.fp32_precision = 3
    with pytest.raises(AttributeError, match="Unknown attribute x"):
        torch.backends.cudnn.conv.x = 1
