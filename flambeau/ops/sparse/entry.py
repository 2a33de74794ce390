"""Entry points of sparse tensors. The first call imports the sparse operators."""

from __future__ import annotations

import importlib
from typing import Any

from ...tensor.tensor import Tensor
from ..core.operator import PUBLIC, publish

_MODULES = ("arithmetic", "construction", "conversion", "gradcheck", "like", "masking", "products",
            "reductions", "shape", "solves", "unary")


def load() -> None:
    """Import all sparse operators."""
    for name in _MODULES:
        importlib.import_module(f"{__package__}.{name}")


def _load_function(module: str, name: str) -> Any:
    """Import all sparse operators and return an attribute of one of their modules."""
    load()
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)


def sparse_coo_tensor(*args: Any, **named: Any) -> Tensor:
    """Build a tensor from `values` (nnz, *dense axes) at `indices` (sparse axes, nnz).

    `sparse_coo_tensor(indices, values, size=None, *, dtype=None, requires_grad=False,
    check_invariants=None, is_coalesced=None)`, or `sparse_coo_tensor(size)` for an empty one.
    Values at the same index add up. `size` defaults to the largest index plus 1 along each axis.
    Raises RuntimeError if the numbers of axes or values do not match.
    https://pytorch.org/docs/stable/generated/torch.sparse_coo_tensor.html

    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3))
    tensor(indices=tensor([[0, 1],
                           [2, 0]]),
           values=tensor([3., 4.]),
           size=(2, 3), nnz=2, layout=torch.sparse_coo)
    """
    return _load_function("construction", "sparse_coo_tensor")(*args, **named)


def sparse_compressed_tensor(*args: Any, **named: Any) -> Tensor:
    """Build a matrix, or a batch of matrices, in a compressed layout.

    `sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, layout,
    dtype=None, requires_grad=False, check_invariants=None)`. RuntimeError for other layouts.
    https://pytorch.org/docs/stable/generated/torch.sparse_compressed_tensor.html

    >>> rows = torch.sparse_compressed_tensor(
    ...     [0, 1, 2], [2, 0], [3., 4.], (2, 3), layout=torch.sparse_csr)
    >>> rows.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    return _load_function("construction", "sparse_compressed_tensor")(*args, **named)


def _create_constructor(name: str, parts: str, arguments: str, values: str) -> Any:
    def function(*args: Any, **named: Any) -> Tensor:
        return _load_function("construction", name)(*args, **named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Build a matrix of {parts} from their starts, plain indices and values.

    https://pytorch.org/docs/stable/generated/torch.{name}.html

    >>> torch.{name}({arguments}, {values}).to_dense()
    tensor([[3., 0.],
            [0., 4.]])
    """
    publish(function, (name,), ("torch",))
    return function


sparse_csr_tensor = _create_constructor(
    "sparse_csr_tensor", "compressed rows", "[0, 1, 2], [0, 1]", "[3., 4.]")
sparse_csc_tensor = _create_constructor(
    "sparse_csc_tensor", "compressed columns", "[0, 1, 2], [0, 1]", "[3., 4.]")
sparse_bsr_tensor = _create_constructor(
    "sparse_bsr_tensor", "compressed rows of blocks", "[0, 1], [0]", "[[[3., 0.], [0., 4.]]]")
sparse_bsc_tensor = _create_constructor(
    "sparse_bsc_tensor", "compressed columns of blocks", "[0, 1], [0]", "[[[3., 0.], [0., 4.]]]")


