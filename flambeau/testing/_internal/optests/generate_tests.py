"""generate_opcheck_tests: tests that check each operator which existing tests call."""

from __future__ import annotations

import datetime
import functools
import os
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable, Sequence
from typing import Any

from .... import jit, serialization
from ...._library.utils import lookup_op
from ...._subclasses.fake_tensor import UnsupportedFakeTensorException
from ....ops.registration.entry_types import OpOverload, OpOverloadPacket
from ....ops.registration.tags import Tag
from ....overrides import TorchFunctionMode
from ....tensor.tensor import Tensor
from ....utils._pytree import tree_map
from ...operator_checks import (
    CHECKS, DEFAULT_CHECKS, OpCheckError, find_overload, opcheck, run_check,
)
from .failures_dict import (
    GDOC, FailuresDict, should_update_failures_dict, validate_failures_dict_formatting,
    validate_failures_dict_structure,
)

__all__ = [
    "ALL_TEST_UTILS", "DEFAULT_TEST_UTILS", "FailuresDict", "OpCheckError", "OpCheckMode",
    "dontGenerateOpCheckTests", "generate_opcheck_tests", "generate_repro",
    "is_inside_opcheck_mode", "opcheck", "validate_failures_dict_structure",
]

ALL_TEST_UTILS = {name: functools.partial(run_check, name) for name in CHECKS}
DEFAULT_TEST_UTILS = list(DEFAULT_CHECKS)
DEPRECATED_DEFAULT_TEST_UTILS = [*DEFAULT_CHECKS, "test_aot_dispatch_static"]


class _Regions(threading.local):
    count = 0  # of OpCheckModes around the calling code


_REGIONS = _Regions()


def is_inside_opcheck_mode() -> bool:
    """Return whether a generated test is running."""
    return _REGIONS.count > 0


def dontGenerateOpCheckTests(reason: str) -> Callable[[Callable], Callable]:
    """Return a decorator of tests of which no others are made."""

    def mark(test: Any) -> Any:
        test._torch_dont_generate_opcheck_tests = True
        return test

    return mark


def generate_opcheck_tests(
    testcase: Any, namespaces: Sequence[str], failures_dict_path: str | None = None,
    additional_decorators: dict[str, Any] | None = None,
    test_utils: Sequence[str] = DEFAULT_TEST_UTILS,
) -> None:
    """Add to a TestCase a test `{check}__{test}` for each of its tests and each check, which runs
    the test and checks each call of an operator of these namespaces.

    Args:
        testcase: The class of tests.
        namespaces: Of the operators to check.
        failures_dict_path: The file of tests that are skipped or expected to fail:
            failures_dict.json next to the caller's file if not given.
        additional_decorators: Of generated tests, by name.
        test_utils: The names of `torch.library.opcheck`'s checks.
    """
    decorators = additional_decorators or {}
    if failures_dict_path is None:
        folder = os.path.dirname(sys._getframe(1).f_code.co_filename)
        failures_dict_path = os.path.join(folder, "failures_dict.json")
    failures = FailuresDict.load(failures_dict_path, create_file=should_update_failures_dict())
    validate_failures_dict_structure(failures, test_utils, testcase)
    validate_failures_dict_formatting(failures_dict_path)
    names = [n for n in dir(testcase) if n.startswith("test_") and callable(getattr(testcase, n))]
    for name in names:
        method = getattr(testcase, name)
        if getattr(method, "_torch_dont_generate_opcheck_tests", False):
            continue
        for check in test_utils:
            create_mode = functools.partial(
                OpCheckMode, namespaces, check, ALL_TEST_UTILS[check], failures,
                f"{testcase.__name__}.{check}__{name}", failures_dict_path)
            _add_test(testcase, f"{check}__{name}", _within(create_mode, method), decorators)
    _add_tag_tests(testcase, failures, decorators)


def _within(create_mode: Callable[[], OpCheckMode], method: Callable) -> Callable:
    @functools.wraps(method)
    def test(*args: Any, **kwargs: Any) -> Any:
        with create_mode():
            return method(*args, **kwargs)

    _keep_first_parameters(test)
    return test


