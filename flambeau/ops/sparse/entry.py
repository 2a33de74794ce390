"""Entry points of sparse tensors. The first call imports the sparse operators."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
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


def _publish_entry(
    module: str, name: str, doc: str, spaces: Sequence[str] = ("torch",), target: str = "",
    first: Sequence[Any] = (), returns: str = "Tensor",
) -> Callable[..., Any]:
    """Publish a function that calls `target`, by default `name`, of a module with the arguments
    `first` before its own."""
    def function(*args: Any, **kwargs: Any) -> Any:
        return _load_function(module, target or name)(*first, *args, **kwargs)

    function.__annotations__["return"] = returns
    return _publish_as(function, name, doc, spaces)


def _publish_as(function: Any, name: str, doc: str, spaces: Sequence[str]) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    publish(function, (name,), spaces)
    return function


# ------------------------------------------------------------------------------ constructors


sparse_coo_tensor = _publish_entry("construction", "sparse_coo_tensor", """\
Build a tensor from `values` (nnz, *dense axes) at `indices` (sparse axes, nnz).

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
    """)
sparse_compressed_tensor = _publish_entry("construction", "sparse_compressed_tensor", """\
Build a matrix, or a batch of matrices, in a compressed layout.

    `sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, layout,
    dtype=None, requires_grad=False, check_invariants=None)`. RuntimeError for other layouts.
    https://pytorch.org/docs/stable/generated/torch.sparse_compressed_tensor.html

    >>> rows = torch.sparse_compressed_tensor(
    ...     [0, 1, 2], [2, 0], [3., 4.], (2, 3), layout=torch.sparse_csr)
    >>> rows.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """)
_CONSTRUCTOR_DOC = """Build a matrix of {parts} from their starts, plain indices and values.

    https://pytorch.org/docs/stable/generated/torch.{name}.html

    >>> torch.{name}({arguments}).to_dense()
    tensor([[3., 0.],
            [0., 4.]])
    """
_ROWS, _BLOCKS = "[0, 1, 2], [0, 1], [3., 4.]", "[0, 1], [0], [[[3., 0.], [0., 4.]]]"
for _name, _parts, _arguments in (
    ("sparse_csr_tensor", "compressed rows", _ROWS),
    ("sparse_csc_tensor", "compressed columns", _ROWS),
    ("sparse_bsr_tensor", "compressed rows of blocks", _BLOCKS),
    ("sparse_bsc_tensor", "compressed columns of blocks", _BLOCKS),
):
    _publish_entry("construction", _name, _CONSTRUCTOR_DOC.format(
        name=_name, parts=_parts, arguments=_arguments))

# ------------------------------------------------------------------------------- conversions


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


def _publish_conversion(layout: str, block_size: str) -> None:
    """Publish Tensor.to_`layout`; `block_size` is the argument of its example."""
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _load_function("conversion", "TO_LAYOUT")[f"to_{layout}"](self, *args, **kwargs)

    _publish_as(method, f"to_{layout}", f"""Convert to {layout} layout.

    >>> torch.eye(2).to_{layout}({block_size}).layout
    torch.{layout}
    """, ("Tensor",))


for _layout, _block_size in (("sparse_coo", ""), ("sparse_csr", ""), ("sparse_csc", ""),
                             ("sparse_bsr", "(1, 1)"), ("sparse_bsc", "(1, 1)")):
    _publish_conversion(_layout, _block_size)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Select the values at the stored positions of the sparse tensor `mask`.

    https://pytorch.org/docs/stable/generated/torch.Tensor.sparse_mask.html

    >>> torch.tensor([[1., 2.], [3., 4.]]).sparse_mask(torch.eye(2).to_sparse()).values()
    tensor([1., 4.])
    """
    return _load_function("masking", "sparse_mask")(self, mask)


# ------------------------------------------------------ parts that dense tensors do not have


def _refuse_part(name: str, layout: str) -> None:
    """Publish a method that raises RuntimeError: tensors without the layout lack this part."""
    def method(self: Tensor, *args: Any) -> Any:
        raise RuntimeError(f"{name} expected sparse {layout} tensor layout but got Strided")

    _publish_as(method, name,
                f"RuntimeError: only tensors in sparse {layout} layout have this part.",
                ("Tensor",))


for _name in ("coalesce", "is_coalesced", "indices", "_indices", "_values", "_nnz"):
    _refuse_part(_name, "coordinate")
for _name in ("crow_indices", "col_indices"):
    _refuse_part(_name, "row compressed")
for _name in ("ccol_indices", "row_indices"):
    _refuse_part(_name, "column compressed")


def values(self: Tensor) -> Tensor:
    """RuntimeError: only sparse tensors store values separately."""
    raise RuntimeError("values expected sparse tensor layout but got Strided")


for _function in (to_sparse, sparse_mask, values):
    publish(_function, (_function.__name__,), ("Tensor",))

# ---------------------------------------------------------------------------------- products

_publish_entry("products", "smm", """Multiply a sparse and a dense matrix; the result is sparse.

    >>> torch.smm(torch.eye(2).to_sparse(), torch.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """, ("torch", "Tensor"))
_publish_entry("products", "sspaddmm", """\
Compute beta * input + alpha * (mat1 @ mat2) for sparse `input` and `mat1`, as a sparse matrix.

    >>> eye = torch.eye(2).to_sparse()
    >>> torch.sspaddmm(eye, eye, torch.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """, ("torch", "Tensor"))
_publish_entry("products", "hspmm", """\
Multiply a sparse and a dense matrix; the result has dense rows.

    >>> torch.hspmm(torch.eye(2).to_sparse(), torch.ones(2, 2)).sparse_dim()
    1
    """)
for _alias, _name in (("dsmm", "mm"), ("spmm", "mm"), ("saddmm", "sspaddmm")):
    publish(PUBLIC["torch"][_name], (_alias,), ("torch",))

# ------------------------------------------------------------- functions for other packages

_publish_entry("empty", "allocate_in_layout",
               "Return a sparse tensor with a shape, dtype and layout but no values.", ("sparse",))
_publish_entry("assembly", "scatter_rows",
               "Return the sparse gradient of a table: one row for each lookup.", ("sparse",))
_publish_entry("masked_reductions", "reduce_masked",
               "Apply a reduction of torch.masked to a sparse tensor.", ("sparse",))
for _name in ("convert_indices_from_coo_to_csr", "convert_indices_from_csr_to_coo"):
    _publish_entry("formats", f"_{_name}",
                   "Convert row indices between coordinate and compressed form.", target=_name)
for _layout in ("coo", "csr", "csc", "bsr", "bsc", "compressed"):
    _publish_entry("invariants", f"_validate_sparse_{_layout}_tensor_args",
                   "Raise RuntimeError if the parts do not form a valid sparse tensor.",
                   target="validate", first=(_layout,), returns="None")
_publish_entry("invariants", "_validate_compressed_sparse_indices",
               "Raise RuntimeError if the indices do not form valid compressed rows or columns.",
               target="validate_indices", returns="None")
_publish_entry("empty", "_sparse_compressed_tensor_with_dims",
               "Return a compressed tensor with `nnz` stored values, all parts zero.", ("aten",),
               target="with_dims")
