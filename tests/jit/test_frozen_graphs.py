"""Frozen modules run their graphs: which attributes stay, what is folded, what passes change."""

import copy
import io

import pytest


def list_kinds(graph):
    return [node.kind() for node in graph.nodes() if node.kind() != "prim::Constant"]


def freeze(torch, module, preserved=()):
    return torch._C._freeze_module(torch.jit.script(module.eval())._c, list(preserved))


def test_assigned_attributes_stay(torch):
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = 12, 2

        def forward(self, x):
            self.b = 30
            return x + self.a + self.b

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.plain, self.a = Inner(), torch.nn.ReLU(), 3

        def forward(self, x):
            return self.plain(self.inner(x)) + self.a

    frozen = freeze(torch, Outer())
    assert [frozen.hasattr(name) for name in ("inner", "plain", "a")] == [True, False, False]
    assert frozen.inner.hasattr("b") and not frozen.inner.hasattr("a")
    assert frozen.forward(torch.ones(1)).item() == 46
    assert "prim::SetAttr" in list_kinds(frozen.forward.graph)


class _Written:
    def __init__(self, torch):
        class Base(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.tensor([1., 2., 3., 4.])
                self.b, self.c = self.a.view(2, 2), torch.ones(4)
                self.items = [1, 2]

        class InPlace(Base):
            def forward(self, x):
                self.a += x
                return self.a + self.c

        class ThroughAView(Base):
            def forward(self, x):
                y = self.a.view(2, 2)
                y[0] += x
                return self.a + self.c

        class ThroughASecondAttribute(Base):
            def forward(self, x):
                self.b[1] += x
                return self.a + self.c

        class InATuple(Base):
            def forward(self, x):
                pair = (self.a, x)
                pair[0].add_(x)
                return self.a + self.c

        class InALoop(Base):
            def forward(self, x):
                y = self.c
                for _ in range(2):
                    y = self.a
                y.mul_(2)
                return self.a * x

        self.programs = [InPlace, ThroughAView, ThroughASecondAttribute, InATuple, InALoop]


@pytest.mark.parametrize("position", range(5))
def test_tensors_that_are_written_to_stay(torch, position):
    module = _Written(torch).programs[position]().eval()
    frozen = torch.jit.freeze(torch.jit.script(copy.deepcopy(module)))
    assert frozen._c.hasattr("a")
    assert position == 4 or not frozen._c.hasattr("c")
    x = torch.ones(1)
    for _ in range(2):
        assert torch.equal(frozen(x), module(x))


def test_lists_that_grow_stay(torch):
    class Growing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = [1, 2], [3]

        def forward(self, x):
            v = self.a
            pair = (v, self.b)
            pair[0].append(7)
            return str(self.a) + str(self.b)

    frozen = freeze(torch, Growing())
    assert frozen.hasattr("a")
    assert [frozen.forward(torch.ones(1)) for _ in range(2)] == ["[1, 2, 7][3]", "[1, 2, 7, 7][3]"]


def test_refusals(torch):
    class ReturnsItself(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.ones(1)

        def forward(self, x):
            return self

    class Overlapping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.tensor([1, 2, 3, 4, 5, 6])
            self.b = [self.a, torch.tensor([10])]

        def forward(self, x):
            self.b[0][0] += 10
            return self.a.sum()

    with pytest.raises(RuntimeError, match="attempted to freeze a module that return itself"):
        freeze(torch, ReturnsItself())
    with pytest.raises(RuntimeError, match="module contains attributes values that overlaps"):
        freeze(torch, Overlapping())


@pytest.mark.parametrize("way", ["script", "trace"])
def test_arithmetic_is_folded_into_convolutions(torch, way):
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
            self.factor, self.shift = torch.rand(1, 4, 1, 1), torch.tensor(2)

        def forward(self, x):
            return self.norm(torch.add(torch.mul(self.conv(x), self.factor), self.shift))

    module, x = Scaled(), torch.randn(2, 3, 6, 6)
    module(x)
    module.eval()
    source = torch.jit.script(module) if way == "script" else torch.jit.trace(module, x)
    frozen = torch.jit.freeze(source)
    kinds = list_kinds(frozen.graph)
    assert {"aten::mul", "aten::add"}.isdisjoint(kinds)
    assert torch.__name__ == "torch" or kinds[-1] == "aten::conv2d"
    assert torch.allclose(frozen(x), module(x), atol=1e-5)


def test_branches_on_settings_are_taken(torch):
    class Branching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.flag, self.none = True, None

        def forward(self, x):
            if self.flag and self.none is None:
                return torch.nn.functional.relu(x)
            return x * 2

    frozen = torch.jit.freeze(torch.jit.script(Branching().eval()))
    assert list_kinds(frozen.graph) == ["aten::relu"]


@pytest.mark.parametrize("preserved", [[], ["scale"]])
def test_archives_hold_what_is_left(torch, preserved):
    class Loops(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.count = torch.nn.Linear(3, 3), 0

        def forward(self, x):
            self.count += 1
            total = x
            for i in range(4):
                if i == 2:
                    continue
                total = self.linear(total)
                if bool(total.sum() > 100):
                    break
            return total * self.count

        @torch.jit.export
        def scale(self, x):
            return x * self.count

    module, x, file = Loops().eval(), torch.randn(2, 3), io.BytesIO()
    frozen = torch.jit.freeze(torch.jit.script(module), preserved)
    torch.jit.save(frozen, file)
    file.seek(0)
    loaded = torch.jit.load(file)
    for _ in range(2):
        expected = module(x)
        assert torch.allclose(frozen(x), expected) and torch.allclose(loaded(x), expected)
    if preserved:
        assert torch.equal(loaded.scale(x), x * 2)


def test_forks_run_on_constants(torch):
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.full((2,), 3.)

        def forward(self, x):
            return self.a * x

    class Forking(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            future = torch.jit.fork(self.inner.forward, x)
            y = self.inner(x)
            return torch.jit.wait(future) + y

    frozen, x = freeze(torch, Forking()), torch.randn(2)
    assert not frozen.hasattr("inner")
    assert torch.allclose(frozen.forward(x), 6 * x)


def test_what_a_pass_changes_is_run(torch):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return (x + 1) * (x + 1)

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Twice()), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    graph = loaded.graph
    assert list_kinds(graph) == ["aten::add", "aten::add", "aten::mul"]
    torch._C._jit_pass_cse(graph)
    torch._C._jit_pass_lint(graph)
    assert list_kinds(graph) == ["aten::add", "aten::mul"]
    assert loaded(torch.full((2,), 3.)).tolist() == [16, 16]
    total = graph.findNode("aten::add")
    total.replaceInput(1, total.inputsAt(0))
    if torch.__name__ != "torch":  # whose executor has compiled the graph as it was
        assert loaded(torch.full((2,), 3.)).tolist() == [36, 36]


def test_functions_of_graphs(torch):
    def program(x, n: int):
        y = x
        for i in range(n):
            if i > 1:
                y = y * 2
            else:
                y = y + i
        return y

    graph = torch.jit.script(program).graph.copy()
    function = torch._C._create_function_from_graph("again", graph)
    x = torch.randn(3)
    assert torch.equal(function(x, 4), program(x, 4))
    assert "prim::Loop" in str(function.graph)


def test_passes(torch):
    def program(x):
        unused = x * 3  # noqa: F841
        size = 2 + 3 * 4
        return x + size, x.t().t()

    graph = torch.jit.script(program).graph
    torch._C._jit_pass_dce(graph)
    torch._C._jit_pass_constant_propagation(graph)
    torch._C._jit_pass_peephole(graph)
    assert list_kinds(graph) == ["aten::add", "prim::TupleConstruct"]
    assert 14 in [node.output().toIValue() for node in graph.findAllNodes("prim::Constant")]


def test_parsed_graphs_run(torch):
    graph = torch._C.parse_ir("""
graph(%x : Tensor, %n : int):
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %z : Tensor):
      %w : Tensor = aten::add(%z, %i, %one)
      -> (%true, %w)
  return (%y)
""")
    assert list_kinds(graph) == ["prim::Loop"] and graph.findNode("aten::add") is not None
    function = torch._C._create_function_from_graph("total", graph)
    assert function(torch.zeros(1), 4).item() == 6
    if torch.__name__ != "torch":
        with pytest.raises(RuntimeError, match="Cannot find a variable with name 'nothing'"):
            torch._C.parse_ir("graph(%x : Tensor):\n  return (%nothing)")


def test_tests_of_types_are_decided_by_types(torch):
    def program(x: int):
        return 2 if x is not None else 3

    assert list_kinds(torch.jit.script(program).graph) == []
    if torch.__name__ != "torch":
        from flambeau.jit.graphs.refinement import decide_instance
        from flambeau.jit.graphs.types import IRType

        assert decide_instance(IRType("Union[int, List[int]]"), "(int, List[int])") is True
        assert decide_instance(IRType("Union[int, List[int]]"), "int") is None
        assert decide_instance(IRType("Optional[int]"), "str") is False


def test_flattened_results(torch):
    def program(x: int):
        return (x, (x + 1, [9]))

    graph = torch.jit.script(program).graph
    torch._C._jit_pass_lower_all_tuples(graph)
    assert "prim::TupleConstruct" not in list_kinds(graph) and len(list(graph.outputs())) == 3


def test_a_graph_of_what_a_function_did_runs(torch):
    def program(x):
        y = torch.zeros(x.size())
        y.copy_(x)
        return torch.nn.functional.threshold(y.neg(), 0, 1, inplace=True) * 2

    x = torch.randn(3, 2)
    graph, expected, inputs = torch.jit._get_trace_graph(program, (x,), return_inputs=True)
    function = torch._C._create_function_from_graph("again", graph)
    assert torch.equal(function(*inputs), expected)
    assert graph.findNode("aten::threshold_").output().type().sizes() == [3, 2]


def test_context_managers_with_other_signatures_are_refused(torch):
    from typing import Any

    @torch.jit.script
    class Enters:
        def __init__(self):
            self.count = 1

        def __enter__(self, by: int):  # noqa: PLE0302
            self.count += by

        def __exit__(self, kind: Any, value: Any, trace: Any):
            pass

    def program(x):
        with Enters() as _:
            pass
        return x

    with pytest.raises(RuntimeError, match="__enter__ must have only one argument"):
        torch.jit.script(program)