def _keep_first_parameters(test: Any) -> None:
    """Of a test marked with opcheck_only_one, keep the first value of pytest's parameters."""
    marks = test.__dict__.get("pytestmark")
    if not marks or not any(mark.name == "opcheck_only_one" for mark in marks):
        return
    import pytest

    result = []
    for mark in marks:
        if mark.name == "parametrize" and mark.args[0] != "device":
            if mark.kwargs:
                raise AssertionError("NYI: mark.kwargs is not empty")
            names, values = mark.args
            mark = pytest.mark.parametrize(names, [next(iter(values))])
        result.append(mark)
    test.__dict__["pytestmark"] = result


def _add_test(testcase: Any, name: str, test: Callable, decorators: dict[str, Any]) -> None:
    for decorate in decorators.get(name, ()):
        test = decorate(test)
    if hasattr(testcase, name):
        raise RuntimeError(
            f"Tried to autogenerate {name} but {testcase} already has method named {name}. Please "
            "rename the original method on the TestCase.")
    setattr(testcase, name, test)


def _add_tag_tests(testcase: Any, failures: FailuresDict, decorators: dict[str, Any]) -> None:
    """Add tests that no operator with the tag for compilers is expected to fail."""
    for qualname, tests in failures.data.items():
        failing = [name for name, entry in tests.items()
                   if "test_aot_dispatch_static" not in name and entry["status"] == "xfail"]
        name = "test_pt2_compliant_tag_" + qualname.replace("::", "_").replace(".", "_")
        _add_test(testcase, name, _create_tag_test(qualname, failing), decorators)


def _create_tag_test(qualname: str, failing: list[str]) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        try:
            op = lookup_op(qualname)
        except AttributeError as error:
            raise unittest.SkipTest(f"Can't import operator {qualname}") from error
        if failing and Tag.pt2_compliant_tag in op.tags:
            raise AssertionError(
                f"op '{qualname}' was tagged with torch.Tag.pt2_compliant_tag but it failed some "
                f"of the generated opcheck tests ({failing}). This may lead to silent correctness "
                "issues, please fix this.")

    return test


