"""Composites that a followed call does not run: which they are, and that all else is noticed."""

from __future__ import annotations

import gc
import itertools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.follow.hooks import ACTIVE
from flambeau.ops.attention import scaled_dot_product
from flambeau.ops.loss import cross_entropy as losses
from flambeau.ops.normalization import layer_norm as norms

USUAL = 8  # calls until the inline caches are in use


def follow(step: Callable) -> Any:
    """A step that is followed: it advances an iterator from outside."""
    calls = iter(int, 1)

    def counted(*args: Any, **kwargs: Any) -> Any:
        next(calls)
        return step(*args, **kwargs)

    return torch.compile(counted, options={"mode": "now", "follow": True}, backend="evaluate")


class Values:
    """Numbers that equal others of the same shape up to rounding."""

    def __init__(self, y: torch.Tensor) -> None:
        self.shape, self.numbers = y.shape, y.detach().flatten().tolist()

    def __eq__(self, other: Any) -> bool:
        return self.shape == other.shape and \
            self.numbers == pytest.approx(other.numbers, rel=1e-5, abs=1e-6)

    def __repr__(self) -> str:
        return repr(self.numbers)


def describe(y: Any) -> Any:
    """A result with its history, which eager mode must have too."""
    if not isinstance(y, torch.Tensor):
        return [*map(describe, y)] if isinstance(y, (tuple, list)) else y
    return Values(y), y.dtype, y.stride(), y.requires_grad, y._version, history(y.grad_fn)


def history(node: Any) -> Any:
    if node is None:
        return None
    return node.name(), [(history(below), k) for below, k in node.next_functions]


def check(step: Callable, *cases: tuple) -> Any:
    """Compare the followed step with the eager one, for each case after several of the first."""
    followed = follow(step)
    order = [cases[0]] * USUAL + [c for case in cases for c in (case, cases[0])]
    for number, make in enumerate(order):
        torch.manual_seed(5)
        expected = describe(step(*make()))
        torch.manual_seed(5)
        assert describe(followed(*make())) == expected, number
    return followed


def data(*shape: int) -> torch.Tensor:
    return torch.linspace(-3, 3, torch.zeros(shape).numel()).reshape(shape)


def parameter(*shape: int) -> torch.Tensor:
    return torch.nn.Parameter(data(*shape) / 2 + 0.5)


WEIGHT, BIAS, TABLE = parameter(4), parameter(4), parameter(6, 4)


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x * 2, (4,), WEIGHT, BIAS)


def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x * WEIGHT, y)


def attend(x: torch.Tensor) -> torch.Tensor:
    x = x * WEIGHT
    return F.scaled_dot_product_attention(x, x + 1, x * 2, is_causal=True)


RUN: list[str] = []


@pytest.fixture
def run(monkeypatch: Any) -> list[str]:
    """The composites whose Python runs in followed calls."""
    RUN.clear()
    for module, name in ((norms, "_convert_to_tuple"), (losses, "_check_target"),
                         (scaled_dot_product, "_check_arguments")):
        function = getattr(module, name)

        def noted(*args: Any, function: Any = function, name: str = name, **kwargs: Any) -> Any:
            if ACTIVE.session is not None:
                RUN.append(name)
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)
    return RUN


@pytest.mark.parametrize("step, make", [
    (norm, lambda: (data(3, 4),)),
    (loss, lambda: (data(3, 4), torch.tensor([1, 0, 3]))),
    (attend, lambda: (data(1, 2, 3, 4),)),
], ids=["layer_norm", "cross_entropy", "attention"])
def test_a_composite_with_the_usual_arguments_is_not_run(step: Any, make: Any, run: Any) -> None:
    followed = check(step, make)
    run.clear()
    y = followed(*make())
    assert not run
    assert describe(y) == describe(step(*make()))


def lstm_step(x: torch.Tensor) -> Any:
    return LSTM(x * 2)


LSTM = torch.nn.LSTM(4, 3, batch_first=True)
GRU = torch.nn.GRU(4, 3, num_layers=2)


