"""The dtypes that `out=` may have, and PyTorch's errors for the others."""

from __future__ import annotations

from ...tensor.dtypes import dtype as Dtype
from ...tensor.promotion import can_cast, check_cast, legacy_name

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

_EXPECTED = "Expected out tensor to have dtype {cwant}, but got {cgot} instead"

# Most operators cast to any output that can hold the result. These require the result's dtype and
# have individual messages: {want} and {got} are names as in FloatTensor, {cwant} and {cgot} C++'s.
_RULES: dict[str, str] = {
    **dict.fromkeys(_STRUCTURED.split(), _EXPECTED),
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
    **dict.fromkeys(("max_dim", "min_dim"), _EXPECTED),
    **dict.fromkeys(("median_dim", "nanmedian_dim"),
                    "Expected tensor for 'values' to have the same type as tensor for argument #2 "
                    "'self'; but type torch.{got}Tensor does not equal torch.{want}Tensor (while "
                    "checking arguments for median)"),
    **dict.fromkeys(("histc", "histogram"), "torch.histogram: input tensor and hist tensor should "
                    "have the same dtype, but got input {cwant} and hist {cgot}"),
    "heaviside": "heaviside is not yet implemented for {tensors}.",
    "frexp": "torch.frexp() expects {part} but got {cgot}",
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
# The same for indices, the second result.
_INDEX_RULES = {
    **dict.fromkeys(("median_dim", "nanmedian_dim"),
                    "Expected tensor for argument #1 'indices' to have scalar type Long; but got "
                    "torch.{got}Tensor instead (while checking arguments for median)"),
    "kthvalue": "output indices must be of scalar type Long",
    "mode": "expected scalar type '{want}' but got '{got}' for indices output",
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


def require_out_dtype(wanted: Dtype, out: Dtype) -> None:
    """Raise RuntimeError unless `out` has the dtype that the caller asked for by dtype=."""
    if wanted is not out:
        raise RuntimeError(_EXPECTED.format(cwant=_CPP_NAMES.get(wanted.name, wanted.name),
                                            cgot=_CPP_NAMES.get(out.name, out.name)))


def check_out_dtype(name: str, result: Dtype, out: Dtype, number: int = 0) -> None:
    """Raise RuntimeError if an operator's result cannot be cast to the dtype of `out`.

    `number`: which of several results it is.
    """
    if result is out:
        return
    name = name.lstrip("_")
    _check_named_cast(name, result, out, number)
    rule = _INDEX_RULES.get(name) if number else None
    rule = rule or _RULES.get(name) or _RULES.get(f"linalg_{name}")
    if rule is not None:
        narrow, cpp = result.name == "int32", _CPP_NAMES.get(result.name, result.name)
        raise RuntimeError(rule.format(
            name=name, want=legacy_name(result), got=legacy_name(out), narrow=narrow,
            part=f"exponent to have {cpp} dtype" if number else f"mantissa to have dtype {cpp}",
            tensors="complex tensors" if out.is_complex else "tensors with different dtypes",
            dotted=name.replace("_", ".", 1), cwant=cpp,
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


def _check_named_cast(name: str, result: Dtype, out: Dtype, number: int) -> None:
    """RuntimeError in the words of functions that name themselves and their outputs."""
    names = _RESULT_NAMES.get(name) or _RESULT_NAMES.get(f"linalg_{name}")
    if (names is None and name != "diag") or can_cast(result, out):
        return
    want, got = legacy_name(result), legacy_name(out)
    if names is None:
        raise RuntimeError(f"diag: result type {want} can't be cast to the desired out= type {got}")
    label = names[1 + number]
    raise RuntimeError(f"{names[0]}: Expected {label} to be safely castable from {want} dtype, but "
                       f"got {label} with dtype {got}")
