"""Pairs of values, from which libraries derive comparisons, and the base class of their tests."""

from __future__ import annotations

import importlib

import numpy as np
import pytest


@pytest.fixture
def comparison(torch):
    return importlib.import_module(f"{torch.__name__}.testing._comparison")


@pytest.fixture
def case(torch, monkeypatch):
    """A test case. PyTorch's module freezes global flags on import, also those of other tests."""
    monkeypatch.setattr(torch.backends, "disable_global_flags", lambda: None, raising=False)
    name = f"{torch.__name__}.testing._internal.common_utils"
    return importlib.import_module(name).TestCase()


def test_what_differs_is_listed_with_its_place(torch, comparison):
    kinds = (comparison.NonePair, comparison.BooleanPair, comparison.NumberPair,
             comparison.TensorLikePair)
    x = torch.ones(3)
    failures = comparison.not_close_error_metas(
        {"a": [x, 1, None, True]}, {"a": [x + 1, 2, None, False]}, pair_types=kinds)
    assert [failure.id for failure in failures] == [("a", 0), ("a", 1), ()]
    assert "Mismatched elements: 3 / 3" in failures[0].msg
    text = str(failures[1].to_error())
    assert text.startswith("Scalars are not equal!")
    assert "The failure occurred for item ['a'][1]" in text
    assert comparison.not_close_error_metas(x, x + 1e-7, pair_types=kinds) == []
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        comparison.not_close_error_metas(x, 2, pair_types=kinds)


def test_a_derived_pair_compares_in_its_own_way(torch, comparison):
    class MeanPair(comparison.TensorLikePair):
        def __init__(self, actual, expected, *, mean=False, **other):
            super().__init__(actual, expected, **other)
            self.mean = mean

        def compare(self):
            self._compare_attributes(self.actual, self.expected)
            actual, expected = self._equalize_attributes(self.actual, self.expected)
            if not self.mean:
                super()._compare_values(actual, expected)
            elif float((actual - expected).abs().mean()) > self.atol:
                self._fail(AssertionError, "The means differ.")

    x, y = torch.zeros(4), torch.tensor([0.0, 0, 0, 2])
    options = {"pair_types": (MeanPair,), "rtol": 0, "atol": 1}
    assert comparison.not_close_error_metas(x, y, mean=True, **options) == []
    assert len(comparison.not_close_error_metas(x, y, **options)) == 1
    (failure,) = comparison.not_close_error_metas(x, y + 4, mean=True, **options)
    assert failure.msg == "The means differ."


def test_cases_compare_tensors_numbers_and_containers(torch, case):
    x, equal, differ = torch.ones(3), case.assertEqual, case.assertNotEqual
    equal(x.sum(), 3)
    equal(x, [1, 1, 1])
    equal({"a": (x, np.ones(2))}, {"a": (x, np.ones(2))})
    equal(torch.tensor(True), True)
    differ(x, x + 1)
    for a, b, message in (
        (x, x + 1, "Tensor-likes are not close"), (x[0], 2, "Scalars are not close"),
        (x, x.double(), "attribute 'dtype' do not match"), ("a", "b", "String comparison failed"),
        ([1], [1, 2], "length of the sequences mismatch"), ({1}, {2}, "Set comparison failed"),
        (None, 1, "None mismatch"),
    ):
        with pytest.raises(AssertionError, match=message):
            equal(a, b)
    with pytest.raises(AssertionError, match=r"(?s)not close.*\nmine"):
        equal(x, x + 1, "mine")
    with pytest.raises(AssertionError, match="AssertionError not raised"):
        differ(x, x)
