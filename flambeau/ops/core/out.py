"""`out=`: write results to existing tensors, resized if they are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.inplace import bump
from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...native.foundation.user_frames import warn
from ...native.target.eager_costs import MIN_THREADED_COPY_BYTES
from ...tensor.dtypes import dtype as Dtype
from ...tensor.exposed_memory import check_resizable
from ...tensor.layout import empty_strided_array, is_dense, get_strides
from ...tensor.overlap import check_no_internal_overlap, check_operands
from ...tensor.promotion import can_cast, check_cast, legacy_name
from ...tensor.tensor import Tensor
from ..native.row_copies import fill
from .return_types import get_written_type

if TYPE_CHECKING:
    from .operator import Operator

# Operators that read elements out of order, so that an operand may not be the output itself.
_OUT_OF_ORDER = frozenset(
    "cat column_stack dstack gather hstack index_select kthvalue masked_select stack take "
    "vstack".split()
)
# Operators besides pointwise ones that refuse operands partially overlapping the output.
_IN_ORDER = frozenset("cummax cummin cumprod cumsum logcumsumexp".split())


def write_out(operator: Operator, result: Any, out: Any, operands: tuple = ()) -> Any:
    """Write an operator's results into `out`, and return `out`.

    `operands`: the tensors that the operator read. Raises RuntimeError if one overlaps the output
    in a way that PyTorch refuses.
    """
    pointwise = operator.kind.name == "POINTWISE"
    return write_result(operator.name, result, out, operands, pointwise)


def write_result(
    name: str, result: Any, out: Any, operands: tuple = (), pointwise: bool = False
) -> Any:
    """`write_out` for a function composed of several operators."""
    if isinstance(result, Tensor):
        _check_overlap(name, out, operands, pointwise)
        _write_one(name, result, out)
        return out
    if isinstance(out, Tensor) or len(out) != len(result):
        raise TypeError(f"{name}(): argument 'out' must be tuple of {len(result)} Tensors")
    for place, (y, target) in enumerate(zip(result, out, strict=True)):
        _check_overlap(name, target, operands, pointwise)
        _write_one(name, y, target, place)
    return get_written_type(type(result))(*out) if hasattr(type(result), "_fields") else out


def _check_overlap(name: str, out: Any, operands: tuple, pointwise: bool) -> None:
    if not isinstance(out, Tensor):
        return
    check_no_internal_overlap(out._array)
    if name.lstrip("_") in _OUT_OF_ORDER:
        check_operands(out._array, operands, partial=False)
    elif pointwise or name.lstrip("_") in _IN_ORDER:
        check_operands(out._array, operands)


def _write_one(name: str, y: Tensor, target: Any, place: int = 0) -> None:
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    if MODE.grad and (y._requires_grad or (target._tracked and requires(target))):
        raise RuntimeError(
            f"{name.strip('_')}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    check_out_dtype(name, y.dtype, target.dtype, place)
    write_into(target, y._array)


def write_into(target: Tensor, result: np.ndarray, warns: bool = True) -> None:
    """Write an array over a tensor, with a cast; resize the tensor if the shape differs."""
    if target._array.shape != result.shape:
        _resize(target, result, warns)
    array = target._array
    if array.dtype != result.dtype \
            or (array.nbytes >= MIN_THREADED_COPY_BYTES and np.may_share_memory(array, result)):
        with np.errstate(all="ignore"):
            np.copyto(array, result, casting="unsafe")
    else:
        fill(array, result)
    bump(target)


def _resize(target: Tensor, result: np.ndarray, warns: bool) -> None:
    """Give the tensor new memory with the shape and the strides of a result."""
    shape = result.shape
    if target._array.size and warns:
        warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which does not match the required output shape "
            f"{list(shape)}. This behavior is deprecated, and in a future PyTorch release outputs "
            "will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
        )
    check_resizable(target._array, int(np.prod(shape, dtype=np.int64)))
    strides = None if result.flags.c_contiguous and 1 not in shape else get_strides(result)
    target._array = empty_strided_array(shape, strides, target._array.dtype) \
        if strides is not None and is_dense(shape, strides) else \
        np.empty(shape, target._array.dtype)


# ---------------------------------------------------------------------------------- its dtype

_STRUCTURED = """
    addmm addmv alias_copy aminmax argmax argmin as_strided_copy avg_pool2d avg_pool3d baddbmm bmm
    cholesky_ex cross diag diagonal_copy expand_copy gather index_add index_copy index_reduce isin
    linalg_cross linalg_det linalg_eigh linalg_eigvalsh linalg_inv linalg_inv_ex linalg_ldl_factor
    linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor linalg_lu_factor_ex
    linalg_lu_solve linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_svd linalg_svdvals
    linalg_vector_norm linear log_softmax lu_solve lu_unpack matmul matrix_power max min mm msort
    norm permute_copy qr renorm scatter scatter_add scatter_reduce slice_scatter softmax sort
    split_with_sizes_copy squeeze_copy svd t_copy take_along_dim topk transpose_copy
    triangular_solve tril triu unbind_copy unfold_copy unsqueeze_copy view_copy
