"""Calls from Python into scripted code: arguments, copies, errors with source lines."""

from __future__ import annotations

import typing

import pytest

import flambeau as torch
from flambeau import nn


@torch.jit.script
def scaled(x, by: int = 3, shift: float = 1.0, sizes: list[int] | None = None):
    return x * by + shift


@torch.jit.script
def appended(values: list[int]) -> list[int]:
    values.append(3)
    return values


@torch.jit.script
def transposed_sum(x):
    return x.t() + x


@torch.jit.script
def outer(x):
    y = x * 2
    return transposed_sum(y)


@torch.jit.script
def failing(case: int) -> int:
    if case == 0:
        raise ValueError("bad value")
    if case == 1:
        assert case == 3, "asserted"
    if case == 2:
        return [1][case]
    if case == 3:
        return {1: 2}[case]
    return 1 // (case - 4)


SCHEMA = "scaled(Tensor x, int by=3, float shift=1., int[]? sizes=None) -> Tensor"


@pytest.mark.parametrize(("args", "kwargs", "message"), [
    ((), {}, f"scaled() is missing value for argument 'x'. Declaration: {SCHEMA}"),
    ((1,), {}, "Expected a value of type 'Tensor (inferred)' for argument 'x' but instead found "
               "type 'int'.\nInferred 'x' to be of type 'Tensor' because it was not annotated with "
               "an explicit type.\nPosition: 0\nValue: 1"),
    ((1, 2, 3.0, None, 5), {}, "expected at most 4 argument(s) but received 5 argument(s)"),
    ((torch.ones(1), "a"), {}, "Expected a value of type 'int' for argument 'by' but instead found "
                               "type 'str'.\nPosition: 1\nValue: 'a'"),
    ((torch.ones(1),), {"sizes": ["a"]}, "Expected a value of type 'Optional[List[int]]'"),
    ((torch.ones(1),), {"q": 1}, f"Unknown keyword argument 'q' for operator 'scaled'. Schema: "
                                 f"{SCHEMA}"),
])
def test_wrong_arguments_are_refused_as_by_the_interpreter(args, kwargs, message):
    with pytest.raises(RuntimeError) as caught:
        scaled(*args, **kwargs)
    assert message in str(caught.value)


def test_numbers_are_converted_to_the_type_of_the_parameter():
    @torch.jit.script
    def half(x: float) -> float:
        return x

    assert type(half(2)) is float


def test_a_list_is_copied_on_the_way_in_and_a_script_list_is_not():
    values, shared = [1], torch.jit.script([1])
    assert appended(values) == [1, 3] and values == [1]
    assert appended(shared) == [1, 3] and shared == [1, 3]


def test_an_error_shows_the_lines_of_all_scripted_functions_on_the_way():
    with pytest.raises(RuntimeError) as caught:
        outer(torch.ones(3, 4))
    text = str(caught.value)
    assert text.startswith("The following operation failed in the TorchScript interpreter.\n"
                           "Traceback of TorchScript (most recent call last):\n")
    assert "    return transposed_sum(y)\n           ~~~~~~~~~~~~~~ <--- HERE\n" in text
    assert "    return x.t() + x\n           ~~~~~~~~~ <--- HERE\n" in text
    assert text.endswith("RuntimeError: The size of tensor a (3) must match the size of tensor b "
                         "(4) at non-singleton dimension 1\n")


@pytest.mark.parametrize(("case", "kind", "end"), [
    (0, torch.jit.Error, "builtins.ValueError: bad value\n"),
    (1, torch.jit.Error, "RuntimeError: AssertionError: asserted"),
    (2, RuntimeError, "RuntimeError: list index out of range\n"),
    (3, RuntimeError, "RuntimeError: KeyError: 3\n"),
    (4, RuntimeError, "RuntimeError: division by 0\n"),
])
def test_errors_of_the_program_and_of_operations_differ_in_type(case, kind, end):
    with pytest.raises(kind) as caught:
        failing(case)
    assert type(caught.value) is kind and end in str(caught.value)


@torch.jit.ignore
def asks_in_python() -> bool:
    return torch.jit.is_scripting()


@torch.jit.script
def asks() -> tuple[bool, bool]:
    return torch.jit.is_scripting(), asks_in_python()


def test_is_scripting_is_true_in_scripted_code_only():
    assert asks() == (True, False)
    assert not torch.jit.is_scripting()


def test_methods_check_their_arguments_too():
    class Twice(nn.Module):
        def forward(self, x, times: int):
            return x * times

    module = torch.jit.script(Twice())
    assert module(torch.ones(1), 2).item() == 2
    with pytest.raises(RuntimeError, match=r"forward\(\) is missing value for argument 'times'"):
        module(torch.ones(1))


def test_the_chain_of_calls_is_shown_when_compiling_fails():
    def first(x):
        return undefined_name  # noqa: F821

    def second(x):
        return first(x)

    def third(x):
        return second(x)

    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(third)
    text = str(caught.value)
    assert "'first' is being compiled since it was called from 'second'\n" in text
    assert "        return first(x)\n               ~~~~~~~ <--- HERE\n" in text
    assert "'second' is being compiled since it was called from 'third'\n" in text


def test_lists_and_dictionaries_of_scripts_hold_one_type():
    values, names = torch.jit.script([1, 2]), torch.jit.script({"a": 1})
    for change in (lambda: values.append("a"), lambda: values.extend(["a"]),
                   lambda: values.__setitem__(0, "a"), lambda: names.__setitem__(1, 1),
                   lambda: names.__setitem__("b", "c"), lambda: "a" in values):
        with pytest.raises(TypeError):
            change()
    with pytest.raises(KeyError):
        names[1]
    with pytest.raises(torch.jit.Error, match="Found int and str"):
        torch.jit.script([1, "a"])
    assert values == [1, 2] and names == {"a": 1}


def test_a_delayed_call_runs_once():
    calls = []
    delayed = torch.jit._awaitable(lambda x: calls.append(x) or x + 1, torch.ones(2))
    assert not calls
    assert delayed.shape == (2,)
    assert torch.jit._awaitable_wait(delayed).tolist() == [2, 2] and len(calls) == 1
    assert torch.jit._awaitable_wait(torch.jit._awaitable_nowait(3)) == 3


def test_isinstance_looks_into_containers():
    assert torch.jit.isinstance([1], list[int]) and not torch.jit.isinstance([1], list[str])
    assert torch.jit.isinstance({"a": [1.0]}, dict[str, list[float]])
    assert not torch.jit.isinstance((1, 2), tuple[int])
    assert torch.jit.isinstance(None, int | None)
    bare = vars(typing)["List"]
    with pytest.raises(RuntimeError, match="Attempted to use List without a contained type"):
        torch.jit.isinstance([1], bare)
    with pytest.raises(RuntimeError, match="must be a type or a tuple of types"):
        torch.jit.isinstance([1], [int])


def test_an_empty_container_is_warned_of_outside_of_scripts():
    @torch.jit.script
    def program(x: list[int]) -> bool:
        return torch.jit.isinstance(x, list[int])

    assert program([])
    with pytest.warns(UserWarning, match="The inner type of a container is lost"):
        assert torch.jit.isinstance([], list[int])


def test_names_of_parameters_that_calls_may_pass_either_way():
    assert torch._jit_internal.get_callable_argument_names(lambda x, *y, z=1: x) == ["x"]
    assert torch._jit_internal.get_callable_argument_names(3) == []
