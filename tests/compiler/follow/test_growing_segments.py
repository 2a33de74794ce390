"""Steps that grow from call to call, as a key-value cache does: one program for all lengths."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.follow.programs.growing_program import GrowingProgram
from flambeau.compiler.schedule.polynomials import NoCommonForm, Polynomial, fit

HEADS, WIDTH = 2, 8
LENGTHS = (3, 4, 5, 6, 7, 8, 9, 10, 33, 2, 131, 300)  # most of which no plan was made for


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def attention(q: Any, k: Any, v: Any, new: Any) -> Any:
    k, v = torch.cat([k, new], 2), torch.cat([v, new * 2], 2)
    weights = torch.softmax(q @ k.transpose(2, 3) / WIDTH**0.5, -1)
    return (weights @ v).transpose(1, 2).reshape(1, 1, HEADS * WIDTH) + 1, k, v


def fused_attention(q: Any, k: Any, v: Any, new: Any) -> Any:
    k, v = torch.cat([k, new], -2), torch.cat([v, new], -2)
    return F.scaled_dot_product_attention(q, k, v), k, v


def pointwise(q: Any, k: Any, v: Any, new: Any) -> Any:
    return F.gelu(k + v * q), (k * new).sum(-1), k.mean(2)


def followed(function: Any) -> Any:
    """The function compiled, in a way that its Python runs on every call."""
    calls = iter(int, 1)  # advanced from outside: no proof says what it runs

    def step(*args: Any) -> Any:
        next(calls)
        return function(*args)

    return torch.compile(step, options={"mode": "now", "follow": True})


def cache(length: int) -> list[Any]:
    return [torch.randn(1, HEADS, n, WIDTH) for n in (1, length, length, 1)]


@pytest.mark.parametrize("function", [attention, fused_attention, pointwise])
def test_one_program_serves_all_lengths(function: Any) -> None:
    step = followed(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in LENGTHS:
            args = cache(length)
            for result, wanted in zip(step(*args), function(*args), strict=True):
                torch.testing.assert_close(result, wanted)
                assert result.stride() == wanted.stride()
    assert step._fallback.followed.built <= 4, step.explain()


def up_to_eight(q: Any, k: Any, v: Any, new: Any) -> Any:
    return (k[:, :, :8] + q, v * 2)


def diagonal(q: Any, k: Any, v: Any, new: Any) -> Any:
    return (k[0, 0].diagonal() + 1, v * 2)


def times_length(q: Any, k: Any, v: Any, new: Any) -> Any:
    return (k * k.shape[2] + v / (2 * k.shape[2] + 1), v - k.shape[2])


def causal(q: Any, k: Any, v: Any, new: Any) -> Any:
    return (F.scaled_dot_product_attention(k, k, v, is_causal=True), v * 2)


def written(q: Any, k: Any, v: Any, new: Any) -> Any:
    k = k + 1
    k[:, :, -1:] = new
    return (k * 2, v * 2)


def joined(q: Any, k: Any, v: Any, new: Any) -> Any:
    return (torch.cat([k, q, v, new], 2).softmax(2), torch.stack([k, v]).sum(0))


@pytest.mark.parametrize(("function", "programs"), [
    (up_to_eight, 12), (diagonal, 8), (times_length, 4), (causal, 4), (written, 4), (joined, 4),
])
def test_other_lengths_are_computed_as_eagerly(function: Any, programs: int) -> None:
    step = followed(function)
    for length in LENGTHS:
        args = cache(length)
        for result, wanted in zip(step(*args), function(*args), strict=True):
            torch.testing.assert_close(result, wanted)
            assert result.stride() == wanted.stride()
    assert step._fallback.followed.built <= programs, step.explain()


def at_positions(q: Any, k: Any, v: Any, new: Any) -> Any:
    x = torch.tanh(q) * 2
    return k + x + torch.arange(k.shape[2])[:, None], v * torch.tensor(k.shape[2] * 0.5)


def after_a_look(q: Any, k: Any, v: Any, new: Any) -> Any:
    x = torch.tanh(q) * 2
    if x.sum() > 1e9:
        return x, k
    return k + x, v * x.sum()


@pytest.mark.parametrize("function", [at_positions, after_a_look])
def test_what_precedes_is_part_of_the_list(function: Any) -> None:
    """Calls leave the first one's list where they differ; later ones are one list again."""
    step = followed(function)
    for length in (*range(3, 20), 2, 300):
        args = cache(length)
        for result, wanted in zip(step(*args), function(*args), strict=True):
            torch.testing.assert_close(result, wanted)
    programs = step._fallback.followed.programs
    assert programs[-1].calls >= 4, step.explain()
    growing = [p for p in programs if isinstance(p, GrowingProgram)]
    is_cut = function is after_a_look  # where a value is read
    assert (growing[-1].segment.origin is step._fallback.followed.root) is not is_cut


def test_polynomials_pass_through_all_points() -> None:
    assert fit((3, 5, 9), (4, 4, 4)) == 4
    assert fit((3, 5, 9), (7, 11, 19)) == Polynomial(1, 2)
    assert fit((3, 5, 9), (10, 26, 82)) == Polynomial(1, 0, 1)
    for values in ((1, 2, 5, 9), (3, 5, 9, 18), (1, 1, 1, 2)):
        with pytest.raises(NoCommonForm):
            fit((3, 5, 9, 17), values)
