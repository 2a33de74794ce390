"""Sparse tensors on the meta device: PyTorch's operators there, and its errors for the others."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
COMPRESSED = LAYOUTS[1:]


def create(layout: Any) -> Any:
    blocks = {"blocksize": (2, 3)} if layout in LAYOUTS[3:] else {}
    return torch.eye(4, 6).to_sparse(layout=layout, **blocks)


def index(*shape: int) -> Any:
    return torch.zeros(*shape, dtype=torch.int64, device="meta")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_moving_forgets_the_places(layout: Any) -> None:
    x = create(layout).to("meta")
    assert (x.is_meta, x.is_cpu, x.device.type) == (True, False, "meta")
    assert (x.layout, x.shape, x._nnz()) == (layout, (4, 6), 0)
    assert x.to("meta") is x and x.double().dtype is torch.float64
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        x.cpu()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_transposes_copies(layout: Any) -> None:
    x = create(layout).to("meta")
    for y in (x + x, x.clone(), x.detach(), torch.zeros_like(x), torch.empty_like(x)):
        assert y.is_meta and y.layout is layout and y.shape == (4, 6)
    assert x.t().shape == (6, 4) and x.t().is_meta
    total = x.sum(dtype=torch.float64)
    assert total.is_meta and total.shape == () and total.dtype is torch.float64
    assert torch.zeros_like(x, device="cpu").device.type == "cpu"
    assert torch.zeros_like(create(layout), device="meta").is_meta


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_stay_on_the_device(layout: Any) -> None:
    x = create(layout).to("meta").requires_grad_()
    for _ in range(2):
        (x + x).sum().backward()
        assert x.grad.is_meta and x.grad.shape == (4, 6)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_functions_of_the_values_of_compressed_tensors(layout: Any) -> None:
    x = create(layout).to("meta")
    for y in (x.sin(), -x, x * 2, x.relu()):
        assert y.is_meta and y.layout is layout
    assert x.to_dense().is_meta


REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "sin": ("sin", lambda x: x.sin()),
    "mul": ("mul.Tensor", lambda x: x * x),
    "sum over an axis": ("sum.dim_IntList", lambda x: x.sum(0)),
    "norm": ("norm", lambda x: x.norm()),
    "any": ("any", lambda x: x.any()),
    "mm": ("mm", lambda x: x @ torch.ones(6, 2, device="meta")),
    "to_dense": ("_to_dense", lambda x: x.to_dense()),
    "cat": ("cat", lambda x: torch.cat([x, x])),
    "index_select": ("index_select", lambda x: x.index_select(0, index(1))),
    "coalesce": ("_coalesce", lambda x: x._coalesced_(False).coalesce()),
    "equal": ("equal", lambda x: torch.equal(x, x)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses(name: str) -> None:
    operator, call = REFUSED[name]
    text = f"Could not run 'aten::{operator}.*' with arguments from the 'SparseMeta' backend"
    with pytest.raises(NotImplementedError, match=text):
        call(create(torch.sparse_coo).to("meta"))


def test_dense_tensors_do_not_convert() -> None:
    with pytest.raises(NotImplementedError, match="aten::_to_sparse: attempted to run"):
        torch.zeros(2, 2, device="meta").to_sparse()


def test_constructors() -> None:
    values = torch.ones(2, device="meta")
    x = torch.sparse_coo_tensor(index(2, 2), values, (2, 3))
    assert x.is_meta and x._nnz() == 2 and not x.is_coalesced()
    assert x.t()._nnz() == 0 and x.detach()._nnz() == 2
    for parts in (([[0, 1], [1, 2]], [1.0, 2.0]), (torch.zeros(2, 2), torch.ones(2))):
        assert torch.sparse_coo_tensor(*parts, (2, 3), device="meta")._nnz() == 2
    assert torch.sparse_csr_tensor(index(3), index(2), values, (2, 3)).is_meta
    with torch.device("meta"):
        assert torch.sparse_coo_tensor((2, 3)).is_meta
        assert torch.zeros(2, 3, layout=torch.sparse_csr).is_meta


ERRORS: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "parts on two devices": (
        RuntimeError, r"backend of indices \(CPU\) must match backend of values \(Meta\)",
        lambda: torch.sparse_coo_tensor([[0]], torch.ones(1, device="meta"), (2,))),
    "compressed parts on two devices": (
        RuntimeError, "Values and col_indices need to be on the same device.",
        lambda: torch.sparse_csr_tensor(index(2), [0], torch.ones(1, device="meta"), (1, 1))),
    "an unknown size": (
        NotImplementedError, "Cannot copy out of meta tensor; no data!",
        lambda: torch.sparse_coo_tensor(index(1, 1), torch.ones(1, device="meta"))),
    "an unknown size, compressed": (
        RuntimeError, r"Tensor.item\(\) cannot be called on meta tensors",
        lambda: torch.sparse_csr_tensor(index(2), index(1), torch.ones(1, device="meta"))),
    "checked values": (
        RuntimeError, "expected nnz to be 0 for sparse CSR meta tensor but got 1",
        lambda: torch.sparse_csr_tensor(index(2), index(1), torch.ones(1, device="meta"), (1, 1),
                                        check_invariants=True)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    error, text, call = ERRORS[name]
    with pytest.raises(error, match=text):
        call()


def test_text() -> None:
    x = torch.sparse_coo_tensor(index(2, 2), torch.ones(2, device="meta"), (2, 3))
    assert repr(x) == (
        "tensor(indices=tensor(..., size=(2, 2)),\n       values=tensor(..., size=(2,)),\n"
        "       device='meta', size=(2, 3), layout=torch.sparse_coo)")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_are_read_onto_the_device(layout: Any) -> None:
    file = io.BytesIO()
    torch.save(create(layout), file)
    file.seek(0)
    x = torch.load(file, map_location="meta")
    assert x.is_meta and x._nnz() == create(layout)._nnz()


def test_resizing() -> None:
    x = create(torch.sparse_coo).to("meta")
    assert x.sparse_resize_((5, 6), 2, 0).is_meta
    assert x.sparse_resize_and_clear_((5, 6, 3), 2, 1)._values().shape == (0, 3)
    assert x.is_meta and x.dense_dim() == 1


def test_sparse_gradient_of_an_embedding() -> None:
    table = torch.nn.Embedding(3, 2, sparse=True, device="meta")
    table(index(2)).sum().backward()
    assert table.weight.grad.is_meta and table.weight.grad.is_sparse


def test_likes_stay_on_their_device() -> None:
    x = torch.eye(2).to_sparse()
    with torch.device("meta"):
        assert torch.zeros_like(x).device.type == "cpu"


def test_a_gradient_of_a_sparse_leaf_is_added_twice() -> None:
    """The cotangent of a sum is expanded: the leaf's gradient owns a copy of it."""
    x = torch.eye(2).to_sparse().requires_grad_()
    for _ in range(2):
        x.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
