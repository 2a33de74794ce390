"""What the compiler knows of operators is declared with them, not listed by name elsewhere."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import flambeau as torch
from flambeau.compiler.functionalization.index_checks import label_bound
from flambeau.compiler.lowering.registry import EXPLICIT, lowering
from flambeau.ops.core.dispatch import find_pointwise_operator
from flambeau.ops.core.operator import DERIVATIVES, OPERATORS, PUBLIC, Array, Kind, Operator
from flambeau.tensor.capture_marks import SHAPE_ONLY, shape_only

PYTHON = {"__add__": ("_add", False), "__rsub__": ("_sub", True),
          "__lt__": ("lt", False), "__rmod__": ("remainder", True),
          "__and__": ("bitwise_and", False)}


@pytest.mark.parametrize("name", PYTHON)
def test_python_operators_name_theirs(name: str) -> None:
    call = find_pointwise_operator(getattr(torch.Tensor, name))
    assert call is not None
    assert (call.operator.name, call.swapped) == PYTHON[name]


def test_pointwise_functions_name_their_operators() -> None:
    for operator in OPERATORS.values():
        call = find_pointwise_operator(operator.function)
        assert call is None or call == (operator, False)
    assert find_pointwise_operator(torch.exp) is not None
    assert find_pointwise_operator(torch.softmax) is None


def test_a_lowering_names_an_operator_that_is_there() -> None:
    with pytest.raises(TypeError, match="unknown operator softmacks"):
        lowering("softmacks")(lambda x: x)
    with pytest.raises(TypeError, match="two lowerings"):
        lowering("softmax")(lambda x: x)
    assert EXPLICIT.keys() <= set(OPERATORS.values())


def test_written_parameters() -> None:
    assert OPERATORS["_batch_norm"].written_positions == (3, 4, 5, 6)
    assert OPERATORS["_layer_norm"].written_positions == (3, 4)
    assert not OPERATORS["softmax"].written_positions


def test_extents_that_follow() -> None:
    assert OPERATORS["exp"].extents_follow and OPERATORS["transpose"].extents_follow
    assert OPERATORS["cat"].extents_follow and OPERATORS["amax"].extents_follow
    assert not OPERATORS["sort"].extents_follow


@pytest.mark.parametrize("option", [{"writes": ("y",)}, {"labels": "y"}])
def test_facts_are_about_parameters(option: dict) -> None:
    def body(x: Array) -> Array:
        return x

    with pytest.raises(TypeError, match="no parameter y"):
        Operator("nameless", Kind.OPAQUE, body, dict(option))


@pytest.mark.parametrize("name", ["_cross_entropy", "_cross_entropy2d", "_nll_loss", "_nll_loss2d"])
def test_bounds_of_labels_follow_from_the_declaration(name: str) -> None:
    operator = OPERATORS[name]
    labels = np.array([0, 2])
    args = [labels if n == "target" else np.zeros((2, 3)) if n == "input" else -100
            for n in operator.names]
    bound = label_bound(SimpleNamespace(operator=operator, args=args), lambda x: x)
    assert bound is not None
    assert (bound.size, bound.ignored, bound.node is labels) == (3, -100, True)


def test_shapes_that_depend_on_values() -> None:
    marked = {name for name, function in PUBLIC["torch"].items()
              if hasattr(function, "shape_depends_on_values")}
    assert marked == {"nonzero", "argwhere", "unique", "unique_consecutive", "masked_select",
                      "bincount"}
    assert {o.name: o.value_dependent_shape for o in OPERATORS.values()
            if o.value_dependent_shape} == {
        "index": "masks", "_masked_select": "masks", "_repeat_indices": "always"}


def test_code_that_makes_arrays_of_shapes() -> None:
    def zeros(n: int) -> np.ndarray:
        return np.zeros(n)

    assert zeros.__code__ not in SHAPE_ONLY
    assert shape_only(zeros) is zeros
    assert zeros.__code__ in SHAPE_ONLY
    SHAPE_ONLY.remove(zeros.__code__)
    assert OPERATORS["exp"].vjps["input"].__code__ in DERIVATIVES
