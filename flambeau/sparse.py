"""torch.sparse: sparse tensors, which flambeau does not have yet."""

from .tensor.absent import lacking

__all__: list[str] = []

_NAMES = (
    "DoubleTensor", "FloatTensor", "LongTensor", "SparseSemiStructuredTensor", "addmm",
    "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm",
    "sampled_addmm", "softmax", "spdiags", "spsolve", "sum", "to_sparse_semi_structured",
)  # fmt: skip

__getattr__ = lacking(__name__, _NAMES)
