"""Trees: leaves in order, and the same tree with other leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple

import flambeau as torch
import pytest
from flambeau.tensor.tree import (
    collect_leaves, describe, get_first_leaf, get_leaves, map_leaves, map_leaves_of, with_parts,
)
from flambeau.train.state.data import detach_tensors, move

Pair = namedtuple("Pair", "x y")


def test_leaves_come_in_order() -> None:
    assert get_leaves({"b": 1, "a": (2, [3, Pair(4, None)])}) == [1, 2, 3, 4, None]
    assert get_leaves(()) == get_leaves({}) == []


def test_leaves_of_a_class_may_be_containers() -> None:
    tree = [1, "a", Pair(2.0, (3, True))]
    assert collect_leaves(int, tree) == [1, 3, True]
    assert collect_leaves((str, Pair), tree) == ["a", Pair(2.0, (3, True))]


@pytest.mark.parametrize("tree", [
    (1, 2), [1, 2], Pair(1, 2), {"b": 1, "a": 2}, OrderedDict(b=1, a=2), torch.Size([1, 2]),
    defaultdict(list, b=1, a=2),
], ids=lambda tree: type(tree).__name__)
def test_a_mapped_tree_has_the_classes_that_it_had(tree) -> None:
    mapped = map_leaves(lambda x: x + 1, tree)
    assert type(mapped) is type(tree)
    assert get_leaves(mapped) == [2, 3]
    assert get_leaves(tree) == [1, 2]
    assert with_parts(tree, [1, 2]) == tree


def test_leaves_of_a_class_are_mapped_and_others_stay() -> None:
    tree = {"a": Pair(1, "text"), "b": [2.5, None]}
    assert map_leaves_of(int, str, tree) == {"a": Pair("1", "text"), "b": [2.5, None]}


def test_the_first_leaf() -> None:
    assert get_first_leaf({"b": [(), 1], "a": 2}) == ()
    assert get_first_leaf([({"x": Pair(3, 4)},), 5]) == 3
    assert get_first_leaf({}) == {}


def test_a_tree_as_text() -> None:
    assert describe(str, {"a": (1, [2]), 3: Pair(4, 5)}) == "{'a': (1, (2)), 3: (4, 5)}"


def test_batches_of_named_tuples_move_and_detach() -> None:
    batch = Pair(torch.ones(2, requires_grad=True), [torch.zeros(1), "label"])
    x, (y, label) = move(batch, "meta")
    assert x.is_meta and y.is_meta and label == "label"
    assert type(detach_tensors(batch)) is Pair and not detach_tensors(batch).x.requires_grad


def test_meta_arrays_of_named_results() -> None:
    """NumPy's decompositions give named tuples."""
    values, vectors = torch.linalg.eigh(torch.empty(3, 3, device="meta"))
    assert values.shape == (3,) and vectors.is_meta
