"""`out=`: which dtypes an operator takes for it, and what is written where."""

from __future__ import annotations

import pytest

CASES = {
    "masked_select(): self and result must have the same scalar type":
        lambda torch, x, out: torch.masked_select(x, x > 0, out=out("int32")),
    "nonzero: Expected out tensor to have scalar type Long but got scalar typeFloat":
        lambda torch, x, out: torch.nonzero(x, out=out("float32")),
    "index_select(): self and result must have the same scalar type":
        lambda torch, x, out: torch.index_select(x, 0, torch.tensor([0]), out=out("int32")),
    "Expected out tensor to have dtype float, but got double instead":
        lambda torch, x, out: torch.gather(x, 0, torch.tensor([0]), out=out("float64")),
    "Expected out tensor to have dtype long int, but got float instead":
        lambda torch, x, out: torch.argmax(x, out=out("float32")),
    "take(): self and out expected to have the same dtype, but got self.dtype = Float and "
    "out.dtype = Int":
        lambda torch, x, out: torch.take(x, torch.tensor([0]), out=out("int32")),
    "dtype Double does not match dtype of out parameter (Float)":
        lambda torch, x, out: torch.rand(2, dtype=torch.float64, out=out("float32")),
    "all only supports bool tensor for result, got: Int":
        lambda torch, x, out: torch.all(x, out=out("int32")),
    "Found dtype Double but expected Float":
        lambda torch, x, out: torch.abs(x, out=out("float64")),
    "expected scalar_type Float but found Short":
        lambda torch, x, out: torch.cummax(x, 0, out=(out("int16"), out("int64"))),
    "multinomial expects Long tensor out, got: Float":
        lambda torch, x, out: torch.multinomial(x, 2, out=out("float32")),
    "result type Float can't be cast to the desired output type Int":
        lambda torch, x, out: torch.sin(x, out=out("int32")),
    "Found dtype Int but expected Float":
        lambda torch, x, out: torch.clamp(x, 0, 1, out=out("int32")),
    "output values must be of same type as input":
        lambda torch, x, out: torch.kthvalue(x, 1, out=(out("float64"), out("int64"))),
    "Expected out tensor to have dtype float, but got int instead":
        lambda torch, x, out: torch.max(x, 0, out=(out("int32"), out("int64"))),
}


CAST = "Expected {0} to be safely castable from {1} dtype, but got {0} with dtype Int"
OF_MATRICES = {
    "torch.linalg.eig: " + CAST.format("eigenvectors", "ComplexFloat"):
        lambda torch, a, out: torch.linalg.eig(a, out=(out("complex64"), out("int32"))),
    "linalg.pinv: " + CAST.format("result", "Float"):
        lambda torch, a, out: torch.linalg.pinv(a, out=out("int32")),
    "linalg.cond: " + CAST.format("result", "Float"):
        lambda torch, a, out: torch.linalg.cond(a, 1, out=out("int32")),
    "matrix_power: " + CAST.format("result", "Float"):
        lambda torch, a, out: torch.linalg.matrix_power(a, 2, out=out("int32")),
    "torch.linalg.lstsq: " + CAST.format("solution", "Float"):
        lambda torch, a, out: torch.linalg.lstsq(a, a, out=(out("int32"),) * 4),
    "Expected out tensor to have dtype float, but got int instead":
        lambda torch, a, out: torch.svd(a, out=(out("int32"), out("float32"), out("float32"))),
    "Expected out tensor to have dtype float, but got double instead":
        lambda torch, a, out: torch.mm(a, a, out=out("float64")),
    "linalg.norm expected out tensor dtype Float but got: Int":
        lambda torch, a, out: torch.linalg.norm(a, "nuc", out=out("int32")),
    "linalg.matrix_norm expected out tensor dtype Float but got: Double":
        lambda torch, a, out: torch.norm(a, "nuc", out=out("float64")),
    "multi_dot(): expected out tensor to have dtype float but got int":
        lambda torch, a, out: torch.linalg.multi_dot([a, a], out=out("int32")),
    "expected scalar type Float but found Double":
        lambda torch, a, out: torch.linalg.solve_triangular(a, a, upper=True, out=out("float64")),
    "result dtype Int does not match input dtype Float":
        lambda torch, a, out: torch.dot(a[0], a[0], out=out("int32")),
    "linalg.vecdot: Expected out of dtypeFloat but found Int":
        lambda torch, a, out: torch.linalg.vecdot(a[0], a[0], out=out("int32")),
    "result type Float can't be cast to the desired output type Int":
        lambda torch, a, out: torch.kron(a, a, out=out("int32")),
    "diag: result type Float can't be cast to the desired out= type Int":
        lambda torch, a, out: torch.diag(a[0], out=out("int32")),
}


