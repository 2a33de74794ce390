"""Lists and dicts that a step hands to operators or gives back, and outputs written with `out=`."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.compiler.capture.lazy_call import Deferred

from .scenario import Scene, compare
from .state_scenes import MOSTLY_SLOW

CALLS = 5
SCENES = {}


def scene(make):
    """Registers what makes a scene."""
    SCENES[make.__name__.replace("_", " ")] = make
    return make


@scene
def an_index_that_is_a_list():
    index = [0, 2]
    return Scene(lambda x: x[index], lambda: index.append(1))


@scene
def an_index_of_two_lists():
    index = [[0, 2], [1, 1]]
    return Scene(lambda x: x[index[0], index[1]] + 1, lambda: index[1].__setitem__(0, 0))


@scene
def a_write_at_an_index_that_is_a_list():
    index = [0]

    def step(x):
        y = x * 1
        y[index] = 5
        return y

    return Scene(step, lambda: index.append(1))


@scene
def an_output_of_another_step():
    place = {"out": torch.zeros(4, 3)}

    def change():
        place["out"] = torch.zeros(3, 4).t()

    return Scene(lambda x: torch.mul(x, 2, out=place["out"]), change)


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_lists_and_outputs_from_outside(name, mode, change_at):
    compare(SCENES[name], mode, change_at)


def call_compiled(step, *arguments):
    """Calls a step until a program would run; gives the last result."""
    compiled = torch.compile(step, mode="now", backend="evaluate")
    for _ in range(CALLS):
        result = compiled(*arguments)
    return result


@pytest.mark.parametrize("operator", [
    lambda x, out: torch.mul(x, 3, out=out), lambda x, out: torch.exp(x, out=out),
    lambda x, out: torch.cumsum(x, 0, out=out),
])
def test_an_output_from_outside_is_written(operator):
    out = torch.zeros(3)
    step = torch.compile(lambda x: operator(x, out), mode="now", backend="evaluate")
    for k in range(CALLS):
        x = torch.arange(3.0) + k
        assert step(x) is out
        torch.testing.assert_close(out, operator(x, torch.zeros(3)))


def test_lists_and_dicts_from_outside_come_back_themselves():
    numbers, options, x = [1, 2], {"lr": 0.1}, torch.ones(2)
    assert call_compiled(lambda x: (numbers, x * 2), x)[0] is numbers
    assert call_compiled(lambda x: {"options": options, "y": x * 2}, x)["options"] is options
    batch = [x, 3]
    assert call_compiled(lambda batch: (batch, batch[0] * 2), batch)[0] is batch


def test_one_list_at_two_places_stays_one():
    def step(x):
        values = [x * 2]
        return {"first": values, "again": (values,)}

    result = call_compiled(step, torch.ones(2))
    assert result["first"] is result["again"][0]


def test_one_list_that_is_stored_twice_stays_one():
    state = {}

    def step(x):
        state["first"] = state["again"] = [x * 2]

    call_compiled(step, torch.ones(2))
    assert state["first"] is state["again"]


def test_a_list_that_holds_itself_comes_back():
    def step(x):
        values = [x * 2]
        values.append(values)
        return values

    result = call_compiled(step, torch.ones(2))
    assert result[1] is result
    torch.testing.assert_close(result[0], torch.full((2,), 2.0))


def test_classes_out_of_range_raise_in_compiled_calls():
    step = torch.compile(lambda t: torch.nn.functional.one_hot(t, 4), mode="now")
    for _ in range(CALLS):
        assert step(torch.tensor([[0, 3]])).tolist() == [[[1, 0, 0, 0], [0, 0, 0, 1]]]
    with pytest.raises(RuntimeError, match="Class values must be smaller"):
        step(torch.tensor([[0, 4]]))


def test_arrays_on_the_memory_of_tensors_are_read_after_writes():
    weight = torch.zeros(2)
    array = weight.numpy()

    def step(x):
        weight.add_(x)
        return x * float(array[0])

    compiled = torch.compile(step, mode="now", backend="evaluate")
    assert [compiled(torch.ones(2))[0].item() for _ in range(CALLS)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("follow", [True, False])
def test_norms_that_are_not_finite_raise_in_compiled_calls(follow):
    weight = torch.ones(2, requires_grad=True)

    @torch.compile(options={"mode": "now", "follow": follow}, backend="evaluate")
    def step(x):
        weight.grad = None
        (weight * x).sum().backward()
        return torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)

    for _ in range(CALLS):
        step(torch.ones(2))
    with pytest.raises(RuntimeError, match="total norm of order 2.0"):
        step(torch.full((2,), torch.inf))


def test_random_numbers_drawn_into_an_output_are_those_of_eager_calls():
    def draw(compiled):
        torch.manual_seed(0)
        out = torch.zeros(3)
        step = torch.compile(lambda x: torch.rand(3, out=out) * x, mode="now",
                             backend="evaluate", disable=not compiled)
        return [(step(torch.ones(3)).tolist(), out.tolist()) for _ in range(CALLS)]

    assert draw(True) == draw(False)


def test_recordings_call_no_function_of_a_tensor_class():
    calls = []

    class Counting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    weight = torch.ones(2).as_subclass(Counting)
    step = torch.compile(lambda x: x * weight, mode="now", backend="evaluate")
    for _ in range(CALLS):
        step(torch.ones(2))
    assert calls == ["mul"] * CALLS


def test_numbers_that_vary_are_not_saved_where_hooks_see_it():
    scale, weight = [1.0], torch.ones(2, requires_grad=True)

    def step(x):
        scale[0] += 1
        product = torch.utils.checkpoint.checkpoint(
            lambda y: (y * weight).square() * scale[0], x, use_reentrant=False)
        product.sum().backward()
        return weight.grad.sum()

    compiled = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    sums = [compiled(torch.ones(2)).item() for _ in range(CALLS)]
    assert sums == [8.0, 20.0, 36.0, 56.0, 80.0]


@pytest.mark.filterwarnings("error")
def test_operators_on_memory_without_values_do_not_warn():
    deferred = Deferred.__new__(Deferred)
    ratio = deferred.run_unrecorded((), np.float32(1).__truediv__, (np.float32(0),), {})
    assert ratio == np.inf
