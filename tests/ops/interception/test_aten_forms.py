"""Operators reach `__torch_dispatch__` with PyTorch's overloads and arguments, and run there."""

import importlib
import typing

import pytest


@pytest.fixture
def wrapper(torch):
    """A class that holds a tensor, computes with it, and notes the calls that it receives."""

    class Wrapper(torch.Tensor):
        calls: typing.ClassVar[list] = []

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(
                cls, inner.size(), dtype=inner.dtype, requires_grad=inner.requires_grad)

        def __init__(self, inner):
            self.inner = inner.detach()

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def opened(value):
                if isinstance(value, (list, tuple)):
                    return type(value)(map(opened, value))
                return value.inner if isinstance(value, cls) else value

            numbers = [a for a in args if not isinstance(a, torch.Tensor)]
            cls.calls.append((str(func), numbers, dict(kwargs or {})))
            result = func(*opened(list(args)), **(kwargs or {}))
            if isinstance(result, (tuple, list)):
                return tuple(cls(y) if isinstance(y, torch.Tensor) else y for y in result)
            return cls(result) if isinstance(result, torch.Tensor) else result

    return Wrapper


ROWS = {
    "sum": (lambda torch, x: x.sum(0, keepdim=True), "aten.sum.dim_IntList", [[0], True], {}),
    "amax": (lambda torch, x: x.amax(1), "aten.amax.default", [[1]], {}),
    "max": (lambda torch, x: x.max(1)[0], "aten.max.dim", [1], {}),
    "sort": (lambda torch, x: x.sort()[0], "aten.sort.default", [], {}),
    "sort down": (lambda torch, x: x.sort(descending=True)[0], "aten.sort.default", [-1, True],
                  {}),
    "stable sort": (lambda torch, x: x.sort(stable=True)[0], "aten.sort.stable", [],
                    {"stable": True}),
    "softmax": (lambda torch, x: x.softmax(1), "aten._softmax.default", [1, False], {}),
    "floor": (lambda torch, x: torch.div(x, 2, rounding_mode="floor"), "aten.div.Tensor_mode", [2],
              {"rounding_mode": "floor"}),
    "mse": (lambda torch, x: torch.nn.functional.mse_loss(x, torch.ones(3, 4), reduction="sum"),
            "aten.mse_loss.default", [2], {}),
    "roll": (lambda torch, x: x.roll(1, 0), "aten.roll.default", [[1], [0]], {}),
    "leaky": (lambda torch, x: torch.nn.functional.leaky_relu(x), "aten.leaky_relu.default", [],
              {}),
    "nll": (lambda torch, x: torch.nn.functional.nll_loss(x, torch.tensor([0, 1, 2])),
            "aten.nll_loss_forward.default", [None, 1, -100], {}),
    "split": (lambda torch, x: x.split([1, 3], 1)[1], "aten.split_with_sizes.default",
              [[1, 3], 1], {}),
    "pool": (lambda torch, x: torch.nn.functional.max_pool2d(x[None], 2, 1),
             "aten.max_pool2d_with_indices.default", [[2, 2], [1, 1]], {}),
    "median": (lambda torch, x: x.median(1)[0], "aten.median.dim", [1], {}),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_call_has_the_overload_and_arguments_of_pytorch(torch, wrapper, name):
    function, overload, numbers, options = ROWS[name]
    plain = torch.linspace(0.1, 2.0, 12).reshape(3, 4)
    wrapper.calls.clear()
    y = function(torch, wrapper(plain))
    assert wrapper.calls[-1] == (overload, numbers, options)
    assert torch.equal(y.inner, function(torch, plain))


def test_convolutions_have_the_arguments_of_pytorch(torch, wrapper):
    x, weight = torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3)
    wrapper.calls.clear()
    y = torch.nn.functional.conv2d(wrapper(x), weight, stride=2, padding=1)
    settings = [None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1]
    assert wrapper.calls == [("aten.convolution.default", settings, {})]
    assert torch.equal(y.inner, torch.nn.functional.conv2d(x, weight, stride=2, padding=1))


