"""torch.utils._pytree: containers as leaves and back again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest

from flambeau.utils import _pytree as pytree

Pair = namedtuple("Pair", "x y")

TREES = [
    1, (), [1, (2, 3)], {"b": 1, "a": [2]}, OrderedDict(b=1, a=2), Pair(1, [2]),
    deque([1, 2], maxlen=3), defaultdict(list, a=1), {"none": None},
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_leaves_and_back(tree: Any) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    assert spec.num_leaves == len(leaves)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)


def test_mapping() -> None:
    tree = {"a": 1, "b": (2, "x")}
    assert pytree.tree_map_only(int, lambda x: -x, tree) == {"a": -1, "b": (-2, "x")}
    assert pytree.tree_map(lambda x, y: (x, y), [1, 2], [3, 4]) == [(1, 3), (2, 4)]
    pair = [[1, 2], [3]]
    assert pytree.tree_map(str, pair, is_leaf=lambda x: x == [3]) == [["1", "2"], "[3]"]
    assert pytree.tree_all(lambda x: x > 0, pair)
    assert pytree.tree_any(lambda x: x > 2, pair)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="refers to a pytree that holds 2 items"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
