"""Lazy conjugation and negation: views whose bits are resolved when somebody reads them."""

from __future__ import annotations

import copy
import io

import pytest


@pytest.fixture
def x(torch):
    return torch.tensor([[1 + 2j, 3 - 1j], [0.5j, -2 + 0j]])


def test_a_conjugate_is_a_view(torch, x):
    y = x.conj()
    assert y.is_conj()
    assert torch.is_conj(y)
    assert not x.is_conj()
    assert not y.is_neg()
    assert y.data_ptr() == x.data_ptr()
    assert y._is_view()
    assert y._base is x
    assert y.conj().is_conj() is False
    assert torch.equal(y.conj(), x)
    assert y.tolist() == [[1 - 2j, 3 + 1j], [-0.5j, -2 + 0j]]
    assert torch.ones(2).conj().is_conj() is False


def test_writes_go_through_the_conjugate(torch, x):
    y = x.conj()
    y[0, 0] = 5 + 7j
    assert x[0, 0].item() == 5 - 7j
    y.mul_(1j)
    assert x[0, 0].item() == (1j * (5 + 7j)).conjugate()
    y.copy_(torch.zeros(2, 2))
    assert not x.any()
    x[1, 1] = 1 + 1j
    assert y[1, 1].item() == 1 - 1j


def test_views_keep_the_bit(torch, x):
    y = x.conj()
    for view in (lambda t: t[0], lambda t: t.T, lambda t: t.reshape(4), lambda t: t[:, 1:],
                 lambda t: t.unsqueeze(0), lambda t: t.expand(3, 2, 2), lambda t: t.flatten(),
                 lambda t: t.view(4), lambda t: t.permute(1, 0), lambda t: t.diagonal(),
                 lambda t: t.detach(), lambda t: t.unbind()[1], lambda t: t.narrow(0, 0, 1),
                 lambda t: t.split(1)[1]):
        assert view(y).is_conj(), view.__code__.co_consts
        assert torch.equal(view(y).resolve_conj(), view(x).conj_physical())
    for function in (lambda t: t * 1, lambda t: t.clone(), lambda t: t.sum(0), torch.sin,
                     lambda t: t @ t, lambda t: torch.cat([t, t]), lambda t: t.abs(),
                     lambda t: t.to(torch.complex128), lambda t: t[[1, 0]], torch.angle):
        assert torch.allclose(function(y).resolve_conj(), function(x.conj_physical()))
    assert not (y * 1).is_conj()
    assert torch.equal(x.H, x.T.conj())


def test_parts_of_a_conjugate(torch, x):
    y = x.conj()
    assert y.real.data_ptr() == x.real.data_ptr()
    assert not y.real.is_neg()
    part = y.imag
    assert part.is_neg()
    assert torch.equal(part, -x.imag)
    assert torch.equal(part.resolve_neg(), -x.imag)
    part.fill_(3)
    assert x.imag.tolist() == [[-3, -3], [-3, -3]]
    assert (part + 1).tolist() == [[4, 4], [4, 4]]
    negative = torch._neg_view(torch.tensor([1.0, -2.0]))
    assert negative.is_neg()
    assert negative.tolist() == [-1, 2]
    assert torch._neg_view(negative).is_neg() is False


def test_resolving(torch, x):
    y = x.conj()
    copy = torch.resolve_conj(y)
    assert not copy.is_conj()
    assert copy.data_ptr() != x.data_ptr()
    assert torch.equal(copy, y)
    assert x.resolve_conj() is x
    assert x.resolve_neg() is x
    assert not y.conj_physical().is_conj()
    assert torch.equal(torch.view_as_real(y.resolve_conj())[..., 1], -x.imag)
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated "):
        torch.view_as_real(y)


def test_printing_numpy_and_files(torch, x):
    y = x.conj()
    assert repr(y) == repr(y.resolve_conj())
    for bit, view in (("conjugate", y), ("negative", y.imag)):
        with pytest.raises(RuntimeError, match=f"on Tensor that has {bit} bit"):
            view.numpy()
    assert y.resolve_conj().numpy()[0, 0] == 1 - 2j
    buffer = io.BytesIO()
    torch.save(y, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    copied = copy.deepcopy(y)
    assert loaded.is_conj()
    assert not copied.is_conj()
    assert torch.equal(loaded, y)
    assert torch.equal(copied, y)


def test_gradients_through_the_view(torch):
    x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    y = x.conj()
    assert y.grad_fn.name() == "ConjBackward0"
    (y * (2 + 1j)).abs().sum().backward()
    z = x.detach().requires_grad_()
    (z.conj_physical() * (2 + 1j)).abs().sum().backward()
    assert torch.allclose(x.grad, z.grad)
    base = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    copied = base * 1
    copied.conj().mul_(1j)
    copied.real.sum().backward()
    assert torch.allclose(base.grad.resolve_conj(), torch.tensor([1j, 1j]))


def test_large_negative_views(torch):
    torch.manual_seed(0)
    x = torch.randn(300, 300, dtype=torch.complex64)
    part, wanted = x.conj().imag, -x.imag
    # Strided and contiguous tensors may take kernels that round otherwise.
    assert torch.allclose(part.exp(), wanted.exp(), rtol=3e-7, atol=0)
    assert torch.equal(part + part, wanted + wanted)
    assert torch.allclose(part @ part, wanted @ wanted, rtol=1e-3, atol=1e-3)
    assert torch.equal(part.sum(0), wanted.contiguous().sum(0)) or \
        torch.allclose(part.sum(0), wanted.sum(0), atol=1e-3)
    assert torch.allclose(part.softmax(1), wanted.softmax(1))
    part.mul_(2)
    assert torch.equal(x.imag, -2 * wanted)


@pytest.mark.filterwarnings("ignore:flambeau.compile")
def test_a_compiled_step_writes_through_conjugates():
    import flambeau as torch

    x = torch.tensor([1 + 2j, 3 - 1j])

    def step(t):
        t.conj().mul_(1j)
        return t * 2

    compiled, twin = torch.compile(step), x.clone()
    for _ in range(8):
        assert torch.equal(compiled(x), step(twin))


def test_tangents_have_the_bits_of_their_primals(torch):
    fwd = torch.autograd.forward_ad
    with fwd.dual_level():
        x, t = (torch.randn(3, dtype=torch.complex64) for _ in range(2))
        assert fwd.unpack_dual(fwd.make_dual(x.conj(), t.conj())).tangent.is_conj()
        dual = fwd.make_dual(x, t.conj())
        assert fwd.unpack_dual(dual).tangent.is_conj() is False
        assert torch.equal(fwd.unpack_dual(dual).tangent, t.conj())
        assert "tangent=tensor" in str(dual)
        assert "tangent=" not in str(x)
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            fwd.make_dual(torch.ones(3, dtype=torch.complex64), dual)
        with pytest.raises(RuntimeError, match="out= function"):
            torch.mul(dual, x, out=torch.empty_like(x))


def test_views_of_conjugates_and_negatives_keep_the_bit(torch, x):
    row = x.conj().select(0, 1)
    assert row.is_conj()
    assert row.tolist() == [-0.5j, -2 + 0j]
    assert torch._neg_view(torch.arange(3.0)).select(0, 2).item() == -2
    negative = torch._neg_view(torch.arange(6.0)).resize_(2, 3)
    assert negative.is_neg()
    assert negative.tolist() == [[0, -1, -2], [-3, -4, -5]]
    larger = x.conj().resize_(3, 3)
    assert larger.is_conj()
    assert larger.shape == (3, 3)
