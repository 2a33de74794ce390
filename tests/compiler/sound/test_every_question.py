"""Steps that ask for one thing each: all attributes and plain methods of the library's objects.

The names come from `dir`. Between calls the object changes in ways that alter the answer, and a
proved step has to go by the new answer.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

PLAIN = (bool, int, float, complex, str, type(None), tuple, torch.dtype, torch.device, torch.Size,
         torch.layout)
# What two eager runs answer differently, and what waits for or changes other processes.
UNSTABLE = frozenset((
    "data_ptr", "__hash__", "__sizeof__", "__repr__", "__str__", "__dir__", "seed", "initial_seed",
    "__reduce__", "share_memory", "share_memory_", "is_shared", "__getstate__", "__dict__",
    "pin_memory", "is_pinned", "const_data_ptr", "__weakref__", "__doc__", "compile", "__init__",
))
KINDS = ("argument", "tensor", "parameter", "module", "optimizer", "generator", "size", "dtype")


def world() -> types.SimpleNamespace:
    """Objects of each kind; `changes` alter the answers, one before each call."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    tensor, data = torch.randn(3, 3), torch.randn(12, 3)
    parameter, generator = nn.Parameter(torch.randn(3, 3)), torch.Generator().manual_seed(1)
    arguments = [torch.randn(3, 3) for _ in range(3)] + [
        data[3:6], tensor, tensor.view(3, 3), torch.randn(3, 3).add_(1), torch.randn(3, 3).t(),
        torch.randn(3, 3).requires_grad_(), torch.randn(3, 3, dtype=torch.float64),
        torch.randn(2, 3), tensor[:], nn.Parameter(torch.randn(3, 3))]
    graph = torch.randn(3, 3).requires_grad_() * 1
    arguments += [graph, graph.detach()]

    changes = _changes(tensor, parameter, net, optimizer, generator, data)
    return types.SimpleNamespace(
        names={"torch": torch, "w": tensor, "p": parameter, "net": net, "optimizer": optimizer,
               "generator": generator},
        arguments=arguments, changes=changes)


def _changes(
    tensor: Any, parameter: Any, net: Any, optimizer: Any, generator: Any, data: Any
) -> dict[str, list[Callable[[], Any]]]:
    def nothing() -> None:
        pass

    return {
        "tensor": [
            lambda: tensor.add_(1), lambda: tensor.requires_grad_(),
            lambda: setattr(tensor, "grad", torch.ones(3, 3)),
            lambda: tensor.register_hook(nothing), lambda: setattr(tensor, "grad", None),
            lambda: tensor.requires_grad_(False), lambda: setattr(tensor, "data", data[6:9]),
            lambda: setattr(tensor, "data", torch.randn(3, 3, dtype=torch.float64)),
            lambda: setattr(tensor, "data", torch.randn(2, 3)), lambda: tensor.t_()],
        "parameter": [
            lambda: parameter.data.add_(1), lambda: parameter.requires_grad_(False),
            lambda: parameter.requires_grad_(),
            lambda: setattr(parameter, "grad", torch.ones(3, 3)),
            lambda: setattr(parameter, "data", data[:3]),
            lambda: setattr(parameter, "data", torch.randn(3, 3).t()),
            lambda: setattr(parameter, "data", torch.randn(4, 3))],
        "module": [
            lambda: net.eval(), lambda: net.append(nn.ReLU()), lambda: net.requires_grad_(False),
            lambda: net.train(), lambda: net.register_forward_hook(lambda *_: None),
            lambda: net.register_buffer("extra", torch.ones(2)), lambda: net.double(),
            lambda: setattr(net, "note", 1), lambda: net.pop(0)],
        "optimizer": [
            lambda: optimizer.param_groups[0].update(lr=0.5),
            lambda: optimizer.add_param_group({"params": [parameter]}),
            lambda: optimizer.zero_grad(), lambda: optimizer.defaults.update(lr=2.0),
            lambda: optimizer.register_step_post_hook(nothing),
            lambda: optimizer.param_groups.pop()],
        "generator": [lambda: generator.manual_seed(5), lambda: torch.randn(2, generator=generator),
                      lambda: generator.manual_seed(6)],
    }


OBJECTS = {"argument": "x", "tensor": "w", "parameter": "p", "module": "net",
           "optimizer": "optimizer", "generator": "generator", "size": "x.shape",
           "dtype": "x.dtype"}


def questions(kind: str) -> Iterator[str]:
    """Expressions that answer without an error and change nothing."""
    start = world()
    names = {**start.names, "x": start.arguments[0]}
    target = eval(OBJECTS[kind], names)
    for name in dir(target):
        if name in UNSTABLE or name.endswith("_") and not name.startswith("__"):
            continue
        for question in (f"{OBJECTS[kind]}.{name}", f"{OBJECTS[kind]}.{name}()"):
            try:
                answer = eval(question, names)
            except Exception:
                continue
            if not callable(answer):
                yield question
                break


def run(kind: str, question: str, form: str, options: dict | None) -> list[Any]:
    """What a step gives that goes by the answer to a question, call by call."""
    objects = world()
    names = {**objects.names, "log": [], "x": objects.arguments[0]}
    names["first"] = eval(question, names)
    if form == "compared" and not isinstance(names["first"], PLAIN):
        form = "none"
    test = {"compared": f"{question} == first", "none": f"{question} is None"}[form]
    exec(f"def step(x):\n    return (x * 2 if {test} else -x)", names)
    step = names["step"]
    if options is not None:
        step = torch.compile(step, options={"mode": "now", **options}, backend="evaluate")
    changes = objects.changes.get(kind, [])
    arguments = objects.arguments if not changes else objects.arguments[:1] * (len(changes) + 5)
    seen = []
    for call, x in enumerate(arguments):
        if 3 <= call < 3 + len(changes):
            _attempt(changes[call - 3])
        seen.append(_attempt(step, x))
    return seen


def _attempt(function: Callable, *args: Any) -> Any:
    try:
        result = function(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return result.tolist() if isinstance(result, torch.Tensor) else None


def list_differences(kind: str, options: dict, every: int = 1) -> Iterator[str]:
    """Questions, or every n-th, to which a compiled step has another answer than an eager one."""
    for question in [*questions(kind)][::every]:
        for form in ("compared", "none"):
            if run(kind, question, form, None) == run(kind, question, form, options):
                continue
            if run(kind, question, form, None) == run(kind, question, form, None):
                yield f"{question}, {form}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_some_questions(kind):
    every = len([*questions(kind)]) // 2 + 1  # two of each kind
    assert [*list_differences(kind, {"follow": False}, every)] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_every_question(kind):
    assert [*list_differences(kind, {"follow": False})] == []
