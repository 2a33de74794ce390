"""torch.testing.FileCheck: texts that occur, in an order, or do not."""

import pytest

import flambeau as torch

TEXT = """a = one(x)
b = two(a)
c = two(b)
return c"""


def check():
    return torch.testing.FileCheck()


def test_texts_in_an_order():
    check().check("one").check("two").check_same("(a)").check_next("c = ").run(TEXT)
    check().check_dag("return").check_dag("one").run(TEXT)
    check().check_count("two", 2, exactly=True).check_regex(r"return \w").run(TEXT)
    check().check("one").check_not("three").check("two").run(TEXT)
    check().check_source_highlighted("x + y").run("z = x + y\n    ~~~~~ <--- HERE")


@pytest.mark.parametrize("failing", [
    check().check("two").check("one"), check().check("one").check_same("two"),
    check().check("one").check_next("return"), check().check_count("two", 3),
    check().check_count("two", 1, exactly=True), check().check_not("two").check("return"),
    check().check_regex("^never"), check().check_dag("one").check_dag("never"),
    check().check_source_highlighted("one"),
])
def test_what_fails(failing):
    with pytest.raises(RuntimeError, match="Expected to"):
        failing.run(TEXT)