class OpCheckMode(TorchFunctionMode):
    """Mode that runs `test_util(op, args, kwargs)` on each call of an operator, and raises at its
    end if one failed that is not expected to, or the other way round."""

    def __init__(
        self, namespaces: Sequence[str], test_util_name: str, test_util: Callable,
        failures_dict: Any, test_name: str, failures_dict_path: str,
    ) -> None:
        self.namespaces = namespaces
        self.test_util_name, self.test_util = test_util_name, test_util
        self.failures_dict, self.failures_dict_path = failures_dict, failures_dict_path
        self.test_name = test_name
        # By operator: (error, operator, arguments, keywords) of each call that failed.
        self.seen_ops_to_errors: dict[str, list[tuple[Exception, Any, Any, Any]]] = {}

    def __enter__(self) -> Any:
        _REGIONS.count += 1
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        _REGIONS.count -= 1
        try:
            self.maybe_raise_errors_on_exit()
            if should_update_failures_dict():
                self.failures_dict.save()
        finally:
            super().__exit__(*error)

    def maybe_raise_errors_on_exit(self) -> None:
        """Raise OpCheckError for what is not as expected, or note it if updates are on."""
        updates, failed = should_update_failures_dict(), []
        for qualname, errors in self.seen_ops_to_errors.items():
            status = self.failures_dict.get_status(qualname, self.test_name)
            if not errors and updates:
                self.failures_dict.set_status(qualname, self.test_name, "xsuccess", comment="")
            elif not errors and status == "xfail":
                raise OpCheckError(
                    f"generate_opcheck_tests: Unexpected success for operator {qualname} on test "
                    f"{self.test_name}. This may mean that you have fixed this test failure. "
                    "Please rerun the test with PYTORCH_OPCHECK_ACCEPT=1 to automatically update "
                    "the test runner or manually remove the expected failure in the failure dict "
                    f"at {self.failures_dict_path}For more details, see {GDOC}")
            if errors and status == "xsuccess":
                failed.append(qualname)
        if failed and updates:
            for qualname in failed:
                self.failures_dict.set_status(qualname, self.test_name, "xfail")
        elif failed:
            self._raise_first(failed)

    def _raise_first(self, failed: list[str]) -> None:
        error, op, args, kwargs = self.seen_ops_to_errors[failed[0]][0]
        repro = generate_repro(self.test_util_name, op, args, kwargs,
                               save_data=should_print_better_repro())
        raise OpCheckError(
            f"Test generated by `generate_opcheck_tests`, {self.test_name}, failed on operators "
            f"{failed}. This usually means that the operators are not implemented correctly and "
            "may lead to silently incorrect behavior. Set PYTORCH_OPCHECK_PRINT_BETTER_REPRO=1 for "
            f"a standalone repro, or please see {GDOC} for more recommendations. To reproduce this "
            f"problem locally, try to run the following:\n{repro}") from error

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, (OpOverloadPacket, OpOverload)) or jit.is_tracing():
            return func(*args, **kwargs)
        op: Any = func
        space = str(op).partition(".")[0]
        if space not in self.namespaces:
            return op(*args, **kwargs)
        op = find_overload(op)
        copies = tree_map(_copy, (args, kwargs))
        result = op(*args, **kwargs)
        qualname = op.name()
        if self.failures_dict.get_status(qualname, self.test_name) != "skip":
            self._check(op, qualname, copies, (args, kwargs))
        return result

    def _check(self, op: Any, qualname: str, copies: Any, call: Any) -> None:
        """Run the check, and note what it raises."""
        errors = self.seen_ops_to_errors.setdefault(qualname, [])
        try:
            self.test_util(op, *copies)
        except UnsupportedFakeTensorException:
            pass  # nothing can be said about such arguments
        except Exception as error:
            shown = call if should_print_better_repro() else (None, None)
            errors.append((error, op, *shown))


def _copy(x: Any) -> Any:
    return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x


def should_print_better_repro() -> bool:
    """Return whether failed tests save the arguments: PYTORCH_OPCHECK_PRINT_BETTER_REPRO=1. They
    stay in the folder pytorch_opcheck_safe_to_delete of the system's folder for temporary files.
    """
    return os.environ.get("PYTORCH_OPCHECK_PRINT_BETTER_REPRO") == "1"


def generate_repro(
    test: str, op: Any, args: Any, kwargs: Any, *, save_data: bool, dry_run: bool = False
) -> str:
    """Return a script that runs one check on one call, whose arguments it saves, unless `dry_run`.
    """
    call = ("# If you rerun your test with PYTORCH_OPCHECK_PRINT_BETTER_REPRO=1\n"
            "# we will fill them in same (args, kwargs) as in your test\n"
            "args = ()  # args to the operator\nkwargs = {}  # kwargs to the operator")
    if save_data:
        folder = os.path.join(tempfile.gettempdir(), "pytorch_opcheck_safe_to_delete")
        file = os.path.join(folder, f"repro_{datetime.datetime.now().timestamp() * 100000}.pt")
        if not dry_run:
            os.makedirs(folder, exist_ok=True)
            serialization.save((args, kwargs), file)
        call = f'args, kwargs = torch.load("{file}")'
    space, name = op._schema.name.split("::")
    line = "# " + "=" * 57
    return "\n".join((
        line, "# BEGIN REPRO SCRIPT", line, "import torch",
        "from torch.testing._internal.optests import opcheck", "",
        "# Make sure you have loaded the library that contains the op",
        "# via an import or torch.ops.load_library(...)",
        f"op = torch.ops.{space}.{name}.{op._overloadname}", "", call,
        f'opcheck(op, args, kwargs, test_utils="{test}")', line, "# END REPRO SCRIPT", line, ""))
