"""Tensors and arrays that a step reaches, and what may happen to them between two calls."""

from __future__ import annotations

import types

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F

from .scenario import Scene, compare
from .state_scenes import MOSTLY_SLOW

SCENES = {}


def scene(make):
    """Registers what gives (step, change) or (step, change, arguments[, state])."""

    def build():
        return Scene(*make())

    SCENES[make.__name__.replace("_", " ")] = build
    return make


def data(*shape):
    return torch.arange(float(np.prod(shape))).reshape(shape)


# -------------------------------------------------------------------- tensors of the closure


@scene
def another_tensor():
    w = data(3)

    def change():
        nonlocal w
        w = data(3) + 1

    return lambda x: x * w, change


@scene
def another_shape():
    w = data(3)

    def change():
        nonlocal w
        w = data(1) + 2

    return lambda x: x * w, change


@scene
def a_write_in_place():
    w = data(3)
    return lambda x: x * w, lambda: w.add_(1) is None


@scene
def new_data():
    w = data(3)
    return lambda x: x * w, lambda: setattr(w, "data", data(3) + 1)


@scene
def new_data_of_another_shape():
    w = data(3)
    return lambda x: x * w, lambda: setattr(w, "data", data(4, 1) + 1)


@scene
def new_data_of_another_dtype():
    w = data(3)
    return lambda x: x * w, lambda: setattr(w, "data", (data(3) + 1).double())


@scene
def a_resize():
    w = data(3)
    return lambda x: (x.sum() * w).sum(), lambda: w.resize_(2) is None


@scene
def a_transposition_in_place():
    w = data(4, 3)
    return lambda x: x.sum() * w, lambda: w.t_() is None


@scene
def a_set():
    w = data(3)
    return lambda x: x * w, lambda: w.set_(data(3) + 5) is None


@scene
def requires_grad():
    w = data(3)
    return lambda x: x * w, lambda: w.requires_grad_() is None


@scene
def requires_grad_asked():
    w = data(3)
    return (lambda x: x * 2 if w.requires_grad else x), lambda: w.requires_grad_() is None


@scene
def an_attribute_put_on_a_tensor():
    w = data(3)
    w.scale = 2.0
    return lambda x: x * w * w.scale, lambda: setattr(w, "scale", 3.0)


@scene
def an_attribute_that_comes_to_a_tensor():
    w = data(3)
    return (lambda x: x * (3.0 if hasattr(w, "scale") else 1.0),
            lambda: setattr(w, "scale", 3.0))


@scene
def the_grad_of_a_tensor():
    w = data(3).requires_grad_()
    return (lambda x: x * 2 if w.grad is None else x * w.grad,
            lambda: setattr(w, "grad", data(3)))


@scene
def a_grad_written():
    w = data(3).requires_grad_()
    w.grad = torch.ones(3)
    return lambda x: x * w.grad, lambda: w.grad.mul_(3) is None


@scene
def a_grad_exchanged():
    w = data(3).requires_grad_()
    w.grad = torch.ones(3)
    return lambda x: x * w.grad, lambda: setattr(w, "grad", data(3))


@scene
def the_version_of_a_tensor():
    w = data(3)
    return lambda x: x * w._version, lambda: w.add_(1) is None


@scene
def the_pointer_of_a_tensor():
    w = data(3)
    first = w.data_ptr()
    return (lambda x: x * 2 if w.data_ptr() == first else x,
            lambda: setattr(w, "data", data(3) + 1))


@scene
def a_view_whose_base_is_written():
    base = data(2, 3)
    w = base[1]
    return lambda x: x * w, lambda: base.mul_(2) is None


@scene
def a_view_made_before_whose_base_moves():
    base = data(2, 3)
    w = base[1]
    return lambda x: x * w, lambda: setattr(base, "data", data(2, 3) + 7)


@scene
def a_view_made_in_the_step():
    base = data(2, 3)
    return lambda x: x * base[1], lambda: setattr(base, "data", data(2, 3) + 7)


@scene
def a_write_through_a_view_in_the_step():
    base = data(4, 3)

    def step(x):
        base[1].add_(x[0])
        return base.sum()

    return step, lambda: setattr(base, "data", data(4, 3) + 7), lambda: (torch.randn(4, 3),), [base]


@scene
def two_names_for_a_tensor():
    a = data(3)
    box = types.SimpleNamespace(a=a, b=a)

    def step(x):
        box.a.add_(1)
        return x * box.b

    return step, lambda: setattr(box, "b", data(3)), lambda: (torch.randn(4, 3),), [a]


