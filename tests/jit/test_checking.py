"""torch.jit.script refuses what PyTorch's compiler refuses, with its texts, and nothing else."""

from __future__ import annotations

import importlib
import textwrap

import pytest

NAMES = """
import torch
from enum import Enum
from torch import nn, Tensor
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

class Color(Enum):
    RED = 1

class Pair(NamedTuple):
    first: int
    second: List[int]

class Counter:
    def __init__(self, start: int):
        self.start = start
    def raised(self, by: int) -> int:
        return self.start + by

def named(count: int, name: str = "a") -> int:
    return count

def shifted(x):
    return x + 1
"""

REFUSED = {
    "an attribute of a number": (
        "def f(x: int):\n  return x.add(1)", "'int' object has no attribute or method 'add'"),
    "an attribute of a tensor": (
        "def f(x):\n  return x.nothing", "object has no attribute or method 'nothing'"),
    "an attribute of None or a list": (
        "def f(x: Optional[List[int]]):\n  return x.count(1)", "'Optional.List.int..' object has"),
    "an attribute of a class": (
        "def f(x: Counter):\n  return x.nothing", "object has no attribute or method 'nothing'"),
    "an undefined name": ("def f(x):\n  return nothing(x)", "undefined value nothing"),
    "a name of one branch": (
        "def f(x: int):\n  if x > 1:\n    y = 2\n  return y", "y is not defined in the false bra"),
    "types of two branches": (
        "def f(x: int):\n  if x > 1:\n    y = 2\n  else:\n    y = 'a'\n  return y",
        "y is set to type int in the true branch and type str in the false branch"),
    "another type in a branch": (
        "def f(x: int):\n  y = None\n  if x % 2:\n    y = 2\n  return y",
        "Variable 'y' previously had type NoneType but is now being assigned to a value of type i"),
    "another type in a loop": (
        "def f(x: int):\n  y = 1\n  for _ in range(x):\n    y = 'a'\n  return y",
        "Variable 'y' previously had type int but is now being assigned to a value of type str"),
    "an annotation of another type": (
        "def f():\n  x: str = 4\n  return x",
        "Variable 'x' is annotated with type str but is being assigned to a value of type int"),
    "a second annotation": (
        "def f():\n  x = 5\n  if 1 == 1:\n    x: Optional[int] = 7\n",
        "Attempting to declare and annotate the type of variable 'x'"),
    "the result": (
        "def f(x: List[int]) -> float:\n  return x[0]",
        "Return value was annotated as having type float but is actually of type int"),
    "no result on some path": (
        "def f(x: int) -> int:\n  if x > 1:\n    return 1",
        "Function was not annotated as having type None, but does not return along all paths"),
    "the type of an argument": (
        "def f(x: str):\n  return named(x)",
        "Expected a value of type 'int' for argument 'count' but instead found type 'str'"),
    "a number for a tensor": (
        "def f():\n  return shifted(2)",
        "Expected a value of type 'Tensor .inferred.' for argument 'x' but instead found type"),
    "too many arguments": (
        "def f():\n  return named(1, 'a', 2)",
        "Expected at most 2 arguments but found 3 positional arguments"),
    "a missing argument": ("def f():\n  return named()", "Argument count not provided"),
    "an unknown keyword": ("def f():\n  return named(1, z=2)", "Keyword argument z unknown"),
    "a field of a named tuple": (
        "def f():\n  return Pair('a', [1])",
        "Expected a value of type 'int' for argument 'first' but instead found type 'str'"),
    "an element of a list": (
        "def f():\n  x: List[int] = []\n  x.append('a')\n  return x",
        "Could not match type str to t in argument 'el'"),
    "elements of an annotated list": (
        "def f():\n  x: List[int] = [1, 'a']\n  return x",
        r"List type annotation `List\[int\]` did not match the types of the given list elements"),
    "keys of a dictionary": (
        "def f():\n  return {'a': 1, 2: 3}",
        "Dict keys must contain only a single type. Expected: str but found int instead"),
    "a key of another type": (
        "def f(x: Dict[str, int]):\n  return x[None]",
        "Expected a value of type 'str' for argument 'key' but instead found type 'NoneType'"),
    "a union as key": (
        "def f():\n  x: Dict[Union[int, str], str] = {}\n  return x",
        "only int, float, complex, Tensor, device and string keys are supported"),
    "an index of a tuple": (
        "def f(x: Tuple[int, int]):\n  return x[3]",
        "Tuple index out of range. Tuple is length 2 and index is 3"),
    "setting an item of a tuple": (
        "def f(x: Tuple[int, int]):\n  x[0] = 1", "subscripted assignment"),
    "unpacking too little": (
        "def f(x: Tuple[int, int, int]):\n  a, b = x\n  return a",
        "too many values to unpack: need 2 but found 3"),
    "unpacking a number": ("def f():\n  a, b = 1\n  return a", "int cannot be used as a tuple"),
    "a loop over a number": (
        "def f(x: int):\n  for _ in x: pass", "'int' object is not iterable"),
    "calling a number": ("def f(x: int):\n  return x()", "cannot call a value of type 'int'"),
    "None in a sum": (
        "def f(x: Optional[int]):\n  return x + 1", "Arguments for call are not valid"),
    "a string in a sum": ("def f():\n  return 'a' + 1", "Arguments for call are not valid"),
    "types of an if-expression": (
        "def f(x: int):\n  return 'a' if x > 1 else 2",
        "if-expression's true branch has type str but false branch has type int"),
    "a member of an enum": (
        "def f(x: Color):\n  return x == Color.BLUE", "has no attribute 'BLUE'"),
    "a bare list": ("def f(x: List):\n  return x", "Attempted to use List without a contained ty"),
    "a bare dictionary": (
        "def f(x: Dict):\n  return x", "Attempted to use Dict without contained types"),
    "a lambda": ("def f(x):\n  y = lambda z: z\n  return y(x)", "Lambda aren't supported"),
    "try": ("def f(x):\n  try:\n    return x\n  except Exception:\n    return x",
            "try blocks aren't supported"),
    "yield": ("def f(x):\n  yield x", "Yield aren't supported"),
    "import": ("def f(x):\n  import os\n  return x", "import statements aren't supported"),
    "a function within": (
        "def f(x):\n  def g(z): return z\n  return g(x)", "function definitions aren't supported"),
    "*args": ("def f(x, *args):\n  return x", "Compiled functions can't take variable number of"),
}

