"""torch.nested in both layouts: parts, printing, operators, gradients, errors."""

from __future__ import annotations

import copy
import io
from importlib import import_module

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.fixture
def rows(torch):
    torch.manual_seed(0)
    return [torch.randn(n, 4, dtype=torch.float64) for n in (2, 3, 1)]


@pytest.fixture
def jagged(torch, rows):
    import_module(torch.__name__ + ".nested")
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


@pytest.fixture
def loose(torch, rows):
    import_module(torch.__name__ + ".nested")
    return torch.nested.as_nested_tensor(rows)


def check_rows(torch, nt, wanted):
    actual = nt.unbind()
    assert len(actual) == len(wanted)
    for x, y in zip(actual, wanted, strict=True):
        assert x.shape == y.shape
        assert torch.allclose(x, y)


# ------------------------------------------------------------------------------------ jagged layout


def test_parts_of_a_jagged_tensor(torch, jagged, rows):
    assert jagged.is_nested
    assert jagged.layout is torch.jagged
    assert jagged.dim() == jagged.ndim == 3
    assert jagged.size(0) == jagged.shape[0] == len(jagged) == 3
    assert (jagged.size(-1), jagged.numel(), jagged.dtype) == (4, 24, torch.float64)
    assert isinstance(jagged.shape[1], torch.SymInt)
    assert jagged.offsets().tolist() == [0, 2, 5, 6]
    assert jagged.lengths() is None
    assert torch.equal(jagged.values(), torch.cat(rows))
    assert jagged.is_contiguous()
    check_rows(torch, jagged, rows)


def test_the_ragged_length_is_that_of_the_offsets(torch, jagged):
    length = jagged.shape[1]
    assert (jagged * 2).shape[1] == length
    assert length != 3
    assert length >= 2
    assert jagged.stride()[0] == length * 4
    other = torch.nested.nested_tensor_from_jagged(jagged.values(), jagged.offsets().clone())
    assert other.shape[1] != length
    assert repr(jagged.shape) == f"torch.Size([3, {length}, 4])"


def test_printing(torch, jagged, loose):
    text = repr(jagged)
    assert text == (f"NestedTensor(size=(3, {jagged.shape[1]}, 4), offsets=tensor([0, 2, 5, 6]), "
                    "contiguous=True)")
    assert str(torch.nested.nested_tensor([[1, 2], [3]])) == \
        "nested_tensor([\n  tensor([1, 2]),\n  tensor([3])\n])"
    assert "requires_grad=True" in repr(jagged.detach().requires_grad_())


@pytest.mark.parametrize("function", [
    lambda torch, x: torch.sin(x) * 2 + 1,
    lambda torch, x: torch.nn.functional.gelu(x).clamp(min=-0.1),
    lambda torch, x: x - torch.arange(4.0),
    lambda torch, x: torch.arange(4.0) / (x.abs() + 1),
    lambda torch, x: torch.where(x > 0, x, x * 0.1),
    lambda torch, x: torch.nn.functional.dropout(x, 0.0),
    lambda torch, x: x.to(torch.float32).double(),
    lambda torch, x: torch.nn.functional.softmax(x, -1),
    lambda torch, x: torch.log_softmax(x, 2),
    lambda torch, x: x.sum(-1), lambda torch, x: x.amax(2, keepdim=True),
    lambda torch, x: x.unsqueeze(-1).expand(3, -1, 4, 2).flatten(2, 3),
    lambda torch, x: x.view(3, -1, 2, 2).transpose(2, 3),
    lambda torch, x: x @ torch.ones(4, 2, dtype=torch.float64),
    lambda torch, x: torch.cat([x, x * 2], -1), lambda torch, x: torch.stack([x, x], 2),
    lambda torch, x: x.chunk(2, -1)[1], lambda torch, x: torch.split(x, [1, 3], 2)[1],
])
def test_functions_of_each_row(torch, jagged, rows, function):
    """What they do to the tensor, they do to each row."""
    if function.__code__.co_consts and "expand" in function.__code__.co_names:
        wanted = [r.unsqueeze(-1).expand(-1, 4, 2).flatten(1, 2) for r in rows]
    elif "view" in function.__code__.co_names:
        wanted = [r.view(-1, 2, 2).transpose(1, 2) for r in rows]
    else:
        wanted = [function(torch, r.unsqueeze(0)).squeeze(0) for r in rows]
    check_rows(torch, function(torch, jagged), wanted)


