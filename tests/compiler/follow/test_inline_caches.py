"""Inline caches of followed calls: which functions have one, and that each notices what differs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.follow import holder_census
from flambeau.compiler.follow.cues.inline_cache import Cue
from flambeau.compiler.trace.trace import EMPTY


def follow(step: Callable) -> Any:
    """A step that is followed: it advances an iterator from outside."""
    calls = iter(int, 1)

    def counted(*args: Any, **kwargs: Any) -> Any:
        next(calls)
        return step(*args, **kwargs)

    return torch.compile(counted, options={"mode": "now", "follow": True}, backend="evaluate")


def segment_of(followed: Any) -> Any:
    return followed._fallback.followed.root.segments[0]


def names_without_code(followed: Any) -> list[str]:
    """The functions of the last segment whose caches take the general path."""
    result, cue = [], segment_of(followed).cue
    assert cue is not None
    while cue is not None:
        if getattr(cue.take, "__func__", None) is Cue.run:
            result.append(cue.hook.function.__name__)
        cue = cue.next
    return result


def noisy(x: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    return (F.dropout(x, p) * F.dropout(x + 1, 0.25)).sum()


def turned(x: torch.Tensor) -> torch.Tensor:
    return ((x * 2).permute(2, 0, 1) + 1).sum(0)


def normalized(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x * 2, (4,)).sum()


@pytest.mark.parametrize("step", [noisy, turned, normalized], ids=lambda step: step.__name__)
def test_each_function_has_code_of_its_own(step: Callable) -> None:
    followed = follow(step)
    for _ in range(8):
        followed(torch.ones(2, 3, 4))
    assert names_without_code(followed) == []


def test_memory_that_is_reserved_is_there_from_the_beginning() -> None:
    """The statistics of a norm, which nobody holds when the call ends."""
    followed = follow(normalized)
    for _ in range(8):
        followed(torch.ones(2, 3, 4))
    segment = segment_of(followed)
    reserved = {s for entry in segment.entries if entry.kind == EMPTY for s in entry.allocated}
    assert reserved and reserved <= segment.recycled.ready


def test_draws_are_those_of_eager_mode() -> None:
    """The caches of draws advance the generator, and notice another probability."""
    followed, chances = follow(noisy), [0.5] * 8 + [0.5, 0.75, 0.5, 0.5]
    x = torch.arange(60.0).reshape(3, 4, 5)
    torch.manual_seed(3)
    actual = [followed(x, p).item() for p in chances]
    torch.manual_seed(3)
    assert actual == pytest.approx([noisy(x, p).item() for p in chances])


def test_a_draw_into_memory_that_is_not_new_is_noticed() -> None:
    memory, count = torch.zeros(6), itertools.count()

    def step(x: torch.Tensor) -> torch.Tensor:
        target = memory if next(count) == 9 else torch.empty(6)
        target.uniform_()
        return (x * target).sum()

    followed, x = follow(step), torch.arange(6.0)
    torch.manual_seed(5)
    actual = [followed(x).item() for _ in range(12)]
    assert memory.any()
    torch.manual_seed(5)
    assert actual == pytest.approx([(x * torch.empty(6).uniform_()).sum().item()
                                    for _ in range(12)])


def test_masks_that_somebody_holds_now_and_then() -> None:
    """A mask is memory of the call itself: the count of its holders is compared all the same."""
    stored: list[Any] = []
    count = itertools.count()

    def step(x: torch.Tensor) -> torch.Tensor:
        mask = torch.empty_like(x).bernoulli_(0.5)
        if next(count) in (7, 8, 12):
            stored.append(mask[1:])
        return (x * mask).sum()

    followed, x = follow(step), torch.arange(1.0, 41.0)
    torch.manual_seed(7)
    results = [followed(x).item() for _ in range(16)]
    torch.manual_seed(7)
    masks = [torch.empty_like(x).bernoulli_(0.5) for _ in range(16)]
    assert results == pytest.approx([(x * mask).sum().item() for mask in masks])
    assert [part.tolist() for part in stored] == [masks[i][1:].tolist() for i in (7, 8, 12)]


def test_the_holders_of_a_step_that_draws_are_counted_at_once(monkeypatch: Any) -> None:
    followed, searches = follow(noisy), []
    find = holder_census._find_survivors
    monkeypatch.setattr(holder_census, "_find_survivors",
                        lambda following: searches.append(1) or find(following))
    for i in range(16):
        if i == 8:
            searches.clear()
        followed(torch.ones(2, 3, 4))
    assert not searches


@pytest.mark.parametrize("dims", [(1, 0, 2), (2, 1, 0)], ids=str)
def test_other_axes_are_noticed(dims: tuple[int, ...]) -> None:
    def step(x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
        return (x + 1).permute(*dims) * 2

    followed, x = follow(step), torch.arange(27.0).reshape(3, 3, 3)
    usual = (0, 2, 1)
    for order in (*[usual] * 8, dims, usual, usual, dims):
        assert followed(x, order).tolist() == step(x, order).tolist()


def test_another_number_in_a_tuple_of_tuples_is_noticed() -> None:
    """The window of a convolution: its strides, padding and dilation in pairs."""
    weight = torch.arange(18.0).reshape(1, 2, 3, 3)

    def step(x: torch.Tensor, **window: Any) -> torch.Tensor:
        return F.conv2d(x, weight, **window)

    followed, x = follow(step), torch.arange(98.0).reshape(1, 2, 7, 7)
    for window in (*[{"padding": (1, 1)}] * 8, {"padding": (1, 0)}, {"padding": (1, 1)},
                   {"padding": (1, 1), "dilation": 2}, {"padding": (1, 1), "stride": (1, 2)}):
        assert torch.allclose(followed(x, **window), step(x, **window)), window


def test_elements_taken_along_an_axis_are_followed() -> None:
    def step(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return (torch.take_along_dim(x * 2, places, 1) + 1).sum(0)

    followed, x = follow(step), torch.arange(12.0).reshape(3, 4)
    for k in range(8):
        places = torch.tensor([[k % 4], [-1 - k % 3], [2]])
        assert followed(x, places).tolist() == step(x, places).tolist()
    assert "is followed" in followed.explain()


def test_a_hook_on_saved_tensors_may_run_operators() -> None:
    """It ends the segment within a cached operator, whose successor must not be taken."""
    linear = torch.nn.Linear(4, 4)

    def step(x: torch.Tensor, saves: bool) -> torch.Tensor:
        if not saves:
            return (F.gelu(linear(x)) * 2).sum()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            return (F.gelu(linear(x)) * 2).sum()

    followed, x = follow(step), torch.linspace(-1, 1, 8).reshape(2, 4)
    for call in range(14):
        saves = call > 8
        torch.testing.assert_close(followed(x, saves), step(x, saves))


def filled(x: torch.Tensor) -> torch.Tensor:
    ramp = torch.arange(4, dtype=torch.float32)
    return (x * torch.zeros(4) + torch.ones((2, 3, 4)) * torch.full([4], 2.0) + ramp).sum(0)


def reshaped(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y.reshape(6, 4).sum(0) + y.view(-1, 4)[0] + y.flatten(0, 1)[1] + (y + 1).ravel()[0]


@pytest.mark.parametrize("step", [filled, reshaped], ids=lambda step: step.__name__)
def test_constants_and_views_have_code_of_their_own(step: Callable) -> None:
    followed, x = follow(step), torch.arange(24.0).reshape(2, 3, 4)
    for _ in range(8):
        torch.testing.assert_close(followed(x), step(x))
    assert names_without_code(followed) == []


def test_a_composite_that_returns_a_view_calls_nothing() -> None:
    followed, names = follow(reshaped), []
    for _ in range(8):
        followed(torch.ones(2, 3, 4))
    cue = segment_of(followed).cue
    while cue is not None:
        names.append(cue.hook.function.__name__)
        cue = cue.next
    assert names.count("reshape") == names.count("flatten") == names.count("view_method") == 1
    assert segment_of(followed).misses == 0


def test_constants_are_new_memory_in_every_call() -> None:
    stored: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(3)
        shown = total.sum().item() if len(stored) == 9 else 0.0
        total += x
        stored.append(total)
        return total * 2 + shown

    followed = follow(step)
    for k in range(14):
        assert followed(torch.full((3,), float(k))).tolist() == [2.0 * k] * 3
    assert [total.tolist() for total in stored] == [[float(k)] * 3 for k in range(14)]
    stored[12][0] = 99.0
    assert followed(torch.ones(3)).tolist() == [2.0] * 3


OTHER_CONSTANTS = {
    "size": ({"size": 3}, {"size": 1}), "type": ({"dtype": None}, {"dtype": torch.float64}),
    "value": ({"value": 1.0}, {"value": 2.0}), "sign": ({"value": 0.0}, {"value": -0.0}),
    "class": ({"value": 1.0}, {"value": 1}), "flag": ({"value": 1.0}, {"value": True}),
    "nan": ({"value": float("nan")}, {"value": 1.0}),
}


@pytest.mark.parametrize("usual, other", OTHER_CONSTANTS.values(), ids=OTHER_CONSTANTS)
def test_other_constants_are_noticed(usual: dict[str, Any], other: dict[str, Any]) -> None:
    def step(x: torch.Tensor, size: int = 3, value: Any = 1.0, dtype: Any = None) -> torch.Tensor:
        return x + 1 / torch.full((size,), value, dtype=dtype) + torch.zeros(size, dtype=dtype)

    followed, x = follow(step), torch.arange(3.0)
    for options in (*[usual] * 8, other, usual, usual, other):
        actual, expected = followed(x, **options), step(x, **options)
        assert actual.dtype is expected.dtype
        torch.testing.assert_close(actual, expected, equal_nan=True)


def test_a_size_in_a_list_that_changes_is_noticed() -> None:
    size = [3]
    followed = follow(lambda x: x + torch.ones(size))
    for k in range(12):
        size[0] = 1 if k == 9 else 3
        assert followed(torch.zeros(1)).shape == (size[0],)


def test_another_default_dtype_is_noticed() -> None:
    followed = follow(lambda x: x * 2 + torch.zeros(2))
    for k in range(12):
        try:
            torch.set_default_dtype(torch.float64 if k == 9 else torch.float32)
            assert followed(torch.ones(2)).dtype is torch.get_default_dtype()
        finally:
            torch.set_default_dtype(torch.float32)


OTHER_VIEWS: dict[str, Callable] = {
    "shape": lambda y: y.reshape(3, 2), "axes": lambda y: y.t().reshape(6),
    "type": lambda y: y.view(torch.int32).float(), "same type": lambda y: y.view(torch.float32),
    "tuple": lambda y: y.reshape((6,)), "itself": lambda y: y.reshape(2, 3),
}


@pytest.mark.parametrize("other", OTHER_VIEWS.values(), ids=OTHER_VIEWS)
@pytest.mark.parametrize("usual", [lambda y: y.reshape(6), lambda y: y.view(torch.float32)],
                         ids=["reshape", "view as a dtype"])
def test_other_views_are_noticed(usual: Callable, other: Callable) -> None:
    def step(x: torch.Tensor, view: Callable) -> Any:
        y = view(x * 2)
        loss = (y * y).sum()
        if y.requires_grad:
            loss.backward()
        return y.detach(), type(y.grad_fn).__name__, loss.detach()

    followed = follow(step)
    for view in (*[usual] * 8, other, usual, usual, other):
        a, b = (torch.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(2))
        actual, expected = followed(a, view), step(b, view)
        torch.testing.assert_close(actual[0], expected[0])
        assert actual[1:] == expected[1:]
        assert (a.grad is None) == (b.grad is None)
        assert a.grad is None or a.grad.tolist() == b.grad.tolist()


def test_a_view_shares_memory_and_version_with_its_base() -> None:
    stored: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        view = y.reshape(6)
        view += 1
        if len(stored) in (8, 10):
            stored.append((y, view))
        else:
            stored.append(())
        assert y._version == view._version == 1 and view._base is y
        return y.sum()

    followed, x = follow(step), torch.arange(6.0).reshape(2, 3)
    for _ in range(14):
        assert followed(x).item() == 27.0
    (a, b), (c, d) = stored[8], stored[10]
    assert a.tolist() == c.tolist() == b.reshape(2, 3).tolist() == (x + 2).tolist()
    d[0] = 50.0
    assert c[0, 0].item() == 50.0 and a[0, 0].item() == 2.0


def test_new_caches_do_not_end_the_list_at_a_constant() -> None:
    net = torch.nn.LSTM(4, 4, batch_first=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x)[0].square().sum()
        loss.backward()
        optimizer.step()
        return loss

    followed, x = follow(step), torch.randn(2, 3, 4)
    for call in range(24):
        if call in (12, 18):
            segment_of(followed).misses = 100  # so that this call generates them again
        followed(x)
    assert len(followed._fallback.followed.programs) == 1
