"""What scripting refuses and accepts: containers, operators, script classes, interfaces."""

from __future__ import annotations

import io
import typing
import warnings
from typing import Union

import pytest

import flambeau as torch
from flambeau import nn

UNION = "Union[List[str], List[torch.Tensor]]"
DICTS = "Union[Dict[str, torch.Tensor], Dict[str, int]]"


def compile_lines(*lines):
    body = "".join(f"    {line}\n" for line in lines)
    return torch.jit.CompilationUnit(f"def program(x: Dict[int, int], t: torch.Tensor):\n{body}")


@pytest.mark.parametrize(("lines", "message"), [
    ((f"y: {UNION} = []", "return y"), "there are multiple possible List type candidates"),
    ((f"y: {UNION} = [1]", "return y"), "none of those types match the types of the given list"),
    (("y: Union[int, str] = []", "return y"), "an Union type annotation with an inner List type"),
    ((f"y: {DICTS} = dict(a=t)", "return y"), "full type inference is not yet supported"),
    ((f"y: {DICTS} = {{'a': t, 'b': 1}}", "return y"), "none of those dict types can hold"),
    (("y = [1, 2]", "del y[0:1]", "return y"), "only supports deletion at a single index"),
    (("y = t.tolist()", "return y"), "Expected type hint for result of tolist()"),
    (("return tuple([1, 2])",), "cannot statically infer the expected size of a list"),
    (("y: int = x.get(1)", "return y"), "annotated with type int but is being assigned to a value "
                                        "of type Optional[int]"),
    (("y = {i: i for i in range(3)}", "i = i + 1", "return i"), "undefined value i"),
])
def test_containers_that_have_no_type_are_refused(lines, message):
    with pytest.raises(RuntimeError) as caught:
        compile_lines(*lines)
    assert message in str(caught.value)


@pytest.mark.parametrize("line", [
    f"y: {UNION} = [t]", f"y: {UNION} = ['a']", f"y: {DICTS} = {{'a': 1}}",
    "y: Union[List[int], int] = []", "y: List[int] = t.tolist()", "y = tuple((1, 2))",
])
def test_containers_that_have_one_are_accepted(line):
    compile_lines(line, "return y").program({}, torch.ones(2, dtype=torch.int64))


def test_a_value_of_no_member_of_a_union_is_refused():
    @torch.jit.script
    def program(x: Union[dict[str, int], list[int]]):  # noqa: UP007  # the text names both
        return x

    assert program({"a": 1}) == {"a": 1} and program([1]) == [1]
    with pytest.raises(RuntimeError, match=r"Expected a member of Union\[List\[int\], Dict\[str, "
                                           r"int\]\] but instead found type List\[str\]"):
        program(["a"])


def test_an_empty_attribute_without_a_type_is_warned_of_and_cannot_be_set():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.names: dict[str, int] = {}

        def forward(self, x: dict[str, int]):
            self.names = x
            return 1

    with pytest.warns(UserWarning, match="doesn't support instance-level annotations on empty"), \
            pytest.raises(RuntimeError, match="Tried to set nonexistent attribute: names"):
        torch.jit.script(Holder())


def test_a_module_may_hand_over_another_one_to_script():
    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2

    class Eager(nn.Module):
        def __prepare_scriptable__(self):
            return Doubled()

        def forward(self, *xs):
            return xs

    module = torch.jit.script(nn.Sequential(Eager()))
    assert module(torch.ones(1)).item() == 2


