"""TorchFunctionMode: functions of torch go through the modes that are on."""

from __future__ import annotations

import flambeau as torch
from flambeau.overrides import BaseTorchFunctionMode, TorchFunctionMode


class Log(TorchFunctionMode):
    def __init__(self, name="", seen=None):
        self.name, self.seen = name, [] if seen is None else seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(self.name + func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_what_the_program_calls_and_not_what_torch_calls():
    x, y = torch.ones(2, 3), torch.tensor([0, 1])
    with Log() as log:
        loss = torch.nn.functional.cross_entropy(x, y)
        z = x.exp()
        torch.nn.init.zeros_(z)
    assert log.seen == ["cross_entropy", "exp", "zeros_"]
    before = list(log.seen)
    x.relu()
    assert log.seen == before
    assert loss.item() > 1


def test_operators_of_python_and_layers():
    layer = torch.nn.Linear(2, 2)
    with Log() as log:
        layer(torch.ones(1, 2)) + 1
        torch.ones(3)[0]
    assert "linear" in log.seen
    assert len(log.seen) == 5


def test_modes_are_asked_from_the_last_one_on():
    seen = []
    with Log("a.", seen), Log("b.", seen), BaseTorchFunctionMode():
        torch.ones(2)
    assert seen == ["b.ones", "a.ones"]


def test_a_mode_may_answer_itself():
    class Empty(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func.__module__.endswith("nn.init"):
                return kwargs["tensor"] if "tensor" in (kwargs or {}) else args[0]
            return func(*args, **(kwargs or {}))

    torch.manual_seed(3)
    with Empty():
        torch.nn.init.normal_(torch.empty(5))
    first = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(1))


def test_gradients_inside_a_mode():
    x = torch.ones(3, requires_grad=True)
    with Log() as log:
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert log.seen[:2] == ["mul", "sum"]
    assert len(log.seen) == 3


def test_operators_that_were_never_called_before():
    with Log() as log:
        first = torch.special.i1e(torch.ones(1))
        second = torch.special.i1e(torch.ones(1))
    assert log.seen == ["ones", "special_i1e" if "special_i1e" in log.seen else "i1e"] * 2
    assert torch.equal(first, second)
    assert torch.equal(torch.special.i1e(torch.ones(1)), first)
