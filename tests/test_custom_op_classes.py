"""torch._custom_ops, torch._custom_op and torch._library: earlier interfaces for operators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import flambeau as torch
from flambeau import _custom_op, _custom_ops, _library
from flambeau._library import utils

_NUMBERS = itertools.count()


@pytest.fixture
def name() -> Iterator[str]:
    """A name for an operator, which is removed afterwards."""
    result = f"earlier_operators::foo{next(_NUMBERS)}"
    yield result
    if result in _custom_op.impl.global_registry:
        _custom_ops._destroy(result)


def test_a_derivative_by_argument(name: str) -> None:
    _custom_ops.custom_op(name, "(Tensor x, Tensor[] ys, int k) -> Tensor")
    _custom_ops.impl(name, func=lambda x, ys, k: (x * k + sum(ys)).detach())
    seen = []

    @_custom_ops.impl_save_for_backward(name)
    def save(inputs, output):
        seen.append((inputs._fields, output.shape))
        return {"k": inputs.k, "x": inputs.x}

    @_custom_ops.impl_backward(name)
    def backward(ctx, saved, g):
        return {"x": g * saved["k"], "ys": [g, None]}

    x, y, z = (torch.ones(2, requires_grad=True) for _ in range(3))
    _custom_op.impl.get_op(name)(x, [y, z], 3).sum().backward()
    assert seen == [(("x", "ys", "k"), torch.Size([2]))]
    assert x.grad.tolist() == [3, 3] and y.grad.tolist() == [1, 1] and z.grad is None


@pytest.mark.parametrize(("result", "text"), [
    (lambda g: g, "to be a dict"),
    (lambda g: {"x": g, "y": g}, "to have keys {'x'}"),
    (lambda g: {"x": 1}, "to be either None or a Tensor"),
])
def test_what_a_backward_may_not_return(name: str, result, text: str) -> None:
    _custom_ops.custom_op(name, "(Tensor x) -> Tensor")
    _custom_ops.impl(name, func=lambda x: x.clone())
    _custom_ops.impl_save_for_backward(name, func=lambda inputs, output: None)
    _custom_ops.impl_backward(name, func=lambda ctx, saved, g: result(g))
    y = _custom_op.impl.get_op(name)(torch.ones(1, requires_grad=True))
    with pytest.raises(RuntimeError, match=text) as error:
        y.backward()
    assert "test_custom_op_classes.py:" in str(error.value)


def test_calls_without_kernels(name: str) -> None:
    _custom_ops.custom_op(name, "(Tensor x) -> Tensor")
    op = _custom_op.impl.get_op(name)
    with pytest.raises(RuntimeError, match="Autograd has not been implemented"):
        op(torch.ones(1, requires_grad=True))
    with pytest.raises(NotImplementedError, match="there is no cpu impl registered"):
        op(torch.ones(1))
    with pytest.raises(NotImplementedError, match="no fake impl or Meta kernel"):
        op(torch.ones(1, device="meta"))
    _custom_ops.impl_backward(name, func=lambda ctx, saved, g: {"x": g})
    with pytest.raises(RuntimeError, match="unable to find a 'save_for_backward'"):
        op(torch.ones(1, requires_grad=True))


@pytest.mark.parametrize(("schema", "text"), [
    ("(Tensor(a!) x) -> Tensor(a!)", "only supports functional"),
    ("(Tensor x) -> ()", "only supports functional"),
    ("(Tensor self) -> Tensor", "named 'self'"),
])
def test_schemas_that_are_refused(name: str, schema: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        _custom_ops.custom_op(name, schema)
    with pytest.raises(ValueError, match="reserved namespace"):
        _custom_ops.custom_op("aten::foo", "(Tensor x) -> Tensor")


def test_signatures_of_manual_schemas(name: str) -> None:
    short = name.partition("::")[2]

    def decorated(source: str):
        namespace: dict = {}
        exec(f"def {short}{source}: pass", namespace)
        return _custom_op.impl.custom_op(name, "(Tensor x, *, Tensor y) -> Tensor")(
            namespace[short])

    for source, text in (("(x, y)", "signature to match"), ("(x, *, y=1)", "default arguments"),
                         ("(*args)", "not supported"), ("(x: int, *, y)", "no type annotations")):
        with pytest.raises(ValueError, match=text):
            decorated(source)
    assert repr(decorated("(x, *, y)")) == f'<CustomOp(op="{name}")>'


def test_a_second_registration_names_the_first(name: str) -> None:
    _custom_ops.custom_op(name, "(Tensor x) -> Tensor")
    _custom_ops.impl(name, func=lambda x: x)
    with pytest.raises(RuntimeError, match=r"already has a cpu impl .*test_custom_op_classes.py:"):
        _custom_ops.impl(name, func=lambda x: x)
    torch.library.register_fake(name, lambda x: x)
    with pytest.raises(RuntimeError, match=r"already has a fake impl .* at .*_classes.py:"):
        torch.library.register_fake(name, lambda x: x)
    torch.library.register_fake(name, lambda x: x, allow_override=True)


def test_fake_kernels_go_with_their_library(name: str) -> None:
    _custom_ops.custom_op(name, "(Tensor x) -> Tensor")
    with torch.library._scoped_library(name.partition("::")[0], "FRAGMENT") as lib:
        torch.library.register_fake(name, lambda x: x.new_empty(3), lib=lib)
        kernel = _library.simple_registry.singleton.find(name).fake_impl.kernel
        assert "test_custom_op_classes.py:" in kernel.source
    assert _library.simple_registry.singleton.find(name).fake_impl.kernel is None


def test_lists_of_tensors_in_functions() -> None:
    @_library.autograd.supports_tensorlist
    class Stack(torch.autograd.Function):
        @staticmethod
        def forward(ctx, xs, k):
            ctx.needs = None
            return torch.stack(xs) * k

        @staticmethod
        def backward(ctx, g):
            ctx.needs = ctx.needs_input_grad
            return [h * 2 for h in g.unbind(0)], None

    xs = [torch.ones(1, requires_grad=True), torch.ones(1)]
    y = Stack.apply(xs, 2)
    y.sum().backward()
    assert xs[0].grad.tolist() == [2] and xs[1].grad is None
    with pytest.raises(NotImplementedError, match=r"Function\.forward directly"):
        Stack.forward(None, xs)


def test_what_is_asked_about_schemas() -> None:
    parse = torch._C.parse_schema
    lists = [parse(f"f({kind} x) -> ()").arguments[0].type
             for kind in ("Tensor[]", "Tensor?[]", "Tensor[]?", "Tensor?[]?", "Tensor", "int[]")]
    assert [utils.is_tensorlist_like_type(t) for t in lists] == [True] * 4 + [False] * 2
    functional = ["f(Tensor x) -> Tensor", "f(Tensor(a) x) -> Tensor"]
    others = ["f(Tensor(a!) x) -> Tensor", "f(Tensor(a) x) -> Tensor(a)", "f(Tensor x) -> ()"]
    assert [utils.is_functional_schema(s) for s in functional + others] == [True] * 2 + [False] * 3
    assert utils.is_functional_schema(others[1], allow_valid_view=True)
    assert utils.mutates_and_returns_first_arg(torch.ops.aten.sin_.default)
    assert not utils.mutates_and_returns_first_arg(torch.ops.aten.sin.default)
    assert torch._C._jit_resolve_packet("aten::sum", torch.ones(2), dim=0) == "dim_IntList"
    assert not torch.ops.aten.sin.default._defined_in_python


def test_tags_of_operators() -> None:
    tags = torch.ops.aten.add.Tensor.tags
    assert tags == [torch.Tag.core, torch.Tag.pointwise, torch.Tag.pt2_compliant_tag]
    assert torch.Tag.dynamic_output_shape in torch.ops.aten.nonzero.default.tags
    assert torch.Tag.generated in torch.ops.aten.fill.Tensor_out.tags


@pytest.mark.parametrize(("schema", "text"), [
    ("f(Tensor a) -> asdfasdf", "unknown type specifier"),
    ("f(Foo[] a) -> ()", "\n  ~~~ <--- HERE"),
    ("f(int64_t a) -> Tensor", "Use `SymInt` or `int` instead"), ("f(double a) -> ()", "Use `floa"),
])
def test_types_that_schemas_do_not_know(schema: str, text: str) -> None:
    with torch.library._scoped_library("earlier_operators", "FRAGMENT") as lib, \
            pytest.raises(RuntimeError, match=text):
        lib.define(schema)
