"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

from collections import OrderedDict

import pytest


@pytest.fixture
def layers(nn):
    """Makes layers that differ in how they print and add a number."""

    class Add(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, x):
            return x + self.n

        def extra_repr(self):
            return str(self.n)

    return lambda *numbers: [Add(n) for n in numbers]


def numbers(container):
    return [layer.n for layer in container]


# ---------------------------------------------------------------- Sequential


def test_sequential_calls_in_order(nn, layers):
    assert nn.Sequential(*layers(1, 10))(0) == 11
    assert nn.Sequential()(5) == 5


def test_sequential_by_name(nn, layers):
    a, b = layers(1, 2)
    model = nn.Sequential(OrderedDict([("a", a), ("b", b)]))
    assert model.a is model[0] is a
    assert [name for name, _ in model.named_children()] == ["a", "b"]
    assert [name for name, _ in model[1:].named_children()] == ["b"]


def test_sequential_of_functions_is_refused(nn):
    with pytest.raises(TypeError, match="len is not a Module subclass"):
        nn.Sequential(len)


def test_sequential_indexing(nn, layers):
    model = nn.Sequential(*layers(1, 2, 3, 4))
    assert model[-1].n == 4
    assert numbers(model[1:3]) == [2, 3]
    assert type(model[1:3]) is nn.Sequential
    model[1] = layers(7)[0]
    assert numbers(model) == [1, 7, 3, 4]
    del model[0]
    assert numbers(model) == [7, 3, 4]
    assert list(model._modules) == ["0", "1", "2"]
    del model[1:]
    assert numbers(model) == [7]
    with pytest.raises(IndexError, match="index 1 is out of range"):
        model[1]


def test_sequential_as_a_list(nn, layers):
    model = nn.Sequential(*layers(1, 2))
    assert model.append(layers(3)[0]) is model
    assert model.extend(layers(4, 5)) is model
    assert model.insert(0, layers(0)[0]) is model
    assert numbers(model) == [0, 1, 2, 3, 4, 5]
    assert model.insert(-1, layers(9)[0])[-2].n == 9
    assert model.pop(-2).n == 9
    assert model.pop(0).n == 0
    assert len(model) == 5
    with pytest.raises(IndexError, match="Index out of range: 8"):
        model.insert(8, layers(1)[0])
    with pytest.raises(AssertionError, match="module should be of type"):
        model.insert(0, len)


def test_sequential_arithmetic(nn, layers):
    first, second = nn.Sequential(*layers(1)), nn.Sequential(*layers(2, 3))
    assert numbers(first + second) == [1, 2, 3]
    assert numbers(second * 2) == numbers(2 * second) == [2, 3, 2, 3]
    second *= 2
    first += second
    assert numbers(first) == [1, 2, 3, 2, 3]
    assert first[1] is first[3]
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        first + {1}
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*"):
        first * "2"
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        first * 0


# ---------------------------------------------------------------- ModuleList, ModuleDict


def test_module_list(nn, layers):
    container = nn.ModuleList(layers(1, 2))
    container += layers(3)
    container.append(layers(4)[0])
    container.insert(1, layers(9)[0])
    assert numbers(container) == [1, 9, 2, 3, 4]
    assert numbers(container[::2]) == [1, 2, 4]
    assert container.pop(1).n == 9
    assert numbers(container + layers(5)) == [1, 2, 3, 4, 5]
    del container[-1]
    container[0] = layers(8)[0]
    assert numbers(container) == [8, 2, 3]
    assert list(container._modules) == ["0", "1", "2"]
    del container[:2]
    assert numbers(container) == [3]
    with pytest.raises(IndexError, match="index 1 is out of range"):
        container[1]
    with pytest.raises(TypeError, match=r"ModuleList.extend should be called with an iterable"):
        container.extend(3)
    with pytest.raises(NotImplementedError, match=r"Module \[ModuleList\] is missing"):
        container(1)