@scene
def two_tensors_that_become_one():
    box = types.SimpleNamespace(a=data(3), b=data(3))

    def step(x):
        box.a.add_(1)
        return x * box.b

    return step, lambda: setattr(box, "b", box.a), lambda: (torch.randn(4, 3),), [box.a]


@scene
def two_tensors_that_come_to_share_memory():
    a, b = data(3), data(3)

    def step(x):
        a.add_(1)
        return x * b

    return step, lambda: setattr(b, "data", a.data), lambda: (torch.randn(4, 3),), [a]


@scene
def a_tensor_of_an_array_that_is_written():
    array = np.arange(3, dtype=np.float32)
    w = torch.from_numpy(array)
    return lambda x: x * w, lambda: array.__setitem__(0, 9)


@scene
def an_array_made_a_tensor_in_the_step():
    array = np.arange(3, dtype=np.float32)
    return lambda x: x * torch.from_numpy(array), lambda: array.__setitem__(0, 9)


@scene
def an_array_copied_to_a_tensor_in_the_step():
    array = np.arange(3, dtype=np.float32)
    return lambda x: x * torch.tensor(array), lambda: array.__setitem__(0, 9)


@scene
def a_large_array_copied_in_the_step():
    array = np.ones((500, 3), dtype=np.float32)
    return lambda x: x * torch.as_tensor(array)[499], lambda: array.__setitem__((499, 0), 9)


@scene
def a_list_made_a_tensor_in_the_step():
    values = [1.0, 2.0, 3.0]
    return lambda x: x * torch.tensor(values), lambda: values.__setitem__(0, 9.0)


@scene
def a_nested_list_made_a_tensor():
    values = [[1.0, 2.0, 3.0]]
    return lambda x: x * torch.tensor(values), lambda: values[0].__setitem__(0, 9.0)


@scene
def an_array_of_another_shape():
    array = np.arange(6, dtype=np.float32)
    return (lambda x: x * float(array[1].sum()),
            lambda: setattr(array, "shape", (2, 3)))


@scene
def an_array_of_objects():
    inner = [1.0]
    array = np.array([inner, None], dtype=object)
    return lambda x: x * array[0][0], lambda: inner.__setitem__(0, 5.0)


@scene
def a_record():
    record = np.zeros(1, dtype=[("a", "f4")])[0]
    record["a"] = 2
    return lambda x: x * float(record["a"]), lambda: record.__setitem__("a", 5)


@scene
def a_scalar_array():
    array = np.array(2.0)
    return lambda x: x * float(array), lambda: array.fill(5.0)


@scene
def an_element_of_an_array():
    array = np.array([2.0, 3.0])
    return lambda x: x * float(array[1]), lambda: array.__setitem__(1, 5.0)


@scene
def the_mean_of_an_array():
    array = np.array([2.0, 3.0])
    return lambda x: x * float(array.mean()), lambda: array.__setitem__(1, 5.0)


@scene
def a_view_of_an_array():
    array = np.array([2.0, 3.0, 4.0])
    part = array[1:]
    return lambda x: x * float(part[0]), lambda: array.__setitem__(1, 5.0)


@scene
def a_bytearray():
    values = bytearray(b"\x02")
    return lambda x: x * values[0], lambda: values.__setitem__(0, 5)


@scene
def a_memoryview():
    values = bytearray(b"\x02")
    view = memoryview(values)
    return lambda x: x * view[0], lambda: values.__setitem__(0, 5)


@scene
def an_array_of_the_array_module():
    import array

    values = array.array("d", [2.0])
    return lambda x: x * values[0], lambda: values.__setitem__(0, 5.0)


@scene
def a_tensor_that_moves_to_meta():
    box = types.SimpleNamespace(w=data(3))
    return (lambda x: (x.to(box.w.device) * box.w).shape[0] * x.sum(),
            lambda: setattr(box, "w", torch.ones(2, 3, device="meta")))


# -------------------------------------------------------------------------------- arguments