def test_modules_of_each_row(torch, rows):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8))
    net.double()
    x = torch.nested.nested_tensor(rows, layout=torch.jagged)
    check_rows(torch, net(x), [net(r) for r in rows])
    table = torch.nn.Embedding(5, 3)
    words = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([4])],
                                       layout=torch.jagged)
    check_rows(torch, table(words), [table(w) for w in words.unbind()])


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod"])
def test_reductions_over_the_ragged_axis(torch, jagged, rows, name):
    reduce = getattr(torch, name)
    assert torch.allclose(reduce(jagged, 1), torch.stack([reduce(r, 0) for r in rows]))
    reduced = reduce(jagged, 1, keepdim=True)
    assert reduced.shape == (3, 1, 4)
    assert torch.allclose(reduce(jagged, 2).values(), reduce(torch.cat(rows), 1))
    if name in ("sum", "mean"):
        assert torch.allclose(reduce(jagged), reduce(torch.cat(rows)))
        assert torch.allclose(reduce(jagged, (0, 1)), reduce(torch.cat(rows), 0))


def test_softmax_and_layer_norm_over_the_ragged_axis(torch, jagged, rows):
    check_rows(torch, jagged.softmax(1), [r.softmax(0) for r in rows])
    norm = torch.nn.functional.layer_norm
    actual = norm(jagged, (jagged.shape[1], 4))
    check_rows(torch, actual, [norm(r, tuple(r.shape)) for r in rows])


def test_padding(torch, jagged, rows):
    padded = torch.nested.to_padded_tensor(jagged, -1)
    assert padded.shape == (3, 3, 4)
    assert (padded[0, 2] == -1).all()
    assert torch.equal(padded[1], rows[1])
    wide = jagged.transpose(1, 2).to_padded_tensor(0, output_size=(3, 4, 5))
    assert wide.shape == (3, 4, 5)
    assert torch.equal(wide[1, :, :3], rows[1].T)
    assert jagged.to_padded_tensor(0, output_size=(3, 2, 4)).shape == (3, 2, 4)


def test_dense_operands_of_each_row(torch, jagged, rows):
    per_row = torch.arange(12.0, dtype=torch.float64).reshape(3, 1, 4)
    check_rows(torch, jagged + per_row, [r + p for r, p in zip(rows, per_row, strict=True)])
    matrices = torch.arange(24.0, dtype=torch.float64).reshape(3, 4, 2)
    check_rows(torch, jagged @ matrices, [r @ m for r, m in zip(rows, matrices, strict=True)])
    squares = jagged.transpose(1, 2) @ jagged
    assert torch.allclose(squares, torch.stack([r.T @ r for r in rows]))


def test_attention_within_rows(torch, rows):
    torch.manual_seed(2)
    attend = torch.nn.functional.scaled_dot_product_attention
    parts = [torch.nested.as_nested_tensor([torch.randn(n, 2, 8) for n in (2, 3, 1)],
                                           layout=torch.jagged) for _ in range(1)] * 3
    q, k, v = (x.transpose(1, 2) for x in parts)
    actual = attend(q, k, v).transpose(1, 2)
    wanted = [attend(*[r.transpose(0, 1)] * 3).transpose(0, 1) for r in parts[0].unbind()]
    for x, y in zip(actual.unbind(), wanted, strict=True):
        assert torch.allclose(x, y, atol=1e-6)
    with pytest.raises(ValueError, match="Expected query, key, and value to be nested tensors"):
        attend(q, k.to_padded_tensor(0.0), v)