ACCEPTED = {
    "an annotation after a branch of its own": (
        "def f(x: Tensor, n: int) -> Tensor:\n  if n > 1:\n    y = x * 2\n    x = y\n"
        "  if n > 2:\n    y: Optional[Tensor] = None\n    if n > 3:\n      y = x\n"
        "    assert y is not None\n    x = y\n  return x"),
    "a refined argument": "def f(x: Optional[int]) -> int:\n  if x is None:\n    x = 1\n"
                          "  return x + 1",
    "an assertion": "def f(x: Optional[int]) -> int:\n  assert x is not None\n  return x + 1",
    "a branch that leaves": "def f(x: Optional[int]) -> int:\n  if x is None:\n    return 0\n"
                            "  return x + 1",
    "isinstance": "def f(x: Union[int, str]) -> int:\n  if isinstance(x, int):\n"
                  "    return x + 1\n  else:\n    return len(x)",
    "conditions in a row": "def f(x: Optional[int], y: bool) -> bool:\n"
                           "  return x is not None and x + 1 > 2 and y",
    "None or a number": "def f(x: int):\n  if x > 1:\n    return 1",
    "a type of its own in each branch": "def f(x: int) -> int:\n  if x > 1:\n    y = 1\n  else:\n"
                                        "    y = 2\n  return y",
    "another type in the same block": "def f(x: int) -> str:\n  x = 'a'\n  return x",
    "a dead branch": "def f(x):\n  if not torch.jit.is_scripting():\n    return nothing(x)\n"
                     "  return x",
    "a class": "def f() -> int:\n  return Counter(2).raised(1)",
    "a tuple for a list": "def f() -> List[int]:\n  return (1, 2)",
    "a tensor for a number": "def f(x: Tensor):\n  return named(x)",
    "a mixed list": "def f() -> List[Union[int, str]]:\n  return [1, 'a']",
    "a loop that ends early": "def f(x: int) -> int:\n  y = 0\n  while True:\n    y += 1\n"
                              "    if y > x:\n      break\n  return y",
    "another type than annotated, later": (
        "def f(x: List[int]) -> int:\n  y: List[int] = x\n  y = len(y)\n  return y"),
    "a comprehension": "def f(x: List[int]) -> List[str]:\n  return [str(i) for i in x]",
    "a format": "def f(x: int) -> str:\n  return '%d of %s' % (x, 'a')",
}