def test_module_list_prints_runs_once(nn, layers):
    assert repr(nn.ModuleList()) == "ModuleList()"
    inner = (nn.Sequential(*layers(3)) for _ in range(2))
    container = nn.ModuleList([*layers(1, 1, 1, 2), *inner])
    assert repr(container) == (
        "ModuleList(\n"
        "  (0-2): 3 x Add(1)\n"
        "  (3): Add(2)\n"
        "  (4-5): 2 x Sequential(\n"
        "    (0): Add(3)\n"
        "  )\n"
        ")"
    )


def test_module_dict(nn, layers):
    a, b, c = layers(1, 2, 3)
    container = nn.ModuleDict({"a": a})
    container["b"] = b
    container.update([["c", c]])
    assert list(container) == list(container.keys()) == ["a", "b", "c"]
    assert "b" in container
    assert container.pop("b") is b
    assert dict(container.items()) == {"a": a, "c": c}
    del container["a"]
    assert list(container.values()) == [c]
    assert repr(container) == "ModuleDict(\n  (c): Add(3)\n)"
    container.clear()
    assert len(container) == 0
    with pytest.raises(KeyError):
        container["a"]
    with pytest.raises(TypeError, match="should be called with an iterable of key/value pairs"):
        container.update(3)
    with pytest.raises(ValueError, match="#0 has length 1; 2 is required"):
        container.update([["c"]])
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        container["keys"] = a


# ---------------------------------------------------------------- ParameterList, ParameterDict


def test_parameter_list(torch, nn):
    container = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(3)), "text"])
    assert type(container[0]) is nn.Parameter
    assert [name for name, _ in container.named_parameters()] == ["0", "1"]
    container.append(torch.ones(1))
    container += [torch.ones(4)]
    container[2] = torch.ones(5)
    assert [len(p) for p in container] == [2, 3, 5, 1, 4]
    assert [len(p) for p in container[1:3]] == [3, 5]
    assert container[-1] is container[4]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        container[5]
    with pytest.raises(TypeError, match=r"ParameterList.extend should be called with an iterable"):
        container.extend(torch.ones(1))
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        container(1)


def test_parameter_list_prints(torch, nn):
    container = nn.ParameterList([torch.ones(2, 3, dtype=torch.float64), 5])
    assert repr(container) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [torch.float64 of size 2x3]\n"
        "    (1): Object of type: int\n"
        ")"
    )


def test_parameter_dict(torch, nn):
    container = nn.ParameterDict({"b": torch.ones(2), "a": torch.zeros(1)})
    assert list(container) == ["a", "b"]
    assert type(container["b"]) is nn.Parameter
    container["c"] = 5
    assert container.get("d") is None
    assert container.setdefault("d", torch.ones(4)).shape == (4,)
    assert list(reversed(container)) == ["d", "c", "b", "a"]
    assert container.popitem()[0] == "d"
    assert container.pop("c") == 5
    other = container | {"e": torch.ones(1)}
    assert list(other.keys()) == ["a", "b", "e"]
    assert other["a"] is container["a"]
    container |= nn.ParameterDict({"z": torch.ones(1)})
    assert "z" in container
    del container["z"]
    assert list(container.copy().fromkeys(["x"], 3).items()) == [("x", 3)]
    assert [v.shape for v in container.values()] == [(1,), (2,)]
    container.clear()
    assert len(container) == 0
    assert not list(container.parameters())
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        container[3]
    with pytest.raises(RuntimeError, match="ParameterDict should not be called"):
        container(1)


def test_parameter_dict_prints(torch, nn):
    container = nn.ParameterDict({"w": torch.ones(2, 3), "n": 5})
    assert repr(container) == (
        "ParameterDict(\n"
        "    (n): Object of type: int\n"
        "    (w): Parameter containing: [torch.FloatTensor of size 2x3]\n"
        ")"
    )


# ---------------------------------------------------------------- DataParallel


def test_data_parallel_without_gpus_calls_its_module(nn, layers):
    if not nn.__name__.startswith("flambeau"):
        cuda = pytest.importorskip("torch").cuda
        if cuda.is_available():
            pytest.skip("PyTorch would use the GPU")
    model = nn.DataParallel(nn.Sequential(*layers(1), nn.Linear(2, 1)))
    assert list(model.state_dict()) == ["module.1.weight", "module.1.bias"]
    assert nn.DataParallel(layers(3)[0])(4) == 7