def to_sparse(
    self: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """Convert to a sparse tensor, in COO layout by default.

    `sparse_dim`: the number of leading sparse axes. `blocksize`: for the blocked layouts.
    https://pytorch.org/docs/stable/generated/torch.Tensor.to_sparse.html

    >>> torch.tensor([0., 5.]).to_sparse()
    tensor(indices=tensor([[1]]),
           values=tensor([5.]),
           size=(2,), nnz=1, layout=torch.sparse_coo)
    """
    return _load_function("conversion", "to_sparse")(
        self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


def _attach_conversion(layout: str, block_size: str) -> None:
    """Publish Tensor.to_`layout`; `block_size` is the argument of its example."""
    def method(self: Tensor, *args: Any, **named: Any) -> Tensor:
        return _load_function("conversion", "TO_LAYOUT")[f"to_{layout}"](self, *args, **named)

    method.__name__ = method.__qualname__ = f"to_{layout}"
    method.__doc__ = f"""Convert to {layout} layout.

    >>> torch.eye(2).to_{layout}({block_size}).layout
    torch.{layout}
    """
    publish(method, (method.__name__,), ("Tensor",))


for _layout, _block_size in (("sparse_coo", ""), ("sparse_csr", ""), ("sparse_csc", ""),
                             ("sparse_bsr", "(1, 1)"), ("sparse_bsc", "(1, 1)")):
    _attach_conversion(_layout, _block_size)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Select the values at the stored positions of the sparse tensor `mask`.

    https://pytorch.org/docs/stable/generated/torch.Tensor.sparse_mask.html

    >>> torch.tensor([[1., 2.], [3., 4.]]).sparse_mask(torch.eye(2).to_sparse()).values()
    tensor([1., 4.])
    """
    return _load_function("masking", "sparse_mask")(self, mask)


def _refuse_part(name: str, layout: str) -> None:
    """Publish a method that raises RuntimeError: tensors without the layout lack this part."""
    def method(self: Tensor, *args: Any) -> Any:
        raise RuntimeError(f"{name} expected sparse {layout} tensor layout but got Strided")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"RuntimeError: only tensors in sparse {layout} layout have this part."
    publish(method, (name,), ("Tensor",))


for _name in ("coalesce", "is_coalesced", "indices", "_indices", "_values", "_nnz"):
    _refuse_part(_name, "coordinate")
for _name in ("crow_indices", "col_indices"):
    _refuse_part(_name, "row compressed")
for _name in ("ccol_indices", "row_indices"):
    _refuse_part(_name, "column compressed")


def values(self: Tensor) -> Tensor:
    """RuntimeError: only sparse tensors store values separately."""
    raise RuntimeError("values expected sparse tensor layout but got Strided")


def _create_product(name: str, doc: str) -> None:
    def function(*args: Any, **named: Any) -> Tensor:
        return _load_function("products", name)(*args, **named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    publish(function, (name,), ("torch",) if name == "hspmm" else ("torch", "Tensor"))


_create_product("smm", """Multiply a sparse and a dense matrix; the result is sparse.

    >>> torch.smm(torch.eye(2).to_sparse(), torch.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """)
_create_product("sspaddmm", """\
Compute beta * input + alpha * (mat1 @ mat2) for sparse `input` and `mat1`, as a sparse matrix.

    >>> eye = torch.eye(2).to_sparse()
    >>> torch.sspaddmm(eye, eye, torch.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """)
_create_product("hspmm", """Multiply a sparse and a dense matrix; the result has dense rows.

    >>> torch.hspmm(torch.eye(2).to_sparse(), torch.ones(2, 2)).sparse_dim()
    1
    """)


for _alias, _name in (("dsmm", "mm"), ("spmm", "mm"), ("saddmm", "sspaddmm")):
    publish(PUBLIC["torch"][_name], (_alias,), ("torch",))


def empty_of_layout(*args: Any) -> Tensor:
    """Return a sparse tensor with a shape, dtype and layout but no values."""
    return _load_function("construction", "empty_of_layout")(*args)


def rows_at(*args: Any) -> Tensor:
    """Return the sparse gradient of a table: one row for each lookup."""
    return _load_function("construction", "rows_at")(*args)


def _create_indices_converter(name: str) -> None:
    def function(*args: Any, **named: Any) -> Tensor:
        return _load_function("formats", name)(*args, **named)

    function.__name__ = function.__qualname__ = "_" + name
    function.__doc__ = "Convert row indices between coordinate and compressed form."
    publish(function, ("_" + name,), ("torch",))


_create_indices_converter("convert_indices_from_coo_to_csr")
_create_indices_converter("convert_indices_from_csr_to_coo")


def _create_checker(name: str, layout: str) -> None:
    def check(*args: Any, **named: Any) -> None:
        _load_function("construction", "validate")(layout, *args, **named)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = "Raise RuntimeError if the parts do not form a valid sparse tensor."
    publish(check, (name,), ("torch",))


for _layout in ("coo", "csr", "csc", "bsr", "bsc", "compressed"):
    _create_checker(f"_validate_sparse_{_layout}_tensor_args", _layout)


def _validate_compressed_sparse_indices(*args: Any) -> None:
    """Raise RuntimeError if the indices do not form valid compressed rows or columns."""
    _load_function("construction", "validate_indices")(*args)


def _sparse_compressed_tensor_with_dims(*args: Any, **named: Any) -> Tensor:
    """Return a compressed tensor with `nnz` stored values, all parts zero."""
    return _load_function("construction", "with_dims")(*args, **named)


def masked_reduction(*args: Any) -> Tensor:
    """Apply a reduction of torch.masked to a sparse tensor."""
    return _load_function("masked_reductions", "masked_reduction")(*args)


publish(_validate_compressed_sparse_indices, ("_validate_compressed_sparse_indices",), ("torch",))
publish(_sparse_compressed_tensor_with_dims, ("_sparse_compressed_tensor_with_dims",), ("aten",))
publish(empty_of_layout, ("empty_of_layout",), ("sparse",))
publish(masked_reduction, ("masked_reduction",), ("sparse",))
publish(rows_at, ("rows_at",), ("sparse",))
publish(sparse_coo_tensor, ("sparse_coo_tensor",), ("torch",))
publish(sparse_compressed_tensor, ("sparse_compressed_tensor",), ("torch",))
for _function in (to_sparse, sparse_mask, values):
    publish(_function, (_function.__name__,), ("Tensor",))