def _refuse(torch, text, call, operand):
    def out(name):
        return torch.empty(0, dtype=getattr(torch, name))

    with pytest.raises(RuntimeError) as caught:
        call(torch, operand, out)
    assert str(caught.value) == text


@pytest.mark.parametrize("text", CASES)
def test_dtypes_that_are_refused(torch, text):
    _refuse(torch, text, CASES[text], torch.ones(3))


@pytest.mark.parametrize("text", OF_MATRICES)
def test_dtypes_that_functions_of_matrices_refuse(torch, text):
    _refuse(torch, text, OF_MATRICES[text], torch.eye(2))


def test_wider_outputs_of_matrices(torch):
    a, wide = torch.eye(2) * 2, torch.empty(0, dtype=torch.float64)
    for fill in (torch.outer, torch.kron):
        fill(a[0], a[1], out=wide)
    assert wide.tolist() == [0, 4, 0, 0]


def test_least_squares_and_old_factorizations_fill_outputs(torch):
    a, b = torch.tensor([[1.0], [0.0]]), torch.tensor([[2.0], [3.0]])
    targets = torch.empty(0), torch.empty(0), torch.empty(0, dtype=torch.int64), torch.empty(0)
    result = torch.linalg.lstsq(a, b, driver="gelsd", out=targets)
    assert result.solution is targets[0] and targets[0].tolist() == [[2]]
    assert targets[1].tolist() == [9] and targets[2].item() == 1 and targets[3].tolist() == [1]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.svd(a, out=(torch.empty(3), torch.empty(0), torch.empty(0)))


def test_joins_raise_a_type_error(torch):
    with pytest.raises(TypeError, match=r"torch.cat\(\): input types can't be cast"):
        torch.cat([torch.ones(2)], out=torch.empty(0, dtype=torch.int32))


def test_draws_are_written_into_views(torch):
    for draw in (torch.rand, torch.randn, lambda *size, out: torch.randint(1, 5, size, out=out)):
        z = torch.zeros(2, 3)
        draw(2, 2, out=z[:, 1:])
        assert z[:, 0].tolist() == [0, 0]
        assert bool((z[:, 1:] != 0).all())


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["int32", "float64", "uint8"])
def test_sums_are_computed_in_the_dtype_of_the_output(torch, name, dtype):
    x = torch.tensor([[1.7, 2.9], [3.0, 4.0]])
    out = torch.empty(0, dtype=getattr(torch, dtype))
    result = getattr(torch, name)(x, 0, out=out)
    assert result is out
    assert out.tolist() == getattr(torch, name)(x.to(out.dtype), 0).tolist()


def test_empty_outputs_grow(torch):
    out, other, x = torch.empty(0), torch.empty(0), torch.ones(2, 3)
    torch.nn.functional.normalize(torch.ones(1, 4), out=out)
    assert out.tolist() == [[0.5] * 4]
    out = torch.empty(0)
    torch.t_copy(x, out=out)
    assert out.shape == (3, 2)
    out = torch.empty(0)
    torch.unbind_copy(x, out=(out, other))
    assert out.tolist() == other.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got int"):
        torch.t_copy(x, out=torch.empty(0, dtype=torch.int32))


def test_complex_outputs_grow(torch):
    out = torch.empty(0, dtype=torch.complex64)
    x = torch.tensor([2.0])
    assert torch.polar(x, x * 0, out=out) is out and out.tolist() == [2]
    assert torch.conj_physical(torch.complex(x, x), out=out).tolist() == [2 - 2j]
    with pytest.raises(RuntimeError, match="Expected object of scalar type ComplexFloat but got"):
        torch.polar(x, x, out=torch.empty(0))


