"""8-bit floats: what PyTorch's kernels lack is refused in their words, the rest works."""

from __future__ import annotations

import pytest

DTYPES = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
REFUSED = {
    "sum_cpu": lambda x: x.sum(), "prod_out_cpu": lambda x: x.prod(1), "max_all": lambda x: x.max(),
    "max_cpu": lambda x: x.max(1), "min_cpu": lambda x: x.min(1), "max_values_cpu":
    lambda x: x.amax(1), "min_values_cpu": lambda x: x.amin(0), "aminmax_cpu":
    lambda x: x.aminmax(), "argmax_cpu": lambda x: x.argmax(), "argmin_cpu": lambda x: x.argmin(1),
    "std_cpu": lambda x: x.std(1), "norm_cpu": lambda x: x.norm(),
    "cumsum_out_cpu": lambda x: x.cumsum(0), "cumprod_out_cpu": lambda x: x.cumprod(0),
    "cummax_cpu": lambda x: x.cummax(0), "logcumsumexp_out_cpu": lambda x: x.logcumsumexp(0),
    "sorting_kernel_method_name": lambda x: x.sort(), "topk_cpu": lambda x: x.topk(1),
    "median_cpu": lambda x: x.median(), "median_out": lambda x: x.median(1),
    "kthvalue_cpu": lambda x: x.kthvalue(1), "mode_cpu": lambda x: x.mode(),
    "unique": lambda x: x.unique(), "unique_dim": lambda x: x.unique(dim=0),
    "softmax_lastdim_kernel_impl": lambda x: x.softmax(1),
    "log_softmax_kernel_impl": lambda x: x.log_softmax(0), "nansum_cpu": lambda x: x.nansum(),
    "nonzero_count_cpu": lambda x: x.nonzero(), "flip_cpu": lambda x: x.flip(1),
}


@pytest.fixture(params=DTYPES)
def x(request, torch):
    return torch.tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 2.0]]).to(getattr(torch, request.param))


@pytest.mark.parametrize("kernel", REFUSED)
def test_is_refused(kernel, x):
    name = str(x.dtype).rpartition(".")[2].capitalize()
    with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for '{name}'"):
        REFUSED[kernel](x)


def test_variance_of_all_elements_has_a_text_of_its_own(x):
    with pytest.raises(RuntimeError, match="std_var_all: Unsupported dtype Float8_e"):
        x.var()


def test_what_works(x, torch):
    assert x.any().item()
    assert x.float().sum().item() == 12
    assert x.sum(dtype=torch.float32).item() == 12
    assert x.flip(0)[0, 2].item() == 2
    assert x.roll(1, 0)[0, 2].item() == 2
    assert (x == x).all().item()
    assert x.count_nonzero(1).tolist() == [3, 3]


def test_casts_to_float8_e4m3fn_saturate(torch):
    numbers = [448.0, 465.0, 1e9, float("inf"), -float("inf"), float("nan"), 0.3]
    expected = torch.tensor([448.0, 448, 448, 448, -448, float("nan"), 0.3125])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        rounded = torch.tensor(numbers).to(dtype).to(torch.float8_e4m3fn)
        assert torch.equal(rounded.float().nan_to_num(7), expected.nan_to_num(7))
    assert torch.tensor([500], dtype=torch.float8_e4m3fn).float().item() == 448
    assert torch.full((1,), 500.0, dtype=torch.float32).to(torch.float8_e4m3fn).float() == 448
    assert torch.tensor(numbers[:4]).to(torch.float8_e5m2).float().tolist() == [
        448, 448, float("inf"), float("inf")]