@pytest.mark.parametrize("step, make", [
    (lambda i: F.embedding(i, TABLE), lambda: (torch.tensor([[1, 2], [5, 0]]),)),
    (lambda i: F.embedding(i, TABLE, 2), lambda: (torch.tensor([2, 2, 5, 0]),)),
    (lambda x: F.relu(x * WEIGHT), lambda: (data(3, 4),)),
    (lambda x: (x * WEIGHT).t().reshape(2, 6) * 2, lambda: (data(3, 4),)),
    (lambda x: (x * WEIGHT).flatten() + 1, lambda: (data(3, 4),)),
    (lambda x: F.nll_loss(x * WEIGHT, torch.tensor([1, 0, 3])), lambda: (data(3, 4),)),
    (lambda x: F.cross_entropy(x * WEIGHT, x), lambda: (data(3, 4).softmax(1),)),
    (lambda x: F.cross_entropy(x * WEIGHT, x[:, 0].long().abs(), label_smoothing=0.25),
     lambda: (data(3, 4),)),
    (lstm_step, lambda: (data(2, 5, 4),)),
    (lambda x: GRU(x * 2), lambda: (data(5, 2, 4),)),
    (lambda x: F.layer_norm(x * 2, (4,)), lambda: (data(3, 4),)),
], ids=["embedding", "padding", "relu", "reshape", "flatten", "nll_loss", "probabilities",
        "smoothing", "lstm", "gru", "plain_norm"])
def test_results_and_history_are_those_of_eager_mode(step: Any, make: Any) -> None:
    check(step, make)


def differing(step: Callable) -> list[Callable]:
    """Arguments that differ from `data(3, 4)` in one respect each."""
    return [
        lambda: (data(3, 4),), lambda: (data(3, 4).requires_grad_(),),
        lambda: (data(3, 8)[:, ::2],), lambda: (data(4, 3).t(),), lambda: (data(3, 4).double(),),
        lambda: (data(5, 4),), lambda: (torch.nn.Parameter(data(3, 4)),),
        lambda: (data(3, 4).requires_grad_()[:],), lambda: (data(6, 4)[3:],),
    ]


@pytest.mark.parametrize("step", [
    lambda x: F.relu(x), lambda x: F.layer_norm(x, (4,)), lambda x: x.reshape(-1, 2) * 2,
    lambda x: F.cross_entropy(x, torch.tensor([1, 0, 3])) if len(x) == 3 else x * 2,
    lambda x: F.embedding(torch.tensor([1, 0]), x), lambda x: F.layer_norm(x, (4,), x[0], x[1]),
    lambda x: F.scaled_dot_product_attention(x, x, x), lambda x: x.t().reshape(-1) + 1,
], ids=["relu", "norm", "reshape", "cross_entropy", "embedding", "affine", "attention", "copy"])
def test_other_arguments_are_noticed(step: Callable) -> None:
    check(step, *differing(step))


def test_grad_mode_inside_the_step_is_noticed() -> None:
    modes = iter([True] * 2 * USUAL + [True, True, False, False] * 3)

    def step(x: torch.Tensor) -> Any:
        y = x * WEIGHT
        with torch.set_grad_enabled(next(modes)):
            return norm(x), F.relu(y), F.layer_norm(y, (4,))

    check(step, *[lambda: (data(3, 4),)] * 3)


def test_a_parameter_frozen_between_calls_is_noticed() -> None:
    followed, x = follow(norm), data(3, 4)
    for frozen in [False] * USUAL + [True, True, False, True]:
        WEIGHT.requires_grad_(not frozen)
        try:
            assert describe(followed(x)) == describe(norm(x))
        finally:
            WEIGHT.requires_grad_(True)


def test_a_parameter_frozen_inside_the_step_is_noticed() -> None:
    count = itertools.count()
    bias = parameter(4)

    def step(x: torch.Tensor) -> Any:
        bias.requires_grad_(next(count) < 2 * USUAL)
        return F.layer_norm(x * 2, (4,), None, bias), F.relu(bias)

    check(step, *[lambda: (data(3, 4),)] * 4)


