"""Numbers before tensors, as PyTorch before 1.5 had it: accepted, with one warning a process."""

import warnings

import pytest

import flambeau as torch
from flambeau.native.foundation.user_frames import OneTime

V = torch.tensor([1.0, 2.0])
W = torch.tensor([3.0, 4.0])
M = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
B = M.reshape(1, 2, 2)

OLD_AND_NEW = [
    (lambda: V.add(2, W), lambda: V.add(W, alpha=2)),
    (lambda: V.clone().add_(2, W), lambda: V.add(W, alpha=2)),
    (lambda: torch.add(V, 2, W), lambda: V.add(W, alpha=2)),
    (lambda: V.add(2, 3), lambda: V.add(3, alpha=2)),
    (lambda: V.add(torch.tensor(2), W), lambda: V.add(W, alpha=2)),
    (lambda: torch.add(V, 2, W, out=torch.empty(2)), lambda: V.add(W, alpha=2)),
    (lambda: V.sub(2, W), lambda: V.sub(W, alpha=2)),
    (lambda: V.clone().sub_(2.5, W), lambda: V.sub(W, alpha=2.5)),
    (lambda: V.addcmul(2, V, W), lambda: V.addcmul(V, W, value=2)),
    (lambda: V.clone().addcmul_(2, V, W), lambda: V.addcmul(V, W, value=2)),
    (lambda: V.clone().addcdiv_(-0.5, V, W), lambda: V.addcdiv(V, W, value=-0.5)),
    (lambda: torch.addcdiv(V, 2, V, W), lambda: V.addcdiv(V, W, value=2)),
    (lambda: torch.addmm(2, M, 3, M, M), lambda: M.addmm(M, M, beta=2, alpha=3)),
    (lambda: torch.addmm(2, M, M, M), lambda: M.addmm(M, M, beta=2)),
    (lambda: M.addmm(2, 3, M, M), lambda: M.addmm(M, M, beta=2, alpha=3)),
    (lambda: M.clone().addmm_(2, 3, M, M), lambda: M.addmm(M, M, beta=2, alpha=3)),
    (lambda: M.clone().addmm_(2, M, M), lambda: M.addmm(M, M, beta=2)),
    (lambda: V.addmv(2, 3, M, W), lambda: V.addmv(M, W, beta=2, alpha=3)),
    (lambda: V.clone().addmv_(2, M, W), lambda: V.addmv(M, W, beta=2)),
    (lambda: torch.addr(2, M, 3, V, W), lambda: M.addr(V, W, beta=2, alpha=3)),
    (lambda: M.clone().addr_(2, V, W), lambda: M.addr(V, W, beta=2)),
    (lambda: torch.addbmm(2, M, 3, B, B), lambda: M.addbmm(B, B, beta=2, alpha=3)),
    (lambda: M.clone().addbmm_(2, 3, B, B), lambda: M.addbmm(B, B, beta=2, alpha=3)),
    (lambda: torch.baddbmm(2, B, B, B), lambda: B.baddbmm(B, B, beta=2)),
    (lambda: B.clone().baddbmm_(2, 3, B, B), lambda: B.baddbmm(B, B, beta=2, alpha=3)),
]


@pytest.fixture(autouse=True)
def not_warned(monkeypatch):
    monkeypatch.setattr(OneTime, "told", set())


@pytest.mark.parametrize("old, new", OLD_AND_NEW)
def test_numbers_first_mean_what_they_mean_by_name(old, new):
    with pytest.warns(UserWarning, match="This overload of .* is deprecated:\n\t"):
        actual = old()
    assert actual.tolist() == new().tolist()


def test_the_warning_comes_once_and_names_the_callers_line():
    with pytest.warns(UserWarning, match="deprecated") as caught:
        V.clone().add_(2, W)
        V.clone().addcdiv_(2, V, W)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert str(caught[0].message) == (
        "This overload of add_ is deprecated:\n\tadd_(Number alpha, Tensor other)\n"
        "Consider using one of the following signatures instead:\n"
        "\tadd_(Tensor other, *, Number alpha = 1)"
    )


@pytest.mark.parametrize("call", [old for old, _ in OLD_AND_NEW[:2] + OLD_AND_NEW[9:10]])
def test_the_line_is_the_callers_of_functions_written_late_and_of_twins(call):
    with pytest.warns(UserWarning, match="deprecated") as caught:
        call()
    assert caught[0].filename == __file__


def test_warn_always_has_it_each_time():
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="deprecated") as caught:
            torch.addmm(2, M, 3, M, M)
            torch.addmm(2, M, 3, M, M)
    finally:
        torch.set_warn_always(False)
    assert len(caught) == 2
    assert "addmm(Number beta, Tensor input, Number alpha, Tensor mat1, Tensor mat2, *, Tensor " \
        "out = None)\n" in str(caught[0].message)


@pytest.mark.parametrize("call", [
    lambda: V.add(W, 2), lambda: V.add_(V, W), lambda: V.add("2", W), lambda: V.add(2, [1, 2]),
    lambda: V.addcmul(V, W, 2), lambda: V.addcdiv_(V, W, 2), lambda: M.addmm(M, M, 2),
    lambda: torch.addmm(2, M, 3, M, M, M), lambda: V.add(2, W, alpha=3),
    lambda: V.add(torch.tensor(2.0, requires_grad=True), W),
])
def test_other_orders_are_errors(call):
    with pytest.raises(TypeError, match="positional argument|multiple values"):
        call()


def test_factors_that_the_dtype_does_not_take():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="alpha must not be a complex number"):
            V.add(2 + 0j, W)
        with pytest.raises(RuntimeError, match="Boolean alpha only supported"):
            V.add(True, W)


def test_gradients_and_large_tensors():
    x = torch.rand(40_000, requires_grad=True)
    y = torch.rand(40_000)
    with pytest.warns(UserWarning, match="deprecated"):
        z = (x * 1).addcmul_(2, x, y).add_(3, x)
    z.sum().backward()
    assert torch.allclose(x.grad, 4 + 2 * y)
    total = y.clone().addcdiv_(-0.5, y, y + 1)
    assert torch.equal(total, y.addcdiv(y, y + 1, value=-0.5))


def test_a_compiled_step_takes_the_old_order():
    def step(x, y):
        return torch.addmm(2, x, 3, x, y).addcmul_(0.5, x, y).add_(2, y)

    compiled = torch.compile(step)
    for _ in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actual = compiled(M, M + 1)
            want = step(M, M + 1)
        assert torch.allclose(actual, want)


def test_signatures_show_todays_order():
    import inspect

    for function in (torch.add, torch.Tensor.add_, torch.addmm, torch.addr, torch.addcmul):
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        assert inspect.Parameter.VAR_POSITIONAL not in kinds
