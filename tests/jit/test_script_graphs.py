"""The graphs of scripted functions and modules: nodes, types and text as PyTorch has them."""

# ruff: noqa: UP006, UP007, UP035, UP045 - TorchScript reads these

from enum import Enum
from typing import Dict, List, Optional, Tuple, Union

import pytest


class Color(Enum):
    RED = 1
    GREEN = 2


def list_kinds(sequence):
    """The kinds of nodes, blocks as nested lists; constants are pooled in any order."""
    result = []
    for node in sequence.nodes():
        if node.kind() != "prim::Constant":
            result += [node.kind(), *([list_kinds(block) for block in node.blocks()])]
    return result


def branches(x, y: Optional[int]):
    if y is not None:
        z = x + y
    else:
        z = x * 2
    return torch.relu(z) if z.dim() > 1 else -z  # noqa: F821


def loops(values: List[int], limit: int):
    total = 0
    for value in values:
        total += value
    for i in range(3):
        total = total + i * 2
    while total > limit:
        total -= 1
    return [total, len(values)]


def containers(d: Dict[str, Tuple[int, float]], c: Color):
    a, b = d["a"]
    print(c.name)
    assert a == 1, "bad"
    return (a, b), c == Color.RED, {"x": a}


def early(x: int):
    if x > 3:
        return "large"
    return "small"


@pytest.mark.parametrize("function", [branches, loops, containers, early])
def test_functions(torch, function):
    function.__globals__["torch"] = torch
    if torch.__name__ == "torch":
        pytest.skip("what PyTorch has is written down below")
    graph = torch.jit.script(function).graph
    assert list_kinds(graph) == KINDS[function.__name__]
    returned = str(graph).splitlines()[-1]
    assert returned == f"  return (%{next(graph.outputs()).debugName()})"


# Of PyTorch 2.13, without the casts of refined types (unchecked_cast).
KINDS = {
    "branches": ["aten::__isnot__", "prim::If", ["aten::add"], ["aten::mul"], "aten::dim",
                 "aten::gt", "prim::If", ["aten::relu"], ["aten::neg"]],
    "loops": ["aten::len", "prim::Loop", ["aten::__getitem__", "aten::add"], "prim::Loop",
              ["aten::mul", "aten::add"], "aten::gt", "prim::Loop", ["aten::sub", "aten::gt"],
              "aten::len", "prim::ListConstruct"],
    "containers": ["aten::__getitem__", "prim::TupleUnpack", "prim::EnumName", "prim::Print",
                   "aten::eq", "prim::If", [], ["prim::RaiseException"], "prim::TupleConstruct",
                   "aten::eq", "prim::DictConstruct", "prim::TupleConstruct"],
    "early": ["aten::gt", "prim::If", [], []],
}


def test_types_of_inputs(torch):
    def program(x: Union[str, int, float], y: Optional[int], z: List[str],
                d: Dict[str, torch.Tensor], t: Tuple[int, torch.Tensor], c: Color):
        return 1

    graph = torch.jit.script(program).graph
    shown = [str(value.type()) for value in graph.inputs()]
    assert shown[:5] == ["Union[float, int, str]", "Optional[int]", "List[str]",
                         "Dict[str, Tensor]", "Tuple[int, Tensor]"]
    torch.testing.FileCheck().check("%x : Union(float, int, str),").check("%y : int?,").check(
        "%z : str[],").check("%d : Dict(str, Tensor),").check("%t : (int, Tensor),").check(
        "%c : Enum<__torch__.").run(str(graph))
    assert [value.type().kind() for value in graph.inputs()] == [
        "UnionType", "OptionalType", "ListType", "DictType", "TupleType", "EnumType"]
    assert next(graph.inputs()).debugName() == "x"


def test_modules_call_methods_or_inline_them(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x).relu()

    scripted = torch.jit.script(Net())
    graph, inlined = scripted.graph, scripted.inlined_graph
    assert list_kinds(graph) == ["prim::GetAttr", "prim::CallMethod", "aten::relu"]
    assert list_kinds(inlined) == ["prim::GetAttr"] * 3 + ["aten::linear", "aten::relu"]
    assert graph.findNode("prim::CallMethod").s("name") == "forward"
    assert len(inlined.findAllNodes("prim::GetAttr")) == 3
    torch.testing.FileCheck().check("graph(%self").check("%x.1 : Tensor").check(
        'prim::GetAttr[name="linear"](%self)').check("return (").run(str(graph))


def test_types_in_tests_of_types(torch):
    import io

    def program(x: Union[int, List[str], float]) -> str:
        if isinstance(x, (int, float)):
            return "number"
        return "texts" if torch.jit.isinstance(x, List[str]) else "else"

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(program), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    assert (loaded(1), loaded(1.5), loaded(["a"])) == ("number", "number", "texts")