def test_draws_resize_without_a_word(torch, recwarn):
    for draw in (torch.rand, torch.randn):
        assert draw(2, out=torch.empty(5)).shape == (2,)
    assert torch.randperm(2, out=torch.empty(5)).shape == (2,)
    assert not [w for w in recwarn if "resized" in str(w.message)]


def test_casts(torch):
    out = torch.empty(0, dtype=torch.float64)
    assert torch.sin(torch.zeros(2), out=out) is out
    assert out.tolist() == [0, 0]
    assert torch.all(torch.ones(2), out=torch.empty(0, dtype=torch.uint8)).item() == 1


def test_nonzero_of_tuples(torch):
    with pytest.raises(RuntimeError, match="does not support the out kwarg when as_tuple is True"):
        torch.nonzero(torch.ones(2), out=torch.empty(0, dtype=torch.int64), as_tuple=True)


@pytest.mark.parametrize("text", [
    "torch.exp(x, out=o)", "torch.add(x, x, out=o)", "torch.where(x > 1, x, x, out=o)",
    "torch.clamp(x, 0, 1, out=o)", "torch.maximum(x, x, out=o)",
])
def test_outputs_that_grow_take_the_strides_of_the_operands(torch, text):
    for x in (torch.ones(2, 3, 4).permute(2, 0, 1), torch.ones(1, 1, 4, 6).permute(3, 0, 1, 2)):
        o = torch.empty(0)
        assert eval(text, {"torch": torch, "x": x, "o": o}).stride() == x.stride()
    o = torch.empty(0)
    assert torch.cumsum(torch.ones(2, 3, 4).permute(2, 0, 1), 0, out=o).stride() == (6, 3, 1)


def test_heaviside_takes_outputs_of_its_dtype_only(torch):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="not yet implemented for complex tensors"):
        torch.heaviside(x, x, out=torch.empty(2, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="not yet implemented for tensors with different dtypes"):
        torch.heaviside(x, x, out=torch.empty(2, dtype=torch.float64))
    assert torch.heaviside(x, x, out=torch.empty(2)).tolist() == [1, 1]


@pytest.mark.parametrize("position", [0, 1])
def test_cat_into_one_of_its_inputs_is_refused(torch, position):
    inputs = torch.zeros(0), torch.ones(4, 6)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.cat(inputs, out=inputs[position])


def test_bounds_that_are_tensors_clamp_into_any_wider_output(torch):
    x, bound = torch.tensor([1, 5], dtype=torch.int16), torch.tensor([3, 3], dtype=torch.int32)
    out = torch.empty(2, dtype=torch.int64)
    assert torch.clamp_max(x, bound, out=out).tolist() == [1, 3]
    assert torch.clamp(x, bound, bound, out=out).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="Found dtype Long but expected Int"):
        torch.clamp(bound, 1, 2, out=out)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        torch.clamp_min(torch.ones(2), bound, out=out)


@pytest.mark.parametrize("compute", [
    lambda torch, x, out: torch.pow(x, 42, out=out), lambda torch, x, out: torch.pow(2, x, out=out),
    lambda torch, x, out: torch.clamp(x, 0, 1, out=out),
])
def test_powers_and_bounds_are_not_written_over_their_operand(torch, compute):
    x = torch.ones(6)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        compute(torch, x[:3], x[1:4])
    assert compute(torch, x, x) is x


def test_narrow_copy_names_what_is_wrong_with_its_axis(torch):
    with pytest.raises(IndexError, match=r"Dimension out of range .*\[-3, 2\], but got -4"):
        torch.narrow_copy(torch.ones(2, 3, 4), -4, 0, 0)
    with pytest.raises(RuntimeError, match="cannot be applied to a 0-dim tensor"):
        torch.narrow_copy(torch.tensor(1.0), 0, 0, 1)
    with pytest.raises(RuntimeError, match="Expected dim < static_cast"):
        torch.narrow_copy(torch.ones(2), 1, 0, 1)
