"""Patterns of axes: what each side consists of, and names that are discouraged."""

import pytest

from flambeau._functorch.package.einops._parsing import AnonymousAxis, ParsedExpression, _ellipsis


def test_composition_and_names():
    side = ParsedExpression("b ... 12 (h 1 w) 1 ()")
    assert [part for part in side.composition if part != side.composition[2]] == \
        [["b"], _ellipsis, ["h", "w"], [], []]
    assert isinstance(side.composition[2][0], AnonymousAxis) and side.composition[2][0].value == 12
    assert side.identifiers >= {"b", "h", "w", _ellipsis}
    assert side.has_ellipsis and not side.has_ellipsis_parenthesized
    assert side.has_non_unitary_anonymous_axes
    assert ParsedExpression("(a ...)").has_ellipsis_parenthesized


def test_underscores_and_duplicates_are_allowed_on_request():
    assert ParsedExpression("_ _ a", allow_underscore=True).composition == [["_"], ["_"], ["a"]]
    assert ParsedExpression("a a", allow_duplicates=True).composition == [["a"], ["a"]]
    with pytest.raises(ValueError, match="duplicate dimension 'a'"):
        ParsedExpression("a a")


@pytest.mark.parametrize(("name", "kind"), [("if", RuntimeWarning), ("axis", FutureWarning)])
def test_discouraged_names_warn(name, kind):
    with pytest.warns(kind, match="discouraged"):
        assert ParsedExpression.check_axis_name(name)