def test_gradients_reach_values_and_rows(torch, rows):
    leaves = [r.clone().requires_grad_() for r in rows]
    nt = torch.nested.as_nested_tensor(leaves, layout=torch.jagged)
    assert nt.requires_grad
    assert not nt.is_leaf
    (nt * nt).sum().backward()
    for leaf, row in zip(leaves, rows, strict=True):
        assert torch.allclose(leaf.grad, 2 * row)
    leaf = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
    assert leaf.is_leaf
    assert leaf.grad is None
    (leaf * 3).backward(torch.ones_like(leaf))
    assert leaf.grad.is_nested
    assert torch.equal(leaf.grad.values(), torch.full((6, 4), 3.0, dtype=torch.float64))
    (g,) = torch.autograd.grad((leaf.softmax(1) ** 2).values().sum(), leaf)
    assert g.is_nested
    assert g.shape == leaf.shape


def test_views_of_jagged_values(torch):
    values = torch.arange(10.0).requires_grad_()
    nt = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 3, 10]))
    assert nt._is_view()
    assert nt._base is values
    nt.unbind()[1].sum().backward()
    assert values.grad.tolist() == [0] * 3 + [1] * 7
    holes = torch.nested.nested_tensor_from_jagged(
        torch.arange(10), torch.tensor([0, 3, 10]), torch.tensor([2, 4]))
    assert [r.tolist() for r in holes.unbind()] == [[0, 1], [3, 4, 5, 6]]
    assert (holes.numel(), holes.is_contiguous()) == (6, False)
    assert [r.tolist() for r in holes.contiguous().unbind()] == [[0, 1], [3, 4, 5, 6]]
    by_length = torch.nested.nested_tensor_from_jagged(
        torch.arange(5), lengths=torch.tensor([2, 3]))
    assert by_length.offsets().tolist() == [0, 2, 5]


def test_narrow_and_masked_select(torch):
    x = torch.arange(12).reshape(3, 4).clone()
    nt = torch.nested.narrow(x, 1, torch.tensor([0, 1, 2]), torch.tensor([2, 3, 1]), torch.jagged)
    assert [r.tolist() for r in nt.unbind()] == [[0, 1], [5, 6, 7], [10]]
    assert nt._base is x
    chosen = torch.nested.masked_select(x, x % 2 == 0)
    assert [r.tolist() for r in chosen.unbind()] == [[0, 2], [4, 6], [8, 10]]


def test_writes(torch, jagged, rows):
    nt = torch.nested.nested_tensor(rows, layout=torch.jagged)
    nt.mul_(2).add_(1)
    check_rows(torch, nt, [r * 2 + 1 for r in rows])
    nt.copy_(torch.zeros_like(nt))
    assert not nt.values().any()
    nt.unbind()[1].fill_(5)
    assert nt.values().sum() == 60


def test_copies_and_files(torch, jagged):
    nt = jagged.detach()
    buffer = io.BytesIO()
    torch.save(nt, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(nt), torch.load(buffer, weights_only=False), nt.clone()):
        assert other.layout is torch.jagged
        assert torch.equal(other.values(), nt.values())
        assert other.offsets().tolist() == [0, 2, 5, 6]


