"""State that a step writes itself, and objects that come and go in it."""

from __future__ import annotations

import collections
import sys
import types
import weakref

import pytest

import flambeau as torch
from flambeau import nn

from .scenario import compare
from .state_scenes import MOSTLY_SLOW, Scenes

SCENES = Scenes()
scene = SCENES.add_action


@scene
def a_step_counter_that_decides(log):
    box = types.SimpleNamespace(step=0)

    def action(loss):
        box.step += 1
        return loss.detach() * 2 if box.step % 3 == 0 else None

    return action


@scene
def a_print_every_third_step(log):
    box = types.SimpleNamespace(step=0)

    def action(loss):
        box.step += 1
        if box.step % 3 == 0:
            log.append(f"{box.step}: {loss.item():.2f}")

    return action


@scene
def early_stopping(log):
    box = types.SimpleNamespace(best=1e9, bad=0)

    def action(loss):
        if loss.item() < box.best:
            box.best, box.bad = loss.item(), 0
        else:
            box.bad += 1
        return box.bad

    return action


@scene
def a_moving_average(log):
    box = types.SimpleNamespace(mean=0.0)

    def action(loss):
        box.mean = 0.9 * box.mean + 0.1 * loss.item()

    return action, lambda: log.append(round(box.mean, 4))


@scene
def a_history_of_tensors(log):
    history = collections.deque(maxlen=3)

    def action(loss):
        history.append(loss.detach())
        return sum(history)

    return action


@scene
def a_list_sorted_in_place(log):
    values = [3, 1, 2]

    def action(loss):
        values.sort()
        values.append(0)
        return list(values)

    return action


@scene
def a_dict_that_is_popped(log):
    table = {n: float(n) for n in range(100)}
    return lambda loss: table.popitem()[1]


@scene
def a_set_that_grows(log):
    seen = set()

    def action(loss):
        seen.add(len(seen))
        return len(seen)

    return action


@scene
def an_attribute_deleted_in_the_step(log):
    box = types.SimpleNamespace()

    def action(loss):
        box.value = 1
        del box.value
        return hasattr(box, "value")

    return action


@scene
def a_global_written_in_the_step(log):
    space = {"count": 0}
    exec("def action(loss):\n    global count\n    count += 1\n    return count", space)
    return space["action"]


@scene
def a_class_attribute_written_in_the_step(log):
    class Box:
        count = 0

    def action(loss):
        Box.count += 1
        return Box.count

    return action


@scene
def a_function_attribute_written_in_the_step(log):
    def helper():
        helper.calls = getattr(helper, "calls", 0) + 1
        return helper.calls

    return lambda loss: helper()


@scene
def a_default_dict(log):
    counts = collections.defaultdict(int)

    def action(loss):
        counts["a"] += 1
        return counts["a"]

    return action


@scene
def a_module_built_in_the_step(log):
    def action(loss):
        torch.manual_seed(len(log))
        log.append(1)
        return nn.Linear(2, 2).weight.detach().sum()

    return action


@scene
def an_object_with_del(log):
    class Box:
        def __del__(self):
            log.append("deleted")

    def action(loss):
        Box()

    return action


@scene
def a_weak_callback(log):
    class Box:
        pass

    def action(loss):
        box = Box()
        ref = weakref.ref(box, lambda r: log.append("dead"))
        del box
        return ref() is None

    return action


@scene
def eval_of_text(log):
    box = types.SimpleNamespace(text="2.0")
    return (lambda loss: loss.detach() * eval(box.text)), lambda: setattr(box, "text", "3.0")


@scene
def locals_and_globals(log):
    space = {"scale": 2.0}
    exec("def action(loss): return loss.detach() * globals()['scale']", space)
    return space["action"], lambda: space.update(scale=3.0)


@scene
def the_frame(log):
    def action(loss):
        return sys._getframe().f_code.co_name

    return action


@scene
def an_identity(log):
    box = types.SimpleNamespace(item=object())
    first = id(box.item)
    keep = [box.item]

    def change():
        keep.append(box.item)
        box.item = object()

    return (lambda loss: 1 if id(box.item) == first else 0), change


@scene
def a_size_of_an_object(log):
    values = [1, 2]
    return (lambda loss: 1 if sys.getsizeof(values) < 90 else 0), lambda: values.extend(range(99))


@scene
def a_recursion_limit(log):
    before = sys.getrecursionlimit()

    def change():
        sys.setrecursionlimit(before + 100)
        return lambda: sys.setrecursionlimit(before)

    return (lambda loss: sys.getrecursionlimit() - before), change


@scene
def a_nested_compiled_function(log):
    box = types.SimpleNamespace(scale=2.0)
    inner = torch.compile(lambda x: x * box.scale, mode="now")
    return (lambda loss: inner(loss.detach())), lambda: setattr(box, "scale", 3.0)


@scene
def a_nested_compiled_function_with_effects(log):
    inner = torch.compile(lambda x: (log.append(1), x * 2)[1], mode="now")
    return lambda loss: inner(loss.detach())


@scene
def a_compiled_module_inside(log):
    net = nn.Sequential(nn.Linear(1, 1))
    with torch.no_grad():
        net[0].weight.fill_(2.0)
        net[0].bias.fill_(0.0)
    fast = torch.compile(net, mode="now")
    return ((lambda loss: fast(loss.detach().view(1, 1)).detach()),
            lambda: net[0].register_forward_hook(lambda m, i, y: y * 3) is None)


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_a_step_writes(name, mode, change_at):
    compare(SCENES[name], mode, change_at)
