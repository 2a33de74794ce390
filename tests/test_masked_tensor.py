"""torch.masked.MaskedTensor: printing, operators, reductions, gradients, errors."""

from __future__ import annotations

from importlib import import_module

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")


@pytest.fixture
def masked(torch):
    return import_module(torch.__name__ + ".masked")


@pytest.fixture
def data(torch):
    return torch.arange(6.0).reshape(2, 3)


@pytest.fixture
def mask(torch):
    return torch.tensor([[True, False, False], [True, True, False]])


def test_missing_elements_print_as_dashes(masked, data, mask):
    x = masked.masked_tensor(data, mask)
    assert repr(x) == ("MaskedTensor(\n  [\n    [  0.0000,       --,       --],\n"
                       "    [  3.0000,   4.0000,       --]\n  ]\n)")
    assert repr(x.sum()) == "MaskedTensor(  7.0000, True)"
    assert repr(masked.masked_tensor(data > 9, ~mask | mask)[0]) == \
        "MaskedTensor(\n  [False, False, False]\n)"


def test_pointwise_operators_keep_the_mask(torch, masked, data, mask):
    x = masked.masked_tensor(data, mask)
    for y, wanted in (((x * 2 + x).exp(), (data * 3).exp()), (x.clamp(1, 2), data.clamp(1, 2)),
                      (x.to(torch.float64), data.double()), (x < 3, data < 3)):
        assert masked.is_masked_tensor(y)
        assert torch.equal(y.get_mask(), mask)
        assert torch.equal(y.get_data(), wanted)
    assert x.to_tensor(-1).tolist() == [[0, -1, -1], [3, 4, -1]]
    y = masked.masked_tensor(data.clone(), mask)
    assert y.add_(1) is y
    assert y.get_data().tolist() == (data + 1).tolist()


def test_movements_move_the_mask(torch, masked, data, mask):
    x = masked.masked_tensor(data, mask)
    for move in (lambda t: t[1], lambda t: t[:, 1:], lambda t: t.transpose(0, 1),
                 lambda t: t.view(3, 2), lambda t: torch.cat([t, t]), lambda t: t.unsqueeze(0)):
        y = move(x)
        assert torch.equal(y.get_data(), move(data))
        assert torch.equal(y.get_mask(), move(mask))
    assert [part.shape for part in x.split(1)] == [(1, 3), (1, 3)]


@pytest.mark.parametrize("name, whole, rows", [
    ("sum", 7, [0, 7]), ("mean", 7 / 3, [0, 3.5]), ("amax", 4, [0, 4]), ("amin", 0, [0, 3]),
    ("prod", 0, [0, 12]), ("argmax", 4, [0, 1]),
])
def test_reductions_read_what_is_there(torch, masked, data, mask, name, whole, rows):
    x = masked.masked_tensor(data, mask)
    assert getattr(x, name)().item() == pytest.approx(whole)
    y = getattr(torch, name)(x, 1)
    assert y.get_data().tolist() == rows
    assert y.get_mask().all()
    assert not getattr(x[:, 2:], name)().get_mask()  # nothing is there


@pytest.mark.parametrize("function, wanted", [
    (lambda x: (x * x).sum(), [[0, 2, 4], [6, 8, 10]]),
    (lambda x: (x * 3).mean(), [[1] * 3] * 2),
    (lambda x: (x * 2).sum(1).sum(), [[2] * 3] * 2),
])
def test_gradients_are_masked(torch, masked, data, mask, function, wanted):
    x = masked.masked_tensor(data, mask, requires_grad=True)
    function(x).backward()
    assert masked.is_masked_tensor(x.grad)
    assert torch.equal(x.grad.get_mask(), mask)
    assert x.grad.to_tensor(0).tolist() == (torch.tensor(wanted) * mask).tolist()


def test_gradients_of_where_miss_what_was_not_chosen(torch, masked, data, mask):
    x, y = (masked.masked_tensor(data, mask, requires_grad=True) for _ in range(2))
    torch.where(data > 3, x * 2, y * 3).sum().backward()
    assert x.grad.get_mask().tolist() == [[False] * 3, [False, True, False]]
    assert y.grad.get_mask().tolist() == [[True, False, False], [True, False, False]]


def test_a_history_reaches_the_data(masked, data, mask):
    data.requires_grad_()
    masked.as_masked_tensor(data, mask).exp().sum().backward()
    assert data.grad.to_tensor(0).tolist() == (data.exp() * mask).tolist()


