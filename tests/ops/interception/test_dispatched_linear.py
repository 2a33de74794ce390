"""The operators that a mode or a class receives for linear."""

import pytest

CASES = {
    "matrix": ((4, 3), True, "t addmm"), "matrix without bias": ((4, 3), False, "t mm"),
    "batch": ((5, 4, 3), True, "view t addmm view"),
    "batch without bias": ((5, 4, 3), False, "t view mm _unsafe_view"),
    "vector": ((3,), True, "view t addmm view"),
    "vector without bias": ((3,), False, "t unsqueeze mm squeeze_"),
}


def record_calls(torch):
    """Return a mode and the list to which it adds the names of the operators that it sees."""
    if torch.__name__ == "flambeau":
        from flambeau.utils._python_dispatch import TorchDispatchMode
    else:
        from torch.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    return Log(), seen


@pytest.mark.parametrize("case", CASES)
def test_linear_is_handed_over_as_products(torch, case):
    mode, seen = record_calls(torch)
    shape, has_bias, expected = CASES[case]
    x = torch.rand(shape, requires_grad=True)
    w, b = torch.rand(2, 3, requires_grad=True), torch.rand(2) if has_bias else None
    with mode:
        y = torch.nn.functional.linear(x, w, b)
    assert seen == expected.split()
    plain = torch.nn.functional.linear(x, w, b)
    assert torch.equal(y, plain) and y.requires_grad
    for a, e in zip(torch.autograd.grad(y.sin().sum(), (x, w)),
                    torch.autograd.grad(plain.sin().sum(), (x, w)), strict=True):
        assert torch.allclose(a, e)


@pytest.mark.parametrize("shape", [(4, 3), (5, 4, 3)], ids=str)
def test_the_gradient_of_a_weight_is_handed_over_as_a_product(torch, shape):
    mode, seen = record_calls(torch)
    x, w = torch.rand(shape), torch.rand(2, 3, requires_grad=True)
    with mode:
        torch.nn.functional.linear(x, w, torch.rand(2)).sum().backward()
    backward = seen[seen.index("sum"):]
    assert "mm" in backward and not any(name.startswith("_rows") for name in backward)
    assert torch.allclose(w.grad, x.reshape(-1, 3).sum(0).expand(2, 3))


@pytest.mark.parametrize("name", ["relu", "exp", "tanh", "sqrt"])
def test_the_detach_of_a_saved_output_is_handed_over(torch, name):
    mode, seen = record_calls(torch)
    x = torch.ones(2, requires_grad=True)
    with mode:
        y = getattr(x, name)()
        getattr(x.detach(), name)()
    assert seen == [name, "detach", "detach", name]
    seen.clear()
    z = y.sum()
    with mode:
        z.backward()
    assert seen[0] == "ones_like"
    assert x.grad is not None


def test_modes_see_what_is_no_operator(torch):
    mode, seen = record_calls(torch)
    x = torch.tensor([1.0, 0.0])
    with mode:
        x.detach()
        torch.nonzero(x)
        torch.masked_select(x, x > 0)
        x[0].item()
    assert seen == ["detach", "nonzero", "gt", "masked_select", "select", "_local_scalar_dense"]


def test_squeezing_no_axes_keeps_them_all(torch):
    x = torch.ones(1, 2, 1)
    assert torch.squeeze(x, []).shape == torch.squeeze(x, ()).shape == (1, 2, 1)