"""
_UNARY = """
    abs bitwise_not ceil clamp conj_physical floor frac gelu hardshrink neg round sgn sign softplus
    softshrink trunc
"""
_FACTORIES = "arange empty eye full linspace logspace ones rand randint randn randperm zeros"

# Most operators cast to any output that can hold the result. These require the result's dtype and
# have individual messages: {want} and {got} are names as in FloatTensor, {cwant} and {cgot} C++'s.
_RULES: dict[str, str] = {
    **dict.fromkeys(_STRUCTURED.split(),
                    "Expected out tensor to have dtype {cwant}, but got {cgot} instead"),
    **dict.fromkeys(_UNARY.split(), "Found dtype {got} but expected {want}"),
    **dict.fromkeys(_FACTORIES.split(),
                    "dtype {want} does not match dtype of out parameter ({got})"),
    **dict.fromkeys(("isneginf", "isposinf", "signbit"),
                    "{name} does not support non-boolean outputs."),
    **dict.fromkeys(("index_select", "masked_select"),
                    "{name}(): self and result must have the same scalar type"),
    **dict.fromkeys(("cummax", "cummin", "logcumsumexp"),
                    "expected scalar_type {want} but found {got}"),
    **dict.fromkeys(("dot", "vdot"),
                    "result dtype {got} does not match input dtype {want}"),
    **dict.fromkeys(("amax", "amin"), "Expected the dtype for input and out to match, but got "
                    "{want} for input's dtype and {got} for out's dtype."),
    **dict.fromkeys(("searchsorted", "bucketize"), "torch.searchsorted(): output tensor's dtype is "
                    "wrong, it can only be Int(int32) or Long(int64) depending on whether "
                    "out_int32 flag is True, but we got output tensor's dtype {got} and out_int32 "
                    "flag is {narrow}"),
    **dict.fromkeys(("linalg_norm", "linalg_matrix_norm"),
                    "{dotted} expected out tensor dtype {want} but got: {got}"),
    "linalg_multi_dot": "multi_dot(): expected out tensor to have dtype {cwant} but got {cgot}",
    "linalg_solve_triangular": "expected scalar type {want} but found {got}",
    "linalg_vecdot": "linalg.vecdot: Expected out of dtype{want} but found {got}",
    "ormqr": "torch.ormqr: Expected input and result to have the same dtype, but input has dtype"
             "{want} and result has dtype {got}",
    **dict.fromkeys(("complex", "polar"), "Expected object of scalar type {want} but got scalar "
                    "type {got} for argument 'out'"),
    **dict.fromkeys(("max_dim", "min_dim"),
                    "Expected out tensor to have dtype {cwant}, but got {cgot} instead"),
    **dict.fromkeys(("median_dim", "nanmedian_dim"),
                    "Expected tensor for 'values' to have the same type as tensor for argument #2 "
                    "'self'; but type torch.{got}Tensor does not equal torch.{want}Tensor (while "
                    "checking arguments for median)"),
    **dict.fromkeys(("histc", "histogram"), "torch.histogram: input tensor and hist tensor should "
                    "have the same dtype, but got input {cwant} and hist {cgot}"),
    "frexp": "torch.frexp() expects mantissa to have dtype {cwant} but got {cgot}",
    "kthvalue": "output values must be of same type as input",
    "mode": "expected scalar type '{want}' but got '{got}' for values output",
    "multinomial": "multinomial expects Long tensor out, got: {got}",
    "nan_to_num": "nan_to_num: dtype of out: {got} should be same as input: {want}",
    "nonzero": "nonzero: Expected out tensor to have scalar type {want} but got scalar type{got}",
    "take": "take(): self and out expected to have the same dtype, but got self.dtype = {want} and "
            "out.dtype = {got}",
    "tensordot": "tensordot: Expected the output tensor to have dtype {want}, but got an output "
                 "tensor with dtype {got}",
    "where": "Expected out type to be {want} but got {got}",
    "quantile": "quantile() out tensor must be same dtype as the input tensor",
    "nanquantile": "quantile() out tensor must be same dtype as the input tensor",
}
# Where these results cannot be cast to the output's dtype, the error names the function, as it
# calls itself, and the output.
_RESULT_NAMES: dict[str, tuple[str, ...]] = {
    "cholesky": ("cholesky", "result"), "cholesky_inverse": ("cholesky_inverse", "result"),
    "cholesky_solve": ("cholesky_solve", "result"), "geqrf": ("torch.geqrf", "a", "tau"),
    "linalg_cond": ("linalg.cond", "result"),
    "linalg_eig": ("torch.linalg.eig", "eigenvalues", "eigenvectors"),
    "linalg_eigvals": ("torch.linalg.eigvals", "eigenvalues"),
    "linalg_householder_product": ("torch.linalg.householder_product", "result"),
    "linalg_lstsq": ("torch.linalg.lstsq", "solution", "residuals", "rank", "singular_values"),
    "linalg_pinv": ("linalg.pinv", "result"), "matrix_power": ("matrix_power", "result"),
    "matrix_rank": ("torch.linalg.matrix_rank", "result"),
    "linalg_tensorinv": ("tensorinv", "result"), "linalg_tensorsolve": ("tensorsolve", "result"),
}
_JOINS = ("cat", "stack", "hstack", "vstack", "dstack", "column_stack")

_CPP_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char",
    "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def check_out_dtype(name: str, result: Dtype, out: Dtype, place: int = 0) -> None:
    """Raise RuntimeError if an operator's result cannot be cast to the dtype of `out`.

    `place`: which of several results it is.
    """
    if result is out:
        return
    name = name.lstrip("_")
    _check_named_cast(name, result, out, place)
    rule = _RULES.get(name) or _RULES.get(f"linalg_{name}")
    if rule is not None:
        narrow = result.name == "int32"
        raise RuntimeError(rule.format(
            name=name, want=legacy_name(result), got=legacy_name(out), narrow=narrow,
            dotted=name.replace("_", ".", 1), cwant=_CPP_NAMES.get(result.name, result.name),
            cgot=_CPP_NAMES.get(out.name, out.name),
        ))
    if name in ("all", "any"):
        if out.name not in ("uint8", "bool"):
            raise RuntimeError(
                f"{name} only supports bool tensor for result, got: {legacy_name(out)}"
            )
        return
    try:
        check_cast(result, out)
    except RuntimeError:
        if name in _JOINS:
            raise TypeError(
                "torch.cat(): input types can't be cast to the desired output type "
                f"{legacy_name(out)}"
            ) from None
        raise


def _check_named_cast(name: str, result: Dtype, out: Dtype, place: int) -> None:
    """RuntimeError in the words of functions that name themselves and their outputs."""
    names = _RESULT_NAMES.get(name) or _RESULT_NAMES.get(f"linalg_{name}")
    if (names is None and name != "diag") or can_cast(result, out):
        return
    want, got = legacy_name(result), legacy_name(out)
    if names is None:
        raise RuntimeError(f"diag: result type {want} can't be cast to the desired out= type {got}")
    label = names[1 + place]
    raise RuntimeError(f"{names[0]}: Expected {label} to be safely castable from {want} dtype, but "
                       f"got {label} with dtype {got}")
