"""Hooks of scripted modules: signatures, results, and archives in both directions."""

from __future__ import annotations

import io

import pytest

import flambeau as torch
from flambeau import nn

from . import hooked_programs as programs


@pytest.fixture
def module():
    return programs.hooked(nn)


def test_hooks_run_around_forward(module):
    scripted = torch.jit.script(module)
    assert scripted("a") == module("a") == "a_pre_in_post_post"
    assert scripted.inner.forward("a") == "a_in"


def test_an_archive_runs_hooks_of_its_modules(module):
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    loaded = torch.jit.load(io.BytesIO(file.getvalue()))
    assert loaded("a") == module("a")
    assert loaded.inner("a") == module.inner("a")
    again = io.BytesIO()
    torch.jit.save(loaded, again)
    assert torch.jit.load(io.BytesIO(again.getvalue()))("a") == module("a")


@pytest.mark.parity
def test_archives_with_hooks_are_read_in_both_directions(module):
    pytorch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    theirs = pytorch.jit.load(io.BytesIO(file.getvalue()))
    assert theirs("a") == module("a") and theirs.inner("a") == module.inner("a")
    file = io.BytesIO()
    pytorch.jit.save(pytorch.jit.script(programs.hooked(pytorch.nn)), file)
    ours = torch.jit.load(io.BytesIO(file.getvalue()))
    assert ours("a") == module("a") and ours.inner("a") == module.inner("a")


def wrong_inputs(self, input: tuple[None]) -> tuple[str]:
    return ("a",)


def wrong_count(self, input: tuple[str], more: str) -> tuple[str]:
    return ("a",)


def no_tuple(self, input: int) -> tuple[str]:
    return ("a",)


def wrong_result(self, input: tuple[str]) -> int:
    return 1


def no_result(self, input: tuple[str]):
    return 1


@pytest.mark.parametrize(("hook", "message"), [
    (wrong_inputs, "has the wrong inner types for the input tuple argument. Received type: "
                   "'Tuple[NoneType]'"),
    (wrong_count, "was expected to only have exactly 2 inputs but it had 3 inputs"),
    (no_tuple, "expected the input argument to be typed as a Tuple but found type: 'int' instead"),
    (wrong_result, "returned the wrong type of: 'int'"),
    (no_result, "is missing a return annotation. Return annotations are required"),
])
def test_pre_hooks_of_another_signature_are_refused(module, hook, message):
    module.inner.register_forward_pre_hook(hook)
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(module)
    assert message in str(caught.value)
    assert f"the following signature: {hook.__name__}(self, input: Tuple[str])" in str(caught.value)


def test_a_hook_must_take_what_the_one_before_returns(module):
    def listed(self, input: tuple[str], output: str) -> list[str]:
        return [output]

    def plain(self, input: tuple[str], output: str) -> str:
        return output

    module.inner.register_forward_hook(listed)
    module.inner.register_forward_hook(plain)
    with pytest.raises(RuntimeError, match="wrong type for the output argument. Received type: "
                                           r"'str'. Expected type: 'List\[str\]'"):
        torch.jit.script(module)


def test_hooks_of_one_name_must_be_one_function(module):
    def same_name():
        def same(self, input: tuple[str], output: str) -> str:
            return output

        return same

    module.inner.register_forward_hook(same_name())
    module.inner.register_forward_hook(same_name())
    with pytest.raises(RuntimeError, match="has at least two different python definitions"):
        torch.jit.script(module)
