"""Recorded calls ask `__torch_function__` and `__torch_dispatch__` for the functions that eager
calls do: also those that are not recorded, such as `dim` and `detach`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

CALLS: list[str] = []


class Observed(torch.Tensor):
    """A tensor that lists the functions called with it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        CALLS.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})

    def new_empty(self, shape):  # which deepcopy asks for
        return type(self)(shape)


class Wrapper(torch.Tensor):
    """A tensor that wraps another, and lists the operators called with it."""

    @staticmethod
    def __new__(cls, inner):
        result = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        result.inner = inner
        return result

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        CALLS.append(str(func))
        values = [x.inner if isinstance(x, cls) else x for x in args]
        return cls(func(*values, **(kwargs or {})))


def _ask_for_facts(x: Any) -> None:
    s = x.as_subclass(Observed)
    s.dim(), s.numel(), s.size(), s.stride(), len(s), s.is_contiguous(), s.element_size()
    1 in s, s.is_complex(), s.storage_offset()


def _convert(x: Any) -> None:
    s = x.as_subclass(Observed)
    s.detach(), s.to(torch.float64), s.half(), s.long(), s.new_tensor([1.0]), s[0], s.resolve_conj()
    copy.deepcopy(s)


def _compute(x: Any) -> None:
    s = x.as_subclass(Observed)
    s * 2, 2 * s, s**2, 2**s, s @ s, s.add_(1), s.mul_(2), s.remainder_(3), s.pow_(2)
    torch.where(s > 0), torch.einsum("ij,jk->ik", s, s), torch.nn.init.zeros_(s)


def _go_backward(x: Any) -> None:
    s = x.as_subclass(Observed).detach().requires_grad_()
    s.register_hook(lambda g: CALLS.append("hook"))
    (s * s).sum().backward()
    s.grad, torch.autograd.grad((s * 3).sum(), s)


def _wrap(x: Any) -> None:
    w = Wrapper(x)
    w.detach(), w[0], w * 2, w.exp()


def _use_sparse_next_to_overriding(x: Any) -> None:
    s = x.as_subclass(Observed)
    CALLS.append(str(x.to_sparse().to_dense().sum().item() + float(s.sum())))


@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize("step", [_ask_for_facts, _convert, _compute, _go_backward, _wrap,
                                  _use_sparse_next_to_overriding])
def test_classes_are_asked_as_eagerly(step: Callable, mode: str) -> None:
    def calls_of(function: Callable) -> list[list[str]]:
        torch.manual_seed(0)
        result = []
        for _ in range(5):
            CALLS.clear()
            function(torch.randn(3, 3))
            result.append(list(CALLS))
        return result

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = calls_of(step)
        assert expected[0]
        assert calls_of(torch.compile(step, mode=mode)) == expected


def test_following_keeps_stubs_that_came_between_two_calls(plain_functions: None) -> None:
    torch.ones(2).as_subclass(Observed)
    step = torch.compile(lambda x: x * 2 if (x * 2).sum().item() > 1 else x, mode="now")
    for _ in range(4):
        step(torch.ones(2))
    w = Wrapper(torch.ones(2))
    step(torch.ones(2)), step(torch.ones(2))
    CALLS.clear()
    w * 2
    assert CALLS == ["aten.mul.Tensor"]
