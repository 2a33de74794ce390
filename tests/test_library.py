"""torch.library: operators of one's own, as PyTorch's documentation shows them."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor

_count = itertools.count()


@pytest.fixture
def space() -> str:
    return f"space{next(_count)}"


def scaled_sine(x: Tensor, k: float = 1.0) -> Tensor:
    return torch.from_numpy(np.sin(x.numpy()) * np.float32(k))


def test_a_custom_operator_hides_its_inside_and_has_its_own_derivative(space: str) -> None:
    sine = torch.library.custom_op(f"{space}::sine", scaled_sine, mutates_args=())
    seen = []

    def setup_context(ctx, inputs, output):
        seen.append(inputs[1])
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    sine.register_autograd(
        lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.k, None), setup_context=setup_context
    )
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = sine(x)
    assert type(y.grad_fn).__name__ == f"GeneratedBackwardFor_{space}_sine_defaultBackward"
    getattr(torch.ops, space).sine.default(x, k=2.0).sum().backward()
    assert seen == [1.0, 2.0]
    assert torch.allclose(x.grad, 2 * x.detach().cos())


def test_without_a_formula_backward_says_so(space: str) -> None:
    sine = torch.library.custom_op(f"{space}::sine", mutates_args=())(scaled_sine)
    y = sine(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match=f"backward through {space}.sine.default but no auto"):
        y.sum().backward()


def test_shapes_come_from_the_fake_kernel(space: str) -> None:
    sine = torch.library.custom_op(f"{space}::sine", scaled_sine, mutates_args=())
    with pytest.raises(RuntimeError, match="no fake impl"):
        sine(torch.empty(3, device="meta"))

    @sine.register_fake
    def _(x, k=1.0):
        return torch.empty_like(x)

    actual = sine(torch.empty(3, device="meta"))
    assert actual.shape == (3,)
    assert actual.device.type == "meta"


def test_writing_to_an_argument(space: str) -> None:
    @torch.library.custom_op(f"{space}::add_into", mutates_args={"out"})
    def add_into(x: Tensor, out: Tensor) -> None:
        out.add_(x)

    out = torch.zeros(2)
    version = out._version
    assert add_into(torch.ones(2), out) is None
    assert out.tolist() == [1, 1]
    assert out._version > version


def test_several_results(space: str) -> None:
    @torch.library.custom_op(f"{space}::two", mutates_args=())
    def two(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
        return x * n, x + n

    two.register_autograd(lambda ctx, a, b: (a + b, None))
    x = torch.ones(2, requires_grad=True)
    a, b = two(x, 3)
    (a * 2 + b).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_library_of_schemas_and_kernels(space: str) -> None:
    library = torch.library.Library(space, "DEF")
    assert library.define("scaled(Tensor x, int k=2) -> Tensor") == "scaled"
    library.impl("scaled", lambda x, k=2: x * k, "CPU")
    scaled = getattr(torch.ops, space).scaled
    x = torch.ones(2, requires_grad=True)
    assert scaled(x).tolist() == [2, 2]
    assert scaled(x, k=7).tolist() == [7, 7]
    assert type(scaled(x).grad_fn).__name__ == "MulBackward0"
    assert scaled.default.name() == f"{space}::scaled"
    assert scaled.overloads() == ["default"]
    declared = rf"Declaration: {space}::scaled\(Tensor x, int k=2\) -> Tensor"
    with pytest.raises(RuntimeError, match=rf"missing value for argument 'x'. {declared}"):
        scaled()
    with pytest.raises(RuntimeError, match="at most 2 argument"):
        scaled(x, 3, 4)
    with pytest.raises(RuntimeError, match="'Tensor' for argument 'x' but instead found type 'st"):
        scaled("s")
    with pytest.raises(RuntimeError, match="same name and overload name"):
        library.define("scaled(Tensor x) -> Tensor")
    library._destroy()
    assert not hasattr(getattr(torch.ops, space), "scaled")


def test_functions_that_define_and_register_by_name(space: str) -> None:
    torch.library.define(f"{space}::more", "(Tensor x) -> Tensor")

    @torch.library.impl(f"{space}::more", "cpu")
    def more(x):
        return x + 1

    torch.library.register_autograd(f"{space}::more", lambda ctx, g: g * 10)
    x = torch.ones(2, requires_grad=True)
    getattr(torch.ops, space).more(x).sum().backward()
    assert x.grad.tolist() == [10, 10]
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.library.register_fake(f"{space}::less", lambda x: x)
    with pytest.raises(ValueError, match='of the form "namespace::name"'):
        torch.library.define("nameless", "(Tensor x) -> Tensor")


def test_names_that_are_nowhere() -> None:
    with pytest.raises(AttributeError, match="'_OpNamespace' 'nolib' object has no attribute 'f'"):
        _ = torch.ops.nolib.f
    with pytest.raises(ValueError, match="Unsupported kind"):
        torch.library.Library("x", "WHAT")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        torch.library.Library("aten", "DEF")


def test_schemas_of_annotations() -> None:
    def f(x: Tensor, y: Tensor | None, z: list[int], b: bool = True, s: str = "a", *,
          kw: float | None = None) -> tuple[Tensor, list[Tensor]]: ...

    assert torch.library.infer_schema(f, mutates_args={"x"}) == (
        '(Tensor(a0!) x, Tensor? y, SymInt[] z, bool b=True, str s="a", *, float? kw=None) -> '
        "(Tensor, Tensor[])"
    )
    with pytest.raises(ValueError, match="must have a type annotation"):
        torch.library.custom_op("a::b", mutates_args=())(lambda x: x)


def test_rules_for_modes_and_classes(torch):
    from importlib import import_module

    mode_class = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
    name = f"suitetests_{torch.__name__}::shifted"

    shifted = torch.library.custom_op(
        name, lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")

    class Mode(mode_class):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, elem):
            self = torch.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)
            self.elem = elem
            return self

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("the rule stands in for this")

    @torch.library.register_torch_dispatch(name, Mode)
    def _(mode, func, types, args, kwargs):
        assert isinstance(mode, Mode)
        return func(*args) * 10

    shifted.register_torch_dispatch(Wrapper, lambda cls, func, types, args, kwargs:
                                    cls(func(args[0].elem)))
    x = torch.ones(2)
    with Mode():
        assert shifted(x).tolist() == [20, 20]
    assert shifted(x).tolist() == [2, 2]
    assert shifted(Wrapper(x)).elem.tolist() == [2, 2]


def test_a_library_takes_back_what_it_defined_and_registered(torch):
    """With `lib=` they end with the library, as when a notebook runs again."""
    space = f"suitelib_{torch.__name__}"
    for factor in (2, 3):
        lib = torch.library.Library(space, "FRAGMENT")
        torch.library.define(f"{space}::times", "(Tensor x) -> Tensor", lib=lib)
        torch.library.impl(f"{space}::times", "cpu", lambda x, n=factor: x * n, lib=lib)
        assert getattr(torch.ops, space).times(torch.ones(2)).tolist() == [factor] * 2
        lib._destroy()
    lib = torch.library.Library(space, "FRAGMENT")

    @torch.library.define(lib, "older(Tensor x) -> Tensor")
    def older(x):
        return x + 4

    assert getattr(torch.ops, space).older(torch.ones(2)).tolist() == [5, 5]
    lib._destroy()


def test_a_namespace_may_start_with_an_underscore(torch):
    name = f"_suitelib_{torch.__name__}"
    torch.library.custom_op(f"{name}::next", lambda x: x + 1, mutates_args=(),
                            schema="(Tensor x) -> Tensor")
    assert getattr(torch.ops, name).next(torch.ones(1)).tolist() == [2]


def test_what_is_no_schema_or_device_is_named(torch):
    with pytest.raises(ValueError, match="expected schema to look like"):
        torch.library.define("suitelib::wrong", "Tensor x -> Tensor")
    with pytest.raises(ValueError, match="expected qualname to be instance of str"):
        torch.library.define(torch.ones, "(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        torch.library.impl("suitelib::nowhere", "nodevice", lambda x: x)


def test_a_library_leaves_what_was_defined_anew(torch):
    space = f"suiteanew_{torch.__name__}"
    lib = torch.library.Library(space, "FRAGMENT")
    lib.define("next(Tensor x) -> Tensor")
    lib._destroy()
    torch.library.custom_op(f"{space}::next", lambda x: x + 1, mutates_args=(),
                            schema="(Tensor x) -> Tensor")
    lib._destroy()
    assert getattr(torch.ops, space).next(torch.ones(1)).tolist() == [2]


def test_definitions_last_as_long_as_their_library(torch):
    """As in a notebook, whose cell is run twice."""
    space = f"suiterun_{torch.__name__}"
    for factor in (2, 3):
        lib = torch.library.Library(space, "FRAGMENT")
        lib.define("times(Tensor x) -> Tensor")
        lib.impl("times", lambda x, n=factor: x * n, "CPU")
        assert getattr(torch.ops, space).times(torch.ones(2)).tolist() == [factor] * 2


def test_a_custom_op_counts_its_writes(torch):
    write = torch.library.custom_op(
        f"suitewrite_{torch.__name__}::write", lambda x: x.numpy().fill(7), mutates_args=("x",),
        schema="(Tensor(a!) x) -> ()")
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    version = y._version
    with torch.no_grad():
        write(y)
    assert y._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


@pytest.mark.parametrize("kernel", [lambda x: x, lambda x: x.view(-1)])
def test_a_custom_op_returns_new_memory(torch, kernel):
    same = torch.library.custom_op(
        f"suitesame_{torch.__name__}::same", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    for x in (torch.ones(2), torch.ones(2, requires_grad=True)):
        with pytest.raises(RuntimeError, match="may not alias any inputs"):
            same(x)


def test_schemas_that_a_custom_op_refuses(torch):
    op = functools.partial(torch.library.custom_op, f"suiterefuse_{torch.__name__}::op")
    with pytest.raises(ValueError, match="the op mutates {'x'}"):
        op(lambda x: None, mutates_args=(), schema="(Tensor(a!) x) -> ()")
    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        op(lambda x, *, y: None, mutates_args=(), schema="(Tensor x, *, Tensor y) -> ()")

    def plain(x): ...

    plain.__annotations__ |= {"x": torch.Tensor, "return": None}
    with pytest.raises(ValueError, match="{'y'} in mutates_args were not found"):
        torch.library.infer_schema(plain, mutates_args={"y"})


@pytest.mark.parametrize(("schema", "error"), [
    ("(Tensor(a!) x) -> ()", RuntimeError), ("(Tensor(a) x) -> Tensor(a)", RuntimeError),
    ("(Tensor x) -> ()", RuntimeError), ("(Tensor x, *, Tensor y) -> Tensor", NotImplementedError),
])
def test_operators_without_a_derivative(torch, schema, error):
    lib = torch.library.Library(f"suitenograd_{torch.__name__}", "FRAGMENT")
    lib.define("op" + schema)
    with pytest.raises(error, match="Cannot register autograd formula|kwarg-only Tensor args"):
        torch.library.register_autograd(f"{lib.ns}::op", lambda ctx, g: g)


def test_a_kernel_for_autograd_calls_the_one_below(torch):
    lib = torch.library.Library(f"suitebelow_{torch.__name__}", "FRAGMENT")
    lib.define("twice(Tensor x) -> Tensor")
    twice = getattr(torch.ops, lib.ns).twice

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return twice(x)

        @staticmethod
        def backward(ctx, g):
            return g * 20

    lib.impl("twice", Twice.apply, "Autograd")
    lib.impl("twice", lambda x: torch.from_numpy(x.detach().numpy() * 2), "CPU")
    x = torch.ones(2, requires_grad=True)
    y = twice(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2, 2], [20, 20])
    guard = torch._C._AutoDispatchBelowAutograd()
    assert not (x * 2).requires_grad
    del guard
    assert (x * 2).requires_grad


def test_a_derivative_may_ask_which_arguments_need_it(torch):
    lib = torch.library.Library(f"suiteneeds_{torch.__name__}", "FRAGMENT")
    lib.define("product(Tensor x, Tensor y, *, float k) -> Tensor")
    lib.impl("product", lambda x, y, k: torch.from_numpy(x.numpy() * y.numpy() * k), "CPU")
    asked = []

    def setup_context(ctx, inputs, output, keyword_only_inputs):
        ctx.save_for_backward(*inputs)
        ctx.k = keyword_only_inputs["k"]

    def backward(ctx, g):
        asked.append(ctx.needs_input_grad)
        x, y = ctx.saved_tensors
        needs_x, needs_y = ctx.needs_input_grad
        return g * y * ctx.k if needs_x else None, g * x * ctx.k if needs_y else None

    torch.library.register_autograd(f"{lib.ns}::product", backward, setup_context=setup_context)
    x = torch.tensor([2.0], requires_grad=True)
    getattr(torch.ops, lib.ns).product(x, torch.tensor([3.0]), k=10.0).backward()
    assert x.grad.tolist() == [30]
    assert asked == [(True, False)]


def test_defaults_that_a_call_leaves_out_need_no_gradient(space: str) -> None:
    torch.library.define(f"{space}::scaled", "(Tensor w, int k=2, *, int j=3) -> Tensor")
    torch.library.impl(f"{space}::scaled", "cpu", lambda w, k=2, *, j=3: w * k * j)

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.factor = inputs[1] * keyword_only_inputs["j"]

    torch.library.register_autograd(
        f"{space}::scaled", lambda ctx, g: g * ctx.factor, setup_context=setup_context)
    scaled, w = getattr(torch.ops, space).scaled, torch.ones(2, requires_grad=True)
    scaled(w, j=5).sum().backward()
    assert w.grad.tolist() == [10.0, 10.0]
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        scaled(w, 2, j=5).sum().backward()


def test_a_list_of_results_has_a_list_of_gradients(space: str) -> None:
    @torch.library.custom_op(f"{space}::halves", mutates_args=())
    def halves(x: Tensor) -> list[Tensor]:
        return tuple(part.clone() for part in x.chunk(2))

    seen = []
    halves.register_autograd(lambda ctx, g: seen.append(g) or torch.cat(list(g)))
    x = torch.ones(4, requires_grad=True)
    (halves(x)[1] * 3).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 3.0, 3.0]
    assert isinstance(seen[0], list)


TAGS = [torch.Tag.pointwise, (torch.Tag.pointwise,), [torch.Tag.core], ()]


@pytest.mark.parametrize("tags", TAGS)
def test_tags_of_definitions(space: str, tags) -> None:
    torch.library.define(f"{space}::tagged", "(Tensor x) -> Tensor", tags=tags)
    expected = [tags] if isinstance(tags, torch.Tag) else list(tags)
    assert getattr(torch.ops, space).tagged.default.tags == expected
