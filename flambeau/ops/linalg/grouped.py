"""Products of matrices with groups of rows or columns of others."""

from __future__ import annotations

from ...tensor.dtypes import dtype as Dtype
from ...tensor.tensor import Tensor
from ..core.registry import composite
from ..view.join import cat, stack


@composite(expose=("nn.functional",), aliases=("_grouped_mm",), explains=True)
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: Dtype | None = None
) -> Tensor:
    """Multiply groups of rows or columns, such as those of the experts of a mixture.

    (m, k) and (g, k, n) with `offs` (g,), int32: rows up to offs[i] times the i-th matrix, (m, n).
    (g, m, k) and (k, n): columns up to offs[i], (m, n). (m, k) and (k, n): sums over the parts of
    k, (g, m, n). (g, m, k) and (g, k, n) need no `offs`. Raises RuntimeError if a row or column is
    not a multiple of 16 bytes.

    >>> x, experts = torch.ones(4, 4), torch.ones(2, 4, 4)
    >>> torch.nn.functional.grouped_mm(x, experts, offs=torch.tensor([1, 4], dtype=torch.int32))[0]
    tensor([4., 4., 4., 4.])
    """
    if bias is not None:
        raise RuntimeError("Bias not supported yet.")
    for x in (mat_a, mat_b):
        if x.dim() not in (2, 3):
            raise RuntimeError(f"matrices must be 2d or 3d, got {x.dim()}d")
        if any(step * x.element_size() % 16 for step in x.stride()[-2:] if step != 1):
            raise RuntimeError("strides should be multiple of 16 bytes")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    ranks = mat_a.dim(), mat_b.dim()
    if ranks == (3, 3):
        result = mat_a @ mat_b
    elif offs is None:
        raise RuntimeError("Have to provide offsets if there is a 2d matrix.")
    else:
        result = _multiply_groups(mat_a, mat_b, ranks, [0, *offs.tolist()])
    return result if out_dtype is None else result.to(out_dtype)


def _multiply_groups(
    mat_a: Tensor, mat_b: Tensor, ranks: tuple[int, ...], bounds: list[int]
) -> Tensor:
    parts = list(zip(bounds, bounds[1:], strict=False))
    if ranks == (2, 3):
        products = [mat_a[a:b] @ mat_b[i] for i, (a, b) in enumerate(parts)]
        rest = mat_a.shape[0] - bounds[-1]
        filler = [mat_a.new_zeros(rest, mat_b.shape[-1])] if rest else []
        return cat([*products, *filler])
    if ranks == (3, 2):
        return cat([mat_a[i] @ mat_b[:, a:b] for i, (a, b) in enumerate(parts)], dim=1)
    return stack([mat_a[:, a:b] @ mat_b[a:b] for a, b in parts])