GRADIENTS = {
    "max": lambda torch, x: x.max(1)[0], "topk": lambda torch, x: x.topk(2)[0],
    "median": lambda torch, x: x.median(1)[0], "cummax": lambda torch, x: x.cummax(0)[0],
    "twice": lambda torch, x: x - x * 2, "cat": lambda torch, x: torch.cat([x, x]),
    "inverse": lambda torch, x: torch.linalg.inv(x[:3, :3]),
    "cross entropy": lambda torch, x: torch.nn.functional.cross_entropy(
        x, torch.tensor([0, 1, 2, 3])),
    "layer norm": lambda torch, x: torch.nn.functional.layer_norm(x, (4,)).square(),
    "interpolate": lambda torch, x: torch.nn.functional.interpolate(
        x[None, None], scale_factor=2, mode="bilinear"),
    "attention": lambda torch, x: torch.nn.functional.scaled_dot_product_attention(
        x[None], x[None], x[None]),
    "dropout": lambda torch, x: torch.nn.functional.dropout(x),
    "pool": lambda torch, x: torch.nn.functional.max_pool2d(x[None, None], 2),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_wrappers_are_those_of_what_they_hold(torch, wrapper, name):
    torch.manual_seed(2)
    plain = (torch.rand(4, 4) + torch.eye(4)).requires_grad_()
    x = wrapper(plain)
    results = []
    for value in (plain, x):
        torch.manual_seed(3)
        y = GRADIENTS[name](torch, value)
        y.sum().backward()
        results.append((y.detach(), value.grad))
    (y, g), (z, h) = results
    torch.testing.assert_close(z.inner, y)
    torch.testing.assert_close(h.inner, g)


@pytest.mark.parametrize("name", ["bucketize", "searchsorted", "histc", "bernoulli"])
def test_functions_that_read_numbers_reach_the_class(torch, wrapper, name):
    x, edges = torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0.5, 1.5])
    calls = {"bucketize": lambda x: torch.bucketize(x, edges),
             "searchsorted": lambda x: torch.searchsorted(edges, x),
             "histc": lambda x: torch.histc(x, 2), "bernoulli": torch.bernoulli}
    assert torch.equal(calls[name](wrapper(x)).inner, calls[name](x))


MODULES = {
    "Conv2d": lambda nn: nn.Conv2d(1, 2, 3), "LayerNorm": lambda nn: nn.LayerNorm(4),
    "BatchNorm2d": lambda nn: nn.BatchNorm2d(1), "GroupNorm": lambda nn: nn.GroupNorm(1, 1),
    "MaxPool2d": lambda nn: nn.MaxPool2d(2), "AvgPool2d": lambda nn: nn.AvgPool2d(2),
    "AdaptiveMaxPool2d": lambda nn: nn.AdaptiveMaxPool2d(2), "SELU": lambda nn: nn.SELU(),
    "CELU": lambda nn: nn.CELU(), "GLU": lambda nn: nn.GLU(), "Softmax": lambda nn: nn.Softmax(-1),
    "Unfold": lambda nn: nn.Unfold(2), "InstanceNorm2d": lambda nn: nn.InstanceNorm2d(1),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_mode_that_runs_each_call_changes_nothing(torch, name):
    base = importlib.import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
    seen = []

    class Log(base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    module, x = MODULES[name](torch.nn), torch.linspace(-1, 1, 16).reshape(1, 1, 4, 4)
    expected = module(x)
    with Log():
        y = module(x)
    assert seen
    assert torch.equal(y, expected)


def test_losses_of_aten_take_a_number_for_the_reduction(torch):
    x, t = torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0])
    aten = torch.ops.aten
    assert aten.mse_loss(x, t, 2).item() == 5
    assert aten.smooth_l1_loss(x, t, 2, 2.0).item() == 1.25
    assert aten.l1_loss(x, t).item() == 1.5
    assert aten.binary_cross_entropy_with_logits(x, t).shape == ()


def test_conversions_of_aten_take_all_options(torch):
    x = torch.arange(3.0)
    y = torch.ops.aten._to_copy.default(
        x, dtype=torch.int32, layout=torch.strided, device=None, pin_memory=False,
        non_blocking=False, memory_format=None)
    assert (y.dtype, y.tolist()) == (torch.int32, [0, 1, 2])


@pytest.mark.parametrize("first", ["to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("second", ["to_sparse_csr", "to_sparse_csc"])
def test_products_of_compressed_matrices_are_compressed_by_rows(torch, first, second):
    x = torch.tensor([[0.0, 1, 0], [2, 0, 0], [0, 3, 4]])
    y = getattr(x, first)() @ getattr(x, second)()
    assert y.layout is torch.sparse_csr
    assert torch.equal(y.to_dense(), x @ x)
