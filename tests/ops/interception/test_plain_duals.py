"""Arguments of operators in forward mode's plain case are split; all other cases are left alone."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau
from flambeau.autograd import forward_ad
from flambeau.autograd.tangents import LEVELS
from flambeau.ops.interception.plain_duals import split_plain


def split(*args: Any, **kwargs: Any) -> Any:
    """`split_plain` at the only level."""
    return split_plain(args, kwargs, LEVELS.active[0])


def test_a_dual_is_split() -> None:
    x, t = flambeau.ones(2), flambeau.zeros(2)
    with forward_ad.dual_level():
        primals, tangents, is_dual, is_recorded = split(forward_ad.make_dual(x, t), 2.0)
    assert is_dual and not is_recorded
    assert primals[1] == 2.0
    assert tangents[1] is None
    assert tangents[0] is not None
    assert tangents[0].tolist() == [0.0, 0.0]
    assert "_tangents" not in primals[0].__dict__


def test_lists_of_duals_are_split() -> None:
    x, t = flambeau.ones(2), flambeau.zeros(2)
    with forward_ad.dual_level():
        primals, tangents, is_dual, is_recorded = split([forward_ad.make_dual(x, t), x], 1)
    assert is_dual and primals[1] == 1 and tangents[1] is None
    assert "_tangents" not in primals[0][0].__dict__ and primals[0][1] is x
    assert tangents[0][0].tolist() == [0.0, 0.0] and tangents[0][1] is None


def test_without_a_dual_arguments_stay() -> None:
    x = flambeau.ones(2)
    with forward_ad.dual_level():
        primals, tangents, is_dual, is_recorded = split(x, (1, 2))
    assert not is_dual
    assert primals[0] is x
    assert tangents == [None, None]


@pytest.mark.parametrize("make", [
    lambda x: [[[x]]],
    lambda x: [{"x": x}],
    lambda x: [flambeau.ones(2, device="meta")],
], ids=["in a list in a list", "in a dict", "without memory"])
def test_other_arguments_are_not_split(make: Any) -> None:
    with forward_ad.dual_level():
        assert split(*make(flambeau.ones(2))) is None


@pytest.mark.parametrize("make", [
    lambda x, w: [forward_ad.make_dual(x, x), w], lambda x, w: [[forward_ad.make_dual(x, x), w]],
    lambda x, w: [forward_ad.make_dual(w, x)], lambda x, w: [forward_ad.make_dual(x, w), x],
    lambda x, w: [[forward_ad.make_dual(x, w)]],
], ids=["beside", "in a list", "the primal", "the tangent", "a tangent in a list"])
def test_what_is_recorded_is_told(make: Any) -> None:
    x, w = flambeau.ones(2), flambeau.ones(2, requires_grad=True)
    with forward_ad.dual_level():
        assert split(*make(x, w))[2:] == (True, True)
        with flambeau.no_grad():
            assert split(*make(x, w))[2:] == (True, False)


def test_a_tensor_by_keyword_is_not_split() -> None:
    with forward_ad.dual_level():
        assert split(1, out=flambeau.ones(2)) is None


def test_a_late_tangent_ends_the_plain_case() -> None:
    base, t = flambeau.zeros(3), flambeau.ones(3)
    with forward_ad.dual_level():
        base.copy_(forward_ad.make_dual(flambeau.ones(3), t))
        assert split(base) is None
        assert forward_ad.unpack_dual(base * 2).tangent.tolist() == [2.0, 2.0, 2.0]


def test_one_jvp_counts_no_operator_for_gradients() -> None:
    """Rules of the plain case run unrecorded, and the grad mode is what it was."""
    _, t = flambeau.func.jvp(lambda x: flambeau.special.erf(x).sum(), (flambeau.ones(3),),
                             (flambeau.ones(3),))
    assert not t.requires_grad
    assert flambeau.is_grad_enabled()