def test_traced_modules_with_nested_inputs_are_saved():
    def program(x, y):
        return x["a"] + y[0] * y[1][0]

    inputs = ({"a": torch.ones(2)}, (torch.full((2,), 3.0), [torch.full((2,), 2.0)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of files that PyTorch cannot read
        file = io.BytesIO(torch.jit.trace(program, inputs).save_to_buffer())
    assert torch.jit.load(file)(*inputs).tolist() == [7, 7]


def test_attributes_of_submodules_can_be_preserved_when_freezing():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(1, 1)

        def forward(self, x):
            return self.inner(x)

    frozen = torch.jit.freeze(torch.jit.script(Outer().eval()), ["inner.weight"])
    assert frozen.inner.weight.shape == (1, 1)
    assert not hasattr(frozen.inner, "bias")


@pytest.mark.parametrize(("lines", "message"), [
    (("return t.masked_fill(True)",), "Arguments for call are not valid"),
    (("return torch.ones([2], requires_grad=True)",), "Keyword argument requires_grad unknown"),
    (("return torch.relu(t, 1, 2)",), "Expected at most 1 arguments but found 3 positional"),
    (("y = ValueError()", "return t"), "cannot be used as a value"),
])
def test_calls_that_fit_no_operator_are_refused(lines, message):
    with pytest.raises(RuntimeError) as caught:
        compile_lines(*lines)
    assert message in str(caught.value)


@pytest.mark.parametrize("line", [
    "y = t.view(1, -1)", "y = torch.zeros(2, 3)", "y = t.sum(0)", "y = t.sum(dim=[0])",
    "y = torch.add(t, 1)", "y = t.masked_fill(t > 0, 0)", "y = torch.full([2], 1.0)",
    "y = torch.cat([t, t], dim=0)", "y = t.permute(0)", "y = t.to(torch.float64)",
    "y = torch.arange(3)", "y = t.mean()", "y = t.max(0)[0]", "y = torch.rand(2, device='cpu')",
])
def test_calls_that_fit_one_are_accepted(line):
    compile_lines(line, "return y").program({}, torch.ones(2))


class Counted:
    def __init__(self, count: int) -> None:
        self.count = count


def test_script_classes_without_a_method_are_refused():
    def added() -> int:
        return Counted(1) + Counted(2)

    def deleted():
        del Counted(1)[0]

    with pytest.raises(RuntimeError, match="has no attribute or method '__add__'"):
        torch.jit.script(added)
    with pytest.raises(RuntimeError, match="Class does not define __delitem__"):
        torch.jit.script(deleted)


def test_mutable_defaults_are_refused():
    def program(x: list[int] = []):  # noqa: B006  # what is refused
        return x

    with pytest.raises(RuntimeError, match="Mutable default parameters are not supported"):
        torch.jit.script(program)


@torch.jit.interface
class Summing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass

    def total(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Holding(nn.Module):
    inner: Summing

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Total(nn.Module):
    def total(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.total(x)


def test_a_module_behind_an_interface_can_be_swapped_for_one_with_its_methods():
    module = torch.jit.script(Holding(Total()))
    module.inner = torch.jit.script(Total())
    assert module(torch.ones(2)).item() == 2
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        module.inner = torch.jit.script(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="a ScriptModule with non-scripted module"):
        module.inner = Total()
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        torch.jit.script(Holding(nn.Linear(2, 2)))


def test_defaults_of_keyword_only_parameters_are_refused():
    def program(x, *, times: int = 2):
        return x * times

    with pytest.raises(torch.jit.frontend.NotSupportedError, match="variable number of arguments"):
        torch.jit.script(program)


def test_annotated_containers_and_comments_without_a_result_are_saved():
    class Named(nn.ModuleDict):
        def forward(self, x, skipped):
            # type: (Tensor, str)
            names = torch.jit.annotate(vars(typing)["List"][str], [])
            for name, module in self.items():
                if name != skipped:
                    x = module(x)
                    names.append(name)
            return names, x

    module = torch.jit.script(Named({"first": nn.ReLU(), "second": nn.Tanh()}))
    loaded = torch.jit.load(io.BytesIO(module.save_to_buffer()))
    assert loaded(torch.ones(1), "second")[0] == module(torch.ones(1), "second")[0] == ["first"]


def test_objects_that_are_no_context_managers_are_refused():
    def program() -> int:
        with Counted(1) as counted:
            return counted.count

    with pytest.raises(RuntimeError, match="does not define __enter__ and __exit__ methods"):
        torch.jit.script(program)