def test_saved_tensor_hooks_see_what_they_see_in_eager_mode() -> None:
    def step(x: torch.Tensor, packed: list, hooked: bool) -> torch.Tensor:
        if not hooked:
            return norm(x)
        with torch.autograd.graph.saved_tensors_hooks(
                lambda t: (packed.append(t.shape), t)[1], lambda t: t):
            return norm(x)

    followed, x = follow(step), data(3, 4)
    for hooked in [False] * USUAL + [True, False, True]:
        seen: list[list] = [[], []]
        assert describe(followed(x, seen[0], hooked)) == describe(step(x, seen[1], hooked))
        assert seen[0] == seen[1]


def test_inference_tensors_are_noticed() -> None:
    def make() -> tuple:
        with torch.inference_mode():
            return (torch.ones(3, 4),)

    followed, x = follow(lambda x: F.layer_norm(x, (4,))), data(3, 4)
    for _ in range(USUAL):
        followed(x)
    assert describe(followed(*make())) == describe(F.layer_norm(*make(), (4,)))
    followed = follow(lambda x: F.layer_norm(x, (4,), WEIGHT))
    for _ in range(USUAL):
        followed(x)
    with pytest.raises(RuntimeError, match="Inference tensors"):
        followed(*make())
    assert describe(followed(x)) == describe(F.layer_norm(x, (4,), WEIGHT))


def test_autocast_is_noticed() -> None:
    def step(x: torch.Tensor, cast: bool) -> torch.Tensor:
        x = x + 0
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            return attend(x), loss(x[0, 0], torch.tensor([1, 0, 3]))

    check(step, *[lambda cast=cast: (data(1, 2, 3, 4), cast) for cast in (False, True, False)])


def test_a_setting_of_attention_is_noticed() -> None:
    followed, x = follow(attend), data(1, 2, 3, 4)
    for _ in range(USUAL):
        followed(x)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION), \
            pytest.raises(RuntimeError, match="backend"):
        followed(x)
    assert describe(followed(x)) == describe(attend(x))