@pytest.mark.parametrize("call, kind, text", [
    (lambda torch, x: x.sum(0), RuntimeError,
     r"sum\(\): reducing along the batch dimension but not the ragged dimension"),
    (lambda torch, x: x.sum((1, 2)), RuntimeError,
     r"sum\(\): reducing along a ragged and non-batch dimension"),
    (lambda torch, x: x.unbind(1), RuntimeError,
     r"unbind\(\): only supported for NestedTensor on dim=0"),
    (lambda torch, x: x.transpose(0, 1), ValueError,
     "Transpose is not supported on the batch dimension for jagged NT"),
    (lambda torch, x: x.view(3, 8, 3), RuntimeError, r"view\(\): cannot view shape"),
    (lambda torch, x: x.log_softmax(1), RuntimeError,
     r"log_softmax\(\): not supported when reducing along the ragged dimension"),
    (lambda torch, x: x.split(1, 1), RuntimeError,
     r"split\(\): not supported for NestedTensor on ragged dim"),
    (lambda torch, x: x.squeeze(0), RuntimeError,
     r"squeeze\(\): not supported for NestedTensor on dim=0"),
    (lambda torch, x: x * torch.nested.nested_tensor(list(x.unbind()), layout=torch.jagged),
     RuntimeError, "cannot call binary pointwise function mul.Tensor with inputs of shapes"),
    (lambda torch, x: torch.nn.functional.linear(x.transpose(1, 2), torch.ones(2, 4)), ValueError,
     r"NestedTensor linear_default\(input: jt, weight: t, bias: t\?\): expected input to be a "
     "contiguous jagged layout NestedTensor"),
    (lambda torch, x: x.matmul(torch.ones(3)), RuntimeError,
     r"matmul\(\): not supported between inputs of shapes"),
])
def test_errors_of_the_jagged_layout(torch, jagged, call, kind, text):
    with pytest.raises(kind, match=text):
        call(torch, jagged)


def test_errors_of_construction(torch):
    make, jagged = torch.nested.nested_tensor, torch.jagged
    for rows, text in (
        ([], "Cannot construct a nested tensor from an empty tensor list"),
        ([torch.ones(1), torch.ones(1, dtype=torch.int64)], "must have the same dtype"),
        ([torch.ones(1), torch.ones(1, 1)], "must have the same dim"),
        ([torch.ones(()), torch.ones(())], "from a list of zero-dim tensors"),
        ([torch.ones(1, 2), torch.ones(2, 1)], "only allows for a single ragged dimension"),
    ):
        with pytest.raises(RuntimeError, match=text):
            make(rows, layout=jagged)
    with pytest.raises(RuntimeError, match="Specified layout is unsupported for nested tensors"):
        make([torch.ones(1)], layout=torch.sparse_coo)
    with pytest.raises(RuntimeError, match="At least one of offsets or lengths is required"):
        torch.nested.nested_tensor_from_jagged(torch.ones(2))
    with pytest.raises(ValueError, match="Expected jagged_dim >=1, but got 0"):
        torch.nested.nested_tensor_from_jagged(torch.ones(2), torch.tensor([0, 2]), jagged_dim=0)
    with pytest.raises(TypeError, match="Expected first argument to be a tensor or a list"):
        torch.nested.as_nested_tensor(3)


# ----------------------------------------------------------------------------------- strided layout


def test_parts_of_a_strided_tensor(torch, loose, rows):
    assert loose.is_nested
    assert loose.layout is torch.strided
    assert (loose.dim(), loose.size(0), loose.size(2), loose.numel()) == (3, 3, 4, 24)
    check_rows(torch, loose, rows)
    check_rows(torch, loose.transpose(1, 2), [r.T for r in rows])
    assert not loose.transpose(1, 2).is_contiguous()
    with pytest.raises(RuntimeError, match="Given dimension 1 is irregular and does not have a "):
        loose.size(1)
    with pytest.raises(RuntimeError, match="NestedTensorImpl doesn't support sizes"):
        loose.size()


def test_functions_of_a_strided_tensor(torch, loose, rows):
    functional = torch.nn.functional
    weight = torch.ones(2, 4, dtype=torch.float64)
    check_rows(torch, loose + loose, [r + r for r in rows])
    check_rows(torch, functional.relu(loose) * 2, [r.relu() * 2 for r in rows])
    check_rows(torch, functional.linear(loose, weight), [r @ weight.T for r in rows])
    check_rows(torch, functional.softmax(loose, 1), [r.softmax(0) for r in rows])
    norm = torch.nn.LayerNorm(4, dtype=torch.float64)
    check_rows(torch, norm(loose), [norm(r) for r in rows])
    check_rows(torch, loose.bmm(loose.transpose(1, 2)), [r @ r.T for r in rows])
    check_rows(torch, loose.reshape(3, -1, 2, 2), [r.reshape(-1, 2, 2) for r in rows])
    assert torch.equal(loose[1], rows[1])
    padded = loose.to_padded_tensor(7.0, (3, 4, 5))
    assert padded.shape == (3, 4, 5)
    assert torch.equal(padded[1, :3, :4], rows[1])
    assert (padded[0, 2:] == 7).all()


