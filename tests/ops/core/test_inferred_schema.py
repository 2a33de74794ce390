"""torch.library.infer_schema: annotations and defaults, and what has no schema."""

import typing

import pytest


def check(torch, function, expected, mutated=()):
    assert torch.library.infer_schema(function, mutates_args=mutated) == expected


def test_parameters_and_results(torch):
    Tensor = torch.Tensor

    def every(
        x: Tensor, y: typing.Sequence[Tensor], z: Tensor | None, w: list[Tensor | None],
        n: int, v: list[int] | None, f: float, b: bool, t: str, d: torch.dtype,
        c: torch.device, s: torch.types.Number, *, k: list[float],
    ) -> tuple[Tensor, int, list[Tensor]]: ...

    check(torch, every, "(Tensor x, Tensor[] y, Tensor? z, Tensor?[] w, SymInt n, SymInt[]? v, "
          "float f, bool b, str t, ScalarType d, Device c, Scalar s, *, float[] k) -> "
          "(Tensor, SymInt, Tensor[])")


def test_defaults(torch):
    def f(x: torch.Tensor, n: int = 1, s: str = "a", d: torch.dtype = torch.float32,
          c: torch.device = torch.device("cpu"), o: float | None = None) -> None: ...  # noqa: B008

    check(torch, f, '(Tensor x, SymInt n=1, str s="a", ScalarType d=float32, Device c="cpu", '
          "float? o=None) -> ()")


def test_written_arguments(torch):
    def f(x: torch.Tensor, y: list[torch.Tensor], n: int,
          z: torch.Tensor | None) -> None: ...

    check(torch, f, "(Tensor(a0!) x, Tensor[] y, SymInt n, Tensor(a3!)? z) -> ()", {"x", "z"})
    check(torch, f, "(Tensor(a0!) x, Tensor(a1!)[] y, SymInt n, Tensor(a3!)? z) -> ()", "unknown")


def _refused(torch):
    Tensor = torch.Tensor

    def varargs(*x: Tensor) -> None: ...
    def bare(x) -> None: ...
    def pair(x: tuple[int, int]) -> None: ...
    def callback(x: typing.Callable) -> None: ...
    def open_end(x: Tensor) -> tuple[Tensor, ...]: ...
    def silent(x: Tensor): ...
    def number(x: Tensor, y: int) -> Tensor: ...
    def default(x: Tensor, y: list[int] = ()) -> Tensor: ...
    def text(x: "Nowhere") -> Tensor: ...  # noqa: F821
    return [
        (varargs, (), "positional-only args, varargs, or varkwargs"),
        (bare, (), "Parameter x must have a type annotation"),
        (pair, (), r"please try to use List instead. For example, list\[int\]"),
        (callback, (), "Parameter x has unsupported type"),
        (open_end, (), "Return has unsupported type"),
        (silent, (), "No return type annotation was provided"),
        (number, ("y",), "only Tensors or collections of Tensors can be mutated"),
        (number, ("z",), "in mutates_args were not found in the custom op's signature"),
        (number, "some", "mutates_args must either be a sequence"),
        (default, (), "unsupported default value type <class 'tuple'>"),
        (text, (), "Unsupported type annotation Nowhere. It is not a type"),
    ]


@pytest.mark.parametrize("index", range(11))
def test_refusals(torch, index):
    function, mutated, message = _refused(torch)[index]
    with pytest.raises(ValueError, match=message):
        torch.library.infer_schema(function, mutates_args=mutated)
