"""torch.testing._internal.optests: checks of operators, and tests that are made of tests."""

from __future__ import annotations

import json
import unittest

import pytest

import flambeau as torch
from flambeau.testing._internal import optests
from flambeau.testing._internal.optests import generate_tests


class Operators:
    """Operators of a namespace, one of them wrong."""

    def __init__(self) -> None:
        self.lib = torch.library.Library("generated_tests", "FRAGMENT")
        self.lib.define("good(Tensor x) -> Tensor")
        self.lib.impl("good", lambda x: x.sin(), "CompositeImplicitAutograd")
        self.lib.define("aliasing(Tensor x) -> Tensor")
        self.lib.impl("aliasing", lambda x: x, "CompositeExplicitAutograd")
        self.lib.define("shapeless(Tensor x) -> Tensor")
        self.lib.impl("shapeless", lambda x: x.clone(), "CPU")


@pytest.fixture(scope="module")
def namespace():
    operators = Operators()
    yield torch.ops.generated_tests
    operators.lib._destroy()


@pytest.fixture
def file(tmp_path) -> str:
    return str(tmp_path / "failures.json")


def write(file: str, data: dict) -> None:
    generate_tests.FailuresDict(file, data).save()


def generate(namespace, file: str, data: dict, **options) -> type[unittest.TestCase]:
    class Case(unittest.TestCase):
        def test_good(self):
            namespace.good(torch.ones(2, requires_grad=True)).sum().backward()

        def test_aliasing(self):
            namespace.aliasing(torch.ones(2))

        def test_shapeless(self):
            namespace.shapeless.default(torch.ones(2))

        @optests.dontGenerateOpCheckTests("none of it")
        def test_alone(self):
            pass

    write(file, data)
    optests.generate_opcheck_tests(Case, ["generated_tests"], file, **options)
    return Case


def run(case: type[unittest.TestCase]) -> dict[str, str]:
    """The first lines of what failed, by test."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return {test.id().rpartition(".")[2]: text for test, text in result.failures + result.errors}


def test_each_call_is_checked(namespace, file: str) -> None:
    case = generate(namespace, file, {})
    failed = run(case)
    assert not hasattr(case, "test_schema__test_alone")
    assert hasattr(case, "test_autograd_registration__test_good")
    assert sorted(failed) == [
        "test_aot_dispatch_dynamic__test_shapeless", "test_faketensor__test_shapeless",
        "test_schema__test_aliasing"]
    assert "failed on operators ['generated_tests::aliasing']" in failed[
        "test_schema__test_aliasing"]
    assert "op = torch.ops.generated_tests.aliasing.default" in failed["test_schema__test_aliasing"]


def test_expected_failures(namespace, file: str) -> None:
    def of(status: str) -> dict:
        return {"comment": "", "status": status}

    data = {
        "generated_tests::aliasing": {"Case.test_schema__test_aliasing": of("xfail")},
        "generated_tests::good": {"Case.test_faketensor__test_good": of("xfail")},
        "generated_tests::shapeless": {"Case.test_faketensor__test_shapeless": of("skip")},
    }
    case = generate(namespace, file, data, test_utils=["test_schema", "test_faketensor"])
    failed = run(case)
    assert list(failed) == ["test_faketensor__test_good"]
    assert "Unexpected success for operator generated_tests::good" in failed[
        "test_faketensor__test_good"]
    assert hasattr(case, "test_pt2_compliant_tag_generated_tests_aliasing")


def test_updates_of_the_file(namespace, file: str, monkeypatch) -> None:
    monkeypatch.setenv("PYTORCH_OPCHECK_ACCEPT", "1")
    assert run(generate(namespace, file, {}, test_utils=["test_schema"])) == {}
    with open(file, encoding="utf-8") as written:
        data = json.load(written)["data"]
    assert data["generated_tests::aliasing"] == {
        "Case.test_schema__test_aliasing": {"comment": "", "status": "xfail"}}


@pytest.mark.parametrize(("test", "status", "text"), [
    ("Case.test_schema__test_good", "success", "got status=success"),
    ("Case.test_other__test_good", "xfail", "should begin with one of"),
    ("Case.test_schema__test_bad", "xfail", "does not exist on the TestCase"),
])
def test_files_that_are_refused(namespace, file: str, test: str, status: str, text: str) -> None:
    data = {"generated_tests::good": {test: {"comment": "", "status": status}}}
    with pytest.raises(RuntimeError, match=text):
        generate(namespace, file, data)


def test_modes_see_entries_of_ops(namespace) -> None:
    seen = []

    class Log(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2)
    with Log():
        torch.ops.aten.mm.default(x, x)
        torch.ops.aten.sin_(x)
        namespace.good(x)
        namespace.good.default(x)
    assert seen == ["aten.mm.default", "aten.sin_", "generated_tests.good",
                    "generated_tests.good.default"]


def test_builtin_operators_are_checked() -> None:
    x = torch.randn(3, requires_grad=True)
    assert set(torch.library.opcheck(torch.ops.aten.sin.default, (x,)).values()) == {"SUCCESS"}
    with pytest.raises(ValueError, match="must be instance of torch._ops.OpOverload"):
        torch.library.opcheck(torch.sin, (x,))
    with pytest.raises(ValueError, match="must specify both"):
        torch.library.opcheck(torch.ops.aten.sin.default, (x,), rtol=1)
    with pytest.raises(torch.testing.operator_checks.OpCheckError, match="test_aot_dispatch_stat"):
        torch.library.opcheck(torch.ops.aten.nonzero.default, (x.detach(),), test_utils="ALL")


def test_sizes_that_depend_on_values() -> None:
    @torch.library.custom_op("generated_tests::positive", mutates_args=())
    def positive(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].clone()

    @positive.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(min=1))

    checks = ["test_schema", "test_faketensor"]
    torch.library.opcheck(positive, (torch.tensor([1., -1.]),), test_utils=checks)
    with pytest.raises(RuntimeError, match="data-dependent shape"):
        positive(torch.empty(2, device="meta"))

    @positive.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(), 2)

    with pytest.raises(torch.testing.operator_checks.OpCheckError, match=r"Shapes .* not equal"):
        torch.library.opcheck(positive, (torch.tensor([1., -1.]),), test_utils=checks)


def test_aliased_results_are_not_functional() -> None:
    with torch.library._scoped_library("generated_tests", "FRAGMENT") as lib:
        lib.define("written(Tensor(a!) x) -> Tensor(a!)")
        lib.impl("written", lambda x: x.sin_(), "CompositeExplicitAutograd")
        with pytest.raises(torch.testing.operator_checks.OpCheckError, match="only support funct"):
            torch.library.opcheck(torch.ops.generated_tests.written, (torch.ones(1),),
                                  test_utils="test_aot_dispatch_dynamic")


def test_single_checks() -> None:
    x = torch.ones(2, requires_grad=True)
    for check_gradients in (True, False, "auto"):
        optests.aot_autograd_check(torch.sin, (x,), {}, True, check_gradients=check_gradients)
    calls = []

    def counting(x):
        calls.append(0)
        return x * len(calls)

    with pytest.raises(AssertionError, match="Outputs of the operator are different"):
        optests.aot_autograd_check(counting, (x,), {}, True)
    optests.make_fx_check(torch.add, (x, 2), {"alpha": 3}, "real")
    with pytest.raises(RuntimeError, match="no inputs have requires_grad=True"):
        optests.autograd_registration_check(torch.ops.aten.sin.default, (torch.ones(1),), {})
