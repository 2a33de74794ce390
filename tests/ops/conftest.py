"""Tests of operators are made from the registry: an argument named for a kind of operator below
runs its test once for each operator of that kind."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import flambeau
import flambeau.ops.detection  # a family that is not imported with flambeau
from flambeau.ops.core.operator import OPERATORS, Kind


def _has_samples(operator) -> bool:
    return operator.kind is not Kind.COMPOSITE and operator.samples is not None


def _has_derivative(operator) -> bool:
    declared = _has_samples(operator) and operator.differentiable
    return declared and bool(operator.vjps or operator.joint)


KINDS = {
    "declared": lambda operator: True,
    "sampled": _has_samples,
    "compared": lambda operator: _has_samples(operator) and operator.ref is not None,
    "differentiable": _has_derivative,
    "twice_differentiable": lambda operator: _has_derivative(operator) and operator.second_order,
    "pointwise": lambda operator: _has_samples(operator) and operator.kind is Kind.POINTWISE,
    "in_place": lambda operator: _has_samples(operator) and hasattr(operator, "twin"),
}


def pytest_generate_tests(metafunc):
    for kind, belongs in KINDS.items():
        if kind in metafunc.fixturenames:
            chosen = [operator for operator in OPERATORS.values() if belongs(operator)]
            metafunc.parametrize(kind, chosen, ids=[operator.name for operator in chosen])


@pytest.fixture
def rng(request):
    """A generator that depends on the test's name alone."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture(autouse=True)
def _seeded():
    flambeau.manual_seed(0)
