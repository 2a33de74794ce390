"""Sparse tensors print, compute and fail as PyTorch's do: expressions run under both."""

import re

import pytest

import flambeau

# What the expressions can name.
SETUP = """
i = tensor([[0, 1, 1], [2, 0, 2]])
s = coo(i, tensor([3., 4., 5.]), (2, 3))                          # in order, not marked coalesced
u = coo(tensor([[1, 0, 1], [2, 0, 2]]), tensor([3., 4., 5.]), (2, 3))  # one place twice
c = u.coalesce()
h = coo(tensor([[1, 0, 1]]), torch.arange(6.).reshape(3, 2), (2, 2))  # hybrid
r = c.to_sparse_csr()
d = torch.arange(6.).reshape(2, 3)
"""

PRINTED = """
s | u | c | h | r | u.double() | u.long() | r.double() | c.to_sparse_csc()
coo((2, 3)) | coo(i, tensor([1., 2., 3.]), dtype=torch.float64) | coo(size=(2, 3))
coo(i, tensor([1., 2., 3.]), requires_grad=True)
coo(tensor([[0, 1]]), torch.ones(2, 3)) | coo(tensor([[0, 1]]), tensor([1 + 2j, 2]))
torch.eye(40).to_sparse() | torch.eye(1200).to_sparse_csr() | torch.eye(4).to_sparse_bsr((2, 2))
torch.nn.Parameter(s) | coo(torch.zeros(1, 0, dtype=torch.long), torch.zeros(0, 2), (3, 2))
torch.zeros(2, 3, layout=torch.sparse_coo) | torch.sparse.spdiags(d, tensor([0, 1]), (3, 3))
torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1., 2.], (2, 3), dtype=torch.float64)
torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2, 2, 3))
tensor([[1 + 1j, 0], [0, 2j]]).to(torch.complex32).to_sparse().values().to(torch.complex64)
tensor([[1 + 1j, 0], [0, 2j]]).to(torch.complex32).to_sparse_csc().to_dense().to(torch.complex64)
"""

COMPUTED = """
u.coalesce() | u.is_coalesced() | c.indices() | c.values() | u._indices() | u._nnz()
h.sparse_dim()
u.to_dense() | h.to_dense() | d.to_sparse() | d.to_sparse(1) | d.to_sparse_csr() | d.to_sparse_csc()
torch.eye(4).to_sparse_bsc((2, 2)).to_dense() | r.to_sparse_coo() | r.to_sparse_csc() | r.to_dense()
u + u | c + c | s + c | d + s | d - s | torch.add(s, s, alpha=3) | h + h | r + r | d + r | r + d
torch.add(r, d, alpha=3) | torch.add(r.to_sparse_csc(), d, alpha=3) | torch.add(d, r, alpha=3)
u * 2 | 2 * u | u / 2 | u * c | c * c | d * u | u * d | u / tensor(2.) | r * 2 | r * r | d * r
-u | u.abs() | c.sqrt() | u.sin() | u.pow(2) | u.relu() | torch.tanh(c) | r.abs() | c.isnan()
u.t() | u.T | u.transpose(0, 1) | u.permute(1, 0) | r.t() | h.unsqueeze(1) | u.unsqueeze(0)
u.sum() | u.sum(1) | u.sum(0) | u.sum([0, 1]) | u.sum(1, keepdim=True) | u.long().sum() | r.sum()
torch.sparse.sum(u) | torch.sparse.sum(u, 1) | torch.sparse.sum(h, 0) | torch.sparse.sum(h, 1)
torch.sparse.softmax(u, 1) | torch.sparse.log_softmax(u, 0) | torch.sparse.softmax(h, 1)
u @ d.T | torch.mm(u, d.T) | d.T @ u | u.mm(u.t()) | u @ torch.ones(3) | torch.sparse.mm(u, d.T)
torch.addmm(torch.ones(2, 2), u, d.T, beta=2, alpha=3) | torch.hspmm(u, d.T) | torch.smm(u, d.T)
torch.sspaddmm(coo((2, 2)), u, d.T) | r @ d.T | r @ torch.ones(3) | torch.sparse.mm(r, d.T, 'amax')
torch.sparse.sampled_addmm(r, torch.ones(2, 4), torch.ones(4, 3)) | torch.sparse.mm(r, d.T, 'mean')
torch.cat([u, c]) | torch.cat([u, c], 1) | torch.stack([u, c]) | torch.cat([h, h], 1)
u[0] | u[0, 2] | u.select(1, 2) | u.index_select(1, tensor([2, 2])) | u.narrow_copy(0, 0, 1)
h[:, 0]
d.sparse_mask(c) | u.sparse_mask(c) | d.sparse_mask(r) | u.norm() | u.clone() | torch.zeros_like(u)
u.layout | u.device | u.dtype | u.shape | u.numel() | u.is_sparse | r.is_sparse_csr | len(u)
list(u)
u.clone().mul_(2) | torch.ones(2, 3).add_(u) | u.clone().zero_() | c.clone().sin_()
torch.ones(2, 3).mul_(u) | r.clone().copy_(r * 2) | r.clone().resize_(4, 3) | torch.angle(r)
torch._validate_compressed_sparse_indices(True, tensor([0, 1]), tensor([0]), 1, 1, 1)
"""