def function_of(torch, text, tmp_path, monkeypatch):
    """Write the text to a file and import it with the library under the name `torch`."""
    import importlib.util
    import sys

    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.nn", torch.nn)
    file = tmp_path / "program.py"
    file.write_text(NAMES + "\n" + textwrap.dedent(text) + "\n")
    spec = importlib.util.spec_from_file_location(f"program_{abs(hash(str(tmp_path)))}", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module.f


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_compiler_refuses(torch, case, tmp_path, monkeypatch):
    text, message = REFUSED[case]
    function = function_of(torch, text, tmp_path, monkeypatch)
    with pytest.raises(Exception, match=message) as caught:
        torch.jit.script(function)
    assert type(caught.value).__name__ in (
        "RuntimeError", "UnsupportedNodeError", "NotSupportedError")


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_the_compiler_accepts(torch, case, tmp_path, monkeypatch):
    torch.jit.script(function_of(torch, ACCEPTED[case], tmp_path, monkeypatch))


def test_the_place_is_marked(torch, tmp_path, monkeypatch):
    function = function_of(torch, "def f(x: int):\n  y = x + 1\n  return y.add(1)", tmp_path,
                           monkeypatch)
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(function)
    lines = str(caught.value).splitlines()
    marked = next(i for i, line in enumerate(lines) if "~~~" in line)
    start = lines[marked].index("~")
    assert lines[marked - 1][start:].startswith("y.add")
    assert lines[marked].endswith(" <--- HERE")


def test_what_a_module_calls_is_checked(torch):
    class Inner(torch.nn.Module):
        def forward(self, x):
            return nothing(x)  # noqa: F821

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        @torch.jit.ignore
        def shown(self, x):
            return nothing(x)  # noqa: F821

        def forward(self, x):
            return self.inner(x)

    with pytest.raises(RuntimeError, match="undefined value nothing"):
        torch.jit.script(Outer())


def test_attributes_of_modules(torch):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Identity()])

        def forward(self, x):
            return self.nothing(x)

    class Indexed(Layer):
        def forward(self, x):
            return self.layers[3](x)

    class Sets(Layer):
        def forward(self, x):
            self.nothing = x
            return x

    for kind, message in ((Layer, "has no attribute 'nothing'"), (Indexed, "Index 3 out of range"),
                          (Sets, "Tried to set nonexistent attribute: nothing")):
        with pytest.raises(RuntimeError, match=message):
            torch.jit.script(kind())


def test_attributes_of_classes(torch):
    class Late:
        def __init__(self, x):
            self.foo = x

        def later(self, y):
            self.bar = y

    class Changed:
        def __init__(self, x):
            self.foo = x
            self.foo = 10

    for kind, message in ((Late, "Tried to set nonexistent attribute: bar"),
                          (Changed, "Wrong type for attribute assignment")):
        with pytest.raises(RuntimeError, match=message):
            torch.jit.script(kind)


def test_classes_that_say_they_are_torchs(monkeypatch):
    """`import torch` may mean flambeau, whose classes then name torch as their module."""
    library = importlib.import_module("flambeau")
    monkeypatch.setattr(library.device, "__module__", "torch")

    def moved(x, place: str = "cpu"):
        return x.to(library.device(place))

    assert library.jit.script(moved)(library.ones(2)).shape == (2,)