def test_a_composite_warns_in_each_call() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x * WEIGHT, torch.tensor([1, 0, 3]), size_average=True)

    followed = follow(step)
    for number in range(USUAL + 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            followed(data(3, 4))
        assert [str(w.message)[:12] for w in caught].count("size_average") == 1, number


def test_results_die_and_intermediates_do_not_outlive_the_composite() -> None:
    seen: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        y = norm(x)
        seen.append(weakref.ref(y))
        z = F.relu(y)
        del y
        seen.append(len([t for t in gc.get_objects() if type(t) is torch.Tensor]))
        return z.sum().detach()

    followed, x = follow(step), data(3, 4)
    counts = []
    for _ in range(2 * USUAL):
        seen.clear()
        followed(x)
        assert seen[0]() is None
        counts.append(seen[1])
    assert len(set(counts[-4:])) == 1
    assert counts[-1] <= counts[0] + 2


def test_results_that_somebody_holds_keep_their_values() -> None:
    stored: list[Any] = []

    def step(x: torch.Tensor, keep: bool) -> torch.Tensor:
        y = norm(x)
        if keep:
            stored.append((y, y.grad_fn))
        return F.relu(y).sum()

    followed = follow(step)
    for number in range(3 * USUAL):
        followed(data(3, 4) + number, number % 3 == 0)
    for k, (y, node) in enumerate(stored):
        expected = norm(data(3, 4) + 3 * k)
        assert Values(y) == Values(expected)
        assert node is y.grad_fn
        gradients = torch.autograd.grad(y.sum(), (WEIGHT, BIAS))
        assert [*map(Values, gradients)] == [
            *map(Values, torch.autograd.grad(expected.sum(), (WEIGHT, BIAS)))]


def test_the_same_tensor_twice_and_two_of_the_same_shape() -> None:
    def step(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x * 1, (4,), other[0], other[1]), F.scaled_dot_product_attention(
            x, other, x)

    a, b = data(3, 4), data(3, 4) * 2
    check(step, lambda: (a, b), lambda: (a, a), lambda: (b, a), lambda: (b, b))


def test_members_of_a_list_are_compared() -> None:
    weights = [torch.nn.Parameter(w.detach().clone()) for w in LSTM.parameters()]
    others = [torch.nn.Parameter(w.detach() * 2) for w in weights]

    def step(x: torch.Tensor, params: list) -> Any:
        state = torch.zeros(1, 2, 3), torch.ones(1, 2, 3)
        return torch.lstm(x * 2, state, params, True, 1, 0.0, False, False, True)

    check(step, lambda: (data(2, 5, 4), weights), lambda: (data(2, 5, 4), others),
          lambda: (data(2, 5, 4), [weights[0], others[1], *weights[2:]]),
          lambda: (data(2, 5, 4), tuple(weights)),
          lambda: (data(2, 5, 4), [w.detach() for w in weights]))


def test_an_index_out_of_range_raises_as_in_eager_mode() -> None:
    followed = follow(lambda i: F.embedding(i, TABLE) * 2)
    for _ in range(USUAL):
        followed(torch.tensor([1, 2]))
    with pytest.raises(IndexError):
        followed(torch.tensor([1, 6]))
    with pytest.raises(IndexError):
        followed(torch.tensor([-1, 2]))
    assert followed(torch.tensor([1, 5])).tolist() == (TABLE[[1, 5]] * 2).tolist()


def test_an_exception_after_a_composite_leaves_the_state_of_eager_mode() -> None:
    memory, other = torch.zeros(3, 4), torch.zeros(3, 4)

    def step(x: torch.Tensor, memory: torch.Tensor, fails: bool) -> torch.Tensor:
        memory.add_(F.layer_norm(x, (4,)))
        y = norm(x)
        if fails:
            raise KeyError("stop")
        return y

    followed = follow(step)
    for fails in [False] * USUAL + [True, False, True]:
        for function, target in ((followed, memory), (step, other)):
            try:
                function(data(3, 4), target, fails)
            except KeyError:
                assert fails
    assert Values(memory) == Values(other)


def test_a_method_assigned_to_tensor_reaches_no_composite(monkeypatch: Any) -> None:
    followed, x = follow(lstm_step), data(2, 5, 4)
    for _ in range(USUAL):
        followed(x)
    expected = describe(lstm_step(x))
    monkeypatch.setattr(torch.Tensor, "transpose", lambda *_: pytest.fail("called"))
    monkeypatch.setattr(torch.Tensor, "reshape", lambda *_: pytest.fail("called"))
    assert describe(followed(x)) == expected


def test_a_function_that_replaces_a_composite_is_called(monkeypatch: Any) -> None:
    followed, x = follow(lambda x: F.relu(x * WEIGHT)), data(3, 4)
    for _ in range(USUAL):
        followed(x)
    monkeypatch.setattr(F, "relu", lambda x: x + 1)
    assert followed(x).tolist() == (x * WEIGHT + 1).tolist()


def test_subclasses_and_hooks_on_results() -> None:
    class Named(torch.Tensor):
        pass

    seen: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        y = norm(x)
        y.register_hook(lambda g: seen.append(g.clone()))
        F.relu(y).sum().backward()
        grads = WEIGHT.grad.tolist(), BIAS.grad.tolist()
        WEIGHT.grad = BIAS.grad = None
        return torch.tensor(grads[0])

    followed, x = follow(step), data(3, 4)
    for make in [lambda: x] * USUAL + [lambda: x.as_subclass(Named), lambda: x]:
        seen.clear()
        actual, noted = followed(make()), list(seen)
        seen.clear()
        assert Values(actual) == Values(step(make()))
        assert [*map(Values, noted)] == [*map(Values, seen)]