REFUSED = """
u.indices() | u.values() | d.indices() | u.crow_indices() | r.coalesce() | d.crow_indices()
u + 1 | u + d | u - d | u / d | u.numpy() | u.view(6) | u.cos() | u.reshape(6) | u.max() | u == u
u.storage() | u.data_ptr() | u.item() | u.expand(3, 2, 3) | u.nbytes | h.t() | u.clone().sin_()
coo(tensor([0, 1]), tensor([1., 2.])) | coo(tensor([[0, 1]]), tensor([1., 2., 3.]))
coo(tensor([[0, 1]]), tensor([1., 2.]), (2, 3)) | coo(tensor([[0, 1]]), torch.ones(2, 3), (4, 2))
coo(tensor([[0, 5]]), tensor([1., 2.]), (3,), check_invariants=True)
coo(tensor([[1, 0]]), tensor([1., 2.]), (2,), check_invariants=True, is_coalesced=True)
torch.sparse_csr_tensor([0, 1, 3], [0, 1], [1., 2.], (2, 3), check_invariants=True)
torch.sparse_csr_tensor([0, 2, 2], [1, 0], [1., 2.], (2, 3), check_invariants=True)
torch.sparse_csr_tensor([0, 1, 2], [0, 5], [1., 2.], (2, 3), check_invariants=True)
r.storage() | r.resize_(4) | r.clone().resize_(2, 2) | d.clone().copy_(r) | r.clone().copy_(d)
r.clone().copy_(u) | r.clone().copy_(d.to_sparse_csr()) | r.clone().copy_(c.to_sparse_csc())
r.__setitem__((0, 0), 1.) | u.__setitem__(0, d[0])
torch.eye(4).to_sparse_bsr((2, 2)).copy_(torch.eye(4).to_sparse_bsr((1, 4)))
torch._validate_compressed_sparse_indices(True, tensor([0, 2]), tensor([0]), 1, 1, 1)
torch.mm(u, u) | u.index_select(1, tensor([9])) | u.select(0, 5) | u.permute(0, 0) | d.to_sparse(3)
"""

# A function of leaves, and what the leaves are made of.
DIFFERENTIATED = """
x.to_dense(): u | x.to_dense(masked_grad=False): u | x * y: u, c | x * 2: u | x * y: u, d
x + y: u, c
y + x: u, d | x - y: u, c | torch.mm(x, y): u, d.T | torch.sparse.mm(x, y): u, d.T | x @ y: u, c.t()
x @ y: u, d[0] | torch.sparse.addmm(y, x, d.T, beta=2, alpha=3): u, d[:, :2] | x.sum(): u
torch.sparse.sum(x): u | torch.sparse.sum(x, 0): u | torch.sparse.softmax(x, 1): u | x.t(): u
x.permute(1, 0): u | x.coalesce(): u | x.coalesce().values(): u | coo(i, x, (2, 3)): d[0]
x.sparse_mask(c): d | x.sparse_mask(c): u | x.to_sparse(): d | x.to_sparse_csr(): d | -x: u
x.abs(): u
x.relu(): u | x.pow(2): u | x / 2: u | x * y: u, tensor(2.) | x / y: u, tensor(2.) | x.clone(): u
x.double(): u | torch.sparse.mm(x, y): r, d.T | x.to_dense(): r | x.values(): r | x * 2: r
x + x: r
x.to_sparse_coo(): r | x.to_sparse_csr(): u | x @ y: r, d[0] | x.sum(): r
(x * x).to_dense() + y: u, d
"""


def split(table):
    return [e.strip() for line in table.strip().splitlines() for e in line.split(" | ")]


def namespace(lib):
    names = {"torch": lib, "tensor": lib.tensor, "coo": lib.sparse_coo_tensor}
    exec(SETUP, names)
    return names


def told(lib, expression):
    """What an expression gives, or how it fails, as text."""
    try:
        return plain(repr(eval(expression, namespace(lib))))
    except Exception as error:
        kind = next(c for c in type(error).__mro__ if c.__module__ == "builtins"
                    and c is not AttributeError)
        return f"{kind.__name__}: {plain(str(error))}"


def plain(text):
    text = re.sub(r" \(if using custom build\).*", "", text, flags=re.S)
    text = re.sub(r"aten::(\w+)\.\w+", r"aten::\1", text)
    return text.replace("view_method", "view").replace("max_all", "max")


@pytest.mark.parity
@pytest.mark.parametrize("expression", split(PRINTED) + split(COMPUTED) + split(REFUSED))
def test_expression(expression):
    torch = pytest.importorskip("torch")
    assert told(flambeau, expression) == told(torch, expression)


def gradients(lib, case):
    formula, _, made_of = case.rpartition(": ")
    names = namespace(lib)
    leaves = [x.detach().requires_grad_() for x in eval(f"[{made_of}]", names)]
    y = eval(formula, {**names, **dict(zip("xy", leaves, strict=False))})
    dense = y if y.layout is lib.strided else y.to_dense()
    weights = lib.arange(1.0, dense.numel() + 1).reshape(dense.shape)
    (dense * weights).sum().backward()
    results = [type(y.grad_fn).__name__]
    for leaf in leaves:
        g = leaf.grad
        results += [str(g.layout), g.is_coalesced() if g.is_sparse else None,
                  [round(v, 4) for v in g.to_dense().flatten().tolist()]]
    return results


@pytest.mark.parity
@pytest.mark.parametrize("case", split(DIFFERENTIATED))
def test_gradient(case):
    torch = pytest.importorskip("torch")
    assert gradients(flambeau, case) == gradients(torch, case)