def alternating(*makers):
    """Arguments that come in turn."""
    calls = [0]

    def arguments():
        calls[0] += 1
        return makers[calls[0] // 4 % len(makers)]()

    return arguments


def nothing():
    pass


@scene
def arguments_that_are_one():
    def step(x, y):
        x.add_(1)
        return y * 2

    def same():
        x = torch.randn(3)
        return x, x

    return step, nothing, alternating(lambda: (torch.randn(3), torch.randn(3)), same)


@scene
def arguments_that_overlap():
    def step(x, y):
        x.add_(1)
        return y * 2

    def overlapping():
        x = torch.randn(4)
        return x[:3], x[1:]

    return step, nothing, alternating(lambda: (torch.randn(3), torch.randn(3)), overlapping)


@scene
def arguments_of_other_strides():
    return (lambda x: x * 2, nothing,
            alternating(lambda: (torch.randn(4, 3),), lambda: (torch.randn(3, 4).t(),)))


@scene
def arguments_that_are_expanded():
    return (lambda x: x * 2, nothing,
            alternating(lambda: (torch.randn(4, 3),), lambda: (torch.randn(1, 3).expand(4, 3),)))


@scene
def arguments_of_other_dtypes():
    return (lambda x: x * 2, nothing,
            alternating(lambda: (torch.randn(4),), lambda: (torch.randn(4).double(),),
                        lambda: (torch.arange(4),)))


@scene
def arguments_that_are_empty():
    return (lambda x: (x * 2, x.sum()), nothing,
            alternating(lambda: (torch.randn(4, 3),), lambda: (torch.randn(0, 3),)))


@scene
def arguments_that_require_grad():
    return (lambda x: x * 2, nothing,
            alternating(lambda: (torch.randn(4),),
                        lambda: (torch.randn(4, requires_grad=True),),
                        lambda: (torch.randn(4, requires_grad=True) * 2,)))


@scene
def numbers_as_arguments():
    values = iter([1, 1.0, True, 2, -0.0, 0.0, None] * 10)

    def step(x, k):
        return x if k is None else x / k if k else x * k

    return step, nothing, lambda: (torch.ones(3), next(values))


@scene
def keys_in_another_order():
    def step(batch):
        return torch.cat(list(batch.values()))

    return (step, nothing, alternating(
        lambda: ({"a": torch.zeros(2), "b": torch.ones(2)},),
        lambda: ({"b": torch.ones(2), "a": torch.zeros(2)},)))


@scene
def a_subclass_of_dict_as_argument():
    import collections

    def step(batch):
        return batch["a"] * (2 if type(batch) is dict else 3)

    return (step, nothing, alternating(
        lambda: ({"a": torch.ones(2)},), lambda: (collections.OrderedDict(a=torch.ones(2)),),
        lambda: (collections.defaultdict(int, a=torch.ones(2)),)))


@scene
def an_object_as_argument():
    class Batch:
        def __init__(self, scale):
            self.x, self.scale = torch.ones(2), scale

    batch = Batch(2.0)
    return (lambda b: b.x * b.scale, lambda: setattr(batch, "scale", 3.0), lambda: (batch,))


@scene
def objects_as_arguments():
    class Batch:
        def __init__(self, scale):
            self.x, self.scale = torch.ones(2), scale

    numbers = iter(range(100))
    return lambda b: b.x * b.scale, nothing, lambda: (Batch(float(next(numbers) // 4)),)


@scene
def an_array_as_argument():
    numbers = iter(range(100))
    return (lambda a: torch.ones(2) * float(a[0]), nothing,
            lambda: (np.full(2, float(next(numbers))),))


@scene
def an_array_as_argument_made_a_tensor():
    numbers = iter(range(100))
    return (lambda a: torch.as_tensor(a) * 2, nothing,
            lambda: (np.full(2, float(next(numbers))),))


@scene
def strings_as_arguments():
    kinds = iter(["a", "a", "a", "b"] * 10)
    return (lambda x, k: x * 2 if k == "a" else x, nothing,
            lambda: (torch.ones(2), next(kinds)))


@scene
def a_parameter_as_argument():
    class Own(torch.Tensor):
        pass

    return (lambda x: x * 2, nothing, alternating(
        lambda: (torch.ones(2),), lambda: (torch.nn.Parameter(torch.ones(2)),),
        lambda: (torch.ones(2).as_subclass(Own),)))


def in_inference_mode(make):
    """Returns a function that makes its arguments in inference mode."""
    def arguments():
        with torch.inference_mode():
            return make()

    return arguments


@scene
def an_inference_tensor_that_backward_needs():
    weight = torch.ones(2, requires_grad=True)
    return lambda x: (weight * x).sum().detach(), nothing, alternating(
        lambda: (torch.ones(2),), in_inference_mode(lambda: (torch.ones(2),)))


@scene
def an_inference_tensor_written():
    return lambda x: x.add_(1), nothing, alternating(
        lambda: (torch.ones(2),), in_inference_mode(lambda: (torch.ones(2),)))


@scene
def an_argument_asked_whether_it_is_an_inference_tensor():
    return lambda x: x * (2 if x.is_inference() else 3), nothing, alternating(
        lambda: (torch.ones(2),), in_inference_mode(lambda: (torch.ones(2),)),
        in_inference_mode(lambda: (torch.ones(2, 2)[0],)), lambda: (torch.ones(2, 2)[0],))


@scene
def an_argument_with_an_attribute():
    def with_scale():
        x = torch.ones(2)
        x.scale = 3.0
        return (x,)

    return (lambda x: x * getattr(x, "scale", 1.0), nothing,
            alternating(lambda: (torch.ones(2),), with_scale))


@scene
def an_argument_with_a_hook():
    log = []

    def hooked():
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda g: log.append(1))
        return (x,)

    def step(x):
        (x * 2).sum().backward()
        return x.grad, len(log)

    return step, nothing, alternating(
        lambda: (torch.ones(2, requires_grad=True),), hooked)


@scene
def an_argument_with_a_grad():
    def with_grad():
        x = torch.ones(2, requires_grad=True)
        x.grad = torch.ones(2)
        return (x,)

    def step(x):
        (x * 2).sum().backward()
        return x.grad

    return step, nothing, alternating(
        lambda: (torch.ones(2, requires_grad=True),), with_grad)


@scene
def an_argument_returned():
    return lambda x: (x, x * 2), nothing


@scene
def an_argument_kept_and_written_later():
    box = []

    def step(x):
        box.append(x.view(-1))
        return box[-1] * 2

    return step, nothing


@scene
def a_random_draw_and_a_seed():
    return lambda x: F.dropout(x, 0.5), lambda: torch.manual_seed(7) is None


@scene
def a_generator_of_the_users():
    generator = torch.Generator().manual_seed(3)
    return (lambda x: x + torch.randn(3, generator=generator),
            lambda: generator.manual_seed(7) is None)


@scene
def a_generator_exchanged():
    box = types.SimpleNamespace(g=torch.Generator().manual_seed(3))
    return (lambda x: x + torch.randn(3, generator=box.g),
            lambda: setattr(box, "g", torch.Generator().manual_seed(9)))


@scene
def the_state_of_the_generator():
    return (lambda x: x + torch.rand(3),
            lambda: torch.set_rng_state(torch.get_rng_state()))


@pytest.mark.parametrize("follow", [True, False])
def test_guards_ask_a_subclass_nothing(follow):
    log = []

    class Counting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, kinds, args=(), kwargs=None):
            log.append(function.__name__)
            return super().__torch_function__(function, kinds, args, kwargs or {})

    @torch.compile(options={"mode": "now", "follow": follow})
    def step(x):
        return x * 2 + 1

    for call in range(9):
        log.clear()
        step(torch.ones(2).as_subclass(Counting) if call % 3 == 2 else torch.ones(2))
        assert log == (["mul", "add"] if call % 3 == 2 else [])


@pytest.mark.parametrize("follow", [True, False])
def test_a_table_that_an_embedding_renormalizes_gets_its_gradient(follow):
    table = torch.nn.Parameter(torch.ones(3, 3))

    def step(x):
        table.grad = None
        loss = F.embedding(x, table, max_norm=1.0).square().sum()
        loss.backward()
        return loss

    step = torch.compile(step, options={"mode": "now", "follow": follow})
    for call in range(4):
        index = call % 3
        step(torch.tensor([index, index]))
        expected = torch.zeros(3, 3)
        expected[index] = 4 / 3**0.5
        torch.testing.assert_close(table.grad, expected)
    assert "Python is skipped" in step.explain()


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_tensors_a_step_reaches(name, mode, change_at):
    compare(SCENES[name], mode, change_at)


@pytest.mark.parametrize("makes_view", [
    lambda w: w.view(-1), lambda w: w[1:], lambda w: w.detach(), lambda w: w.t()])
def test_a_view_of_an_outside_tensor_does_not_follow_an_argument_that_shared_its_memory(
    makes_view,
):
    w = torch.randn(3, 3)
    fast = torch.compile(lambda x, y: (makes_view(w), y + 1), mode="now")
    for call in range(8):
        x = w.view(w.shape) if call < 4 else torch.zeros(3, 3)
        view, _ = fast(x, torch.randn(2))
        assert view.data_ptr() == makes_view(w).data_ptr()
        assert view._base is makes_view(w)._base