def test_wrong_arguments(torch, masked, data, mask):
    x = masked.masked_tensor(data, mask)
    with pytest.raises(ValueError, match="Input masks must match"):
        x + masked.masked_tensor(data, ~mask)
    with pytest.raises(TypeError, match="mask must have dtype bool"):
        masked.masked_tensor(data, data)
    with pytest.raises(ValueError, match=r"data.dim\(\) must equal mask.dim\(\)"):
        masked.masked_tensor(data, mask[0])
    with pytest.raises(TypeError, match="data must be a Tensor"):
        masked.masked_tensor([1.0], mask)
    with pytest.raises(TypeError, match="complex64 is not supported"):
        masked.masked_tensor(data.to(torch.complex64), mask)
    with pytest.raises(TypeError), pytest.warns(UserWarning, match="is not implemented"):
        torch.linalg.qr(x)


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr"])
def test_sparse_layouts(torch, masked, data, mask, convert):
    mask = ~mask  # PyTorch's exp of a CSR matrix drops last columns without elements
    stored = getattr(mask, convert)()
    if convert == "to_sparse":
        stored = stored.coalesce()
    x = masked.masked_tensor(data.sparse_mask(stored), stored)
    assert x.layout is stored.layout
    for y, wanted in ((x * 2, data * 2), (x.exp(), data.exp()), (x + x, data + data)):
        assert y.layout is stored.layout
        assert torch.equal(y.to_dense().to_tensor(0.0), wanted.masked_fill(~mask, 0))
    for name in ("sum", "amax", "prod") if convert == "to_sparse" else ():
        dense = masked.masked_tensor(data, mask)
        assert getattr(x, name)().to_tensor(0.0) == getattr(dense, name)().to_tensor(0.0)


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr"])
def test_gradients_through_sparse_layouts(torch, masked, data, mask, convert):
    x = masked.masked_tensor(data, mask, requires_grad=True)
    y = getattr(x, convert)()
    (y.to_dense() * 3).sum().backward()
    assert x.grad.layout is torch.strided
    assert x.grad.to_tensor(0.0).tolist() == (mask * 3.0).tolist()


def test_sparse_data_and_mask_store_the_same_places(torch, masked):
    places = [torch.tensor([[0, 1], [i, 0]]) for i in (1, 2)]
    data = torch.sparse_coo_tensor(places[0], torch.ones(2), (2, 3))
    mask = torch.sparse_coo_tensor(places[1], torch.tensor([True, True]), (2, 3))
    with pytest.raises(ValueError, match="both sparse COO tensors but do not have the same"):
        masked.masked_tensor(data, mask)
    with pytest.raises(TypeError, match="torch.sparse_csc is not supported"):
        masked.masked_tensor(torch.eye(2).to_sparse_csc(), torch.eye(2).bool().to_sparse_csc())


def test_softmax_and_powers_in_place(torch, masked, data, mask):
    x = masked.masked_tensor(data, mask, requires_grad=True)
    (torch.softmax(x, -1) * data).sum().backward()
    plain = data.masked_fill(~mask, float("-inf")).requires_grad_()
    (torch.softmax(plain, -1) * data).sum().backward()
    assert torch.allclose(x.grad.to_tensor(0.0), plain.grad)
    y = masked.masked_tensor(data, mask)
    assert y.pow_(2) is y
    assert y.to_tensor(0.0).tolist() == (data**2 * mask).tolist()


def test_names_of_operators(torch, masked):
    unary = import_module(torch.__name__ + ".masked.maskedtensor.unary")
    binary = import_module(torch.__name__ + ".masked.maskedtensor.binary")
    assert "sqrt" in unary.UNARY_NAMES
    assert len(binary.NATIVE_INPLACE_BINARY_FNS) == 30
    x = torch.tensor([1.0, 5.0])
    filled = masked._combine_input_and_mask(torch.amax, x, torch.tensor([True, False]))
    assert filled.tolist() == [1.0, float("-inf")]


def test_masked_tensors_are_assigned_by_their_data(torch):
    """pomegranate assigns masked results to parameters."""
    from importlib import import_module

    masked = import_module(f"{torch.__name__}.masked")
    source = masked.masked_tensor(torch.tensor([1.0, 2, 3]), torch.tensor([True, False, True]))
    target, parameter = torch.zeros(3), torch.nn.Parameter(torch.zeros(3), requires_grad=False)
    target[...] = source
    parameter[1:] = source[1:]
    assert type(target) is torch.Tensor and target.tolist() == [1.0, 2.0, 3.0]
    assert parameter.tolist() == [0.0, 2.0, 3.0]