def test_gradients_of_a_strided_tensor(torch, rows):
    leaves = [r.clone().requires_grad_() for r in rows]
    nt = torch.nested.as_nested_tensor(leaves)
    torch.nested.to_padded_tensor(nt * nt, 0.0).sum().backward()
    for leaf, row in zip(leaves, rows, strict=True):
        assert torch.allclose(leaf.grad, 2 * row)
    leaf = torch.nested.nested_tensor(rows, requires_grad=True)
    leaf[0].sum().backward()
    assert [g.sum().item() for g in leaf.grad.unbind()] == [8, 0, 0]


def test_errors_of_the_strided_layout(torch, loose):
    with pytest.raises(RuntimeError, match="Found dimension 2 for Tensor at index 1 and"):
        torch.nested.nested_tensor([torch.ones(1), torch.ones(1, 1)])
    with pytest.raises(RuntimeError, match="Nested tensor dimension 0 cannot be transposed"):
        loose.transpose(0, 1)
    with pytest.raises(RuntimeError, match="NestedTensor must be contiguous to get buffer"):
        torch.nn.functional.relu(loose.transpose(1, 2))
    with pytest.raises(RuntimeError, match="Expected both self and other to be nested"):
        loose * torch.ones(4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Cannot apply softmax across nested dimension 0"):
        loose.softmax(0)


def test_a_step_is_compiled_while_a_nested_tensor_lives(torch, jagged):
    if not torch.__name__.startswith("flambeau"):
        pytest.skip("compiles by a C++ compiler")
    w = torch.ones(2, requires_grad=True)
    step = torch.compile(lambda: (w * 2).sum(), mode="now")
    assert [step().item() for _ in range(4)] == [4.0] * 4
    assert jagged.size(0) == 3


def test_multihead_attention_within_rows(torch, loose, rows):
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64).eval()
    with torch.no_grad():
        y, weights = attention(loose, loose, loose)
        apart = [attention(row[None], row[None], row[None]) for row in rows]
    assert weights.shape == (3, 3, 3)
    for i, (row, (expected, expected_weights)) in enumerate(zip(y.unbind(), apart, strict=True)):
        n = len(row)
        assert torch.allclose(row, expected[0])
        assert torch.allclose(weights[i, :n, :n], expected_weights[0])
        assert not weights[i, n:].any()
        assert not weights[i, :, n:].any()


def test_multihead_attention_refuses_what_the_fast_path_does(torch, loose, jagged):
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)
    with pytest.raises(AssertionError, match="not hit because training is enabled"):
        attention(loose, loose, loose)
    attention.eval()
    with pytest.raises(AssertionError, match="grad is enabled and at least one of query"):
        attention(loose, loose, loose)
    with torch.no_grad():
        with pytest.raises(AssertionError, match="has_torch_function"):
            attention(jagged, jagged, jagged)
        with pytest.raises(AssertionError, match="non-self attention"):
            attention(loose, loose, loose + 1)
        with pytest.raises(AssertionError, match="same time  +is not supported"):
            attention(loose, loose, loose, attn_mask=torch.zeros(3, 3, dtype=torch.bool))


def test_a_strided_nested_tensor_overrides_nothing(torch):
    rows = [torch.ones(2), torch.ones(3)]
    assert not torch.overrides.has_torch_function((torch.nested.nested_tensor(rows),))
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    assert torch.overrides.has_torch_function((jagged,))
