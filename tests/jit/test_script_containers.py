"""What scripting says of containers: literals of unions, deletion, sizes, attributes."""

from __future__ import annotations

import io
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
