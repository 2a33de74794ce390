"""Bounds in half precision: where an element equals the bound's rounding, PyTorch's kernels and
derivatives compare it with the rounded or with the exact number."""

import pytest

FUNCTIONS = {
    "hardshrink": lambda torch, x, n: torch.nn.functional.hardshrink(x, n),
    "softshrink": lambda torch, x, n: torch.nn.functional.softshrink(x, n),
    "clamp": lambda torch, x, n: x.clamp(-n, n),
    "clamp_max": lambda torch, x, n: x.clamp(max=n),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("bound", [0.3, 0.7, 1 / 3])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_an_element_on_the_rounded_bound_lies_inside(torch, name, bound, dtype):
    x = torch.tensor([bound, -bound], dtype=getattr(torch, dtype), requires_grad=True)
    y = FUNCTIONS[name](torch, x, bound)
    y.sum().backward()
    assert x.grad.tolist() == ([0, 0] if "shrink" in name else [1, 1])
    if name == "hardshrink":
        assert y.tolist() == [0, 0]


def test_hardtanh_compares_with_the_exact_number(torch):
    x = torch.tensor([0.7, 0.3], dtype=torch.bfloat16, requires_grad=True)
    torch.nn.functional.hardtanh(x, -0.7, 0.7).sum().backward()
    assert x.grad.tolist() == [float(x[0].item() < 0.7), 1]


def test_frexp_names_the_wrong_output(torch):
    x = torch.ones(2)
    for mantissa, exponent, text in [("float64", "int32", "mantissa to have dtype float"),
                                     ("float32", "int64", "exponent to have int dtype")]:
        out = (torch.empty(2, dtype=getattr(torch, mantissa)),
               torch.empty(2, dtype=getattr(torch, exponent)))
        with pytest.raises(RuntimeError, match=text):
            torch.frexp(x, out=out)
