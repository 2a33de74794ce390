"""Kernels for aten's operators, as torch.library registers them."""

import threading

import pytest


@pytest.fixture
def library(torch):
    lib = torch.library.Library("aten", "IMPL")
    yield lib
    lib._destroy()


def test_a_kernel_replaces_the_operator_until_the_library_is_gone(torch, library):
    library.impl("neg", lambda x: x.clone(), "CPU")
    x = torch.ones(2)
    for y in (torch.neg(x), -x, x.neg(), torch.ops.aten.neg.default(x)):
        assert y.tolist() == [1, 1]
    library._destroy()
    assert torch.neg(x).tolist() == (-x).tolist() == [-1, -1]


def test_autograd_records_the_operator(torch, library):
    library.impl("sin", lambda x: x * 3, "CPU")
    x = torch.zeros(2, requires_grad=True)
    y = torch.sin(x)
    assert type(y.grad_fn).__name__ == "SinBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_a_kernel_above_autograd_is_recorded_itself(torch, library):
    library.impl("cos", lambda x: x * 3, "AutogradCPU")
    x = torch.ones(2, requires_grad=True)
    torch.cos(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert torch.cos(torch.ones(2)).tolist() == [3, 3]


def test_overloads_are_told_apart(torch, library):
    library.impl("add.Tensor", lambda a, b, alpha=1: torch.mul(a, b), "CPU")
    library.impl("aten::sum", lambda x, dtype=None: x.clone(), "CPU")
    x = torch.full((2, 2), 3.0)
    assert (x + x).tolist() == [[9, 9], [9, 9]]
    assert x.sum().shape == (2, 2) and x.sum(1).tolist() == [6, 6]


def test_composites_find_the_kernels_of_their_parts(torch, library):
    library.impl("addmm", lambda *args, **options: torch.zeros(2, 2), "CPU")
    assert torch.nn.Linear(3, 2)(torch.ones(2, 3)).tolist() == [[0, 0], [0, 0]]


def test_other_keys_are_not_called(torch, library):
    library.impl("exp", lambda x: x * 0, "CUDA")
    library.impl("exp2", lambda x: x * 0, "Meta")
    assert torch.exp(torch.zeros(1)).item() == torch.exp2(torch.zeros(1)).item() == 1


def test_programs_do_not_see_the_mode_and_later_threads_have_it(torch, library):
    from flambeau.utils import _python_dispatch as flambeau_modes

    library.impl("neg", lambda x: x.clone(), "CPU")
    if torch.__name__ == "flambeau":
        assert flambeau_modes._get_current_dispatch_mode_stack() == []
    results = []
    thread = threading.Thread(target=lambda: results.append(torch.neg(torch.ones(1)).item()))
    thread.start()
    thread.join()
    assert results == [1]


def test_what_is_refused(torch, library):
    def kernel(x):
        return x

    with pytest.raises(ValueError, match="prim is a reserved namespace"):
        torch.library.Library("prim", "FRAGMENT")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        torch.library.Library("aten", "DEF")
    with pytest.raises(RuntimeError, match="could not parse dispatch key: Nokey"):
        library.impl("neg", kernel, "Nokey")
    other = torch.library.Library("othernamespace", "FRAGMENT")
    with pytest.raises(RuntimeError, match="operator name does not match namespace"):
        other.impl(torch.ops.aten.neg.default, kernel, "CPU")
    other._destroy()
    with torch.library._scoped_library("aten", "IMPL", "CPU") as cpu:
        with pytest.raises(RuntimeError, match=r"key \(Conjugate\) is inconsistent with"):
            cpu.impl("neg", kernel, "Conjugate")
        cpu.impl("neg", kernel)
        with pytest.raises(RuntimeError, match="already a kernel registered from python"):
            cpu.impl("neg", kernel, allow_override=False)
