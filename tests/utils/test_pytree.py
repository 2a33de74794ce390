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
]


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


def test_several_trees_match_to_the_depth_of_the_first() -> None:
    assert pytree.tree_map(lambda x, y: (x, y), [1, 2], [(3,), (4,)]) == [(1, (3,)), (2, (4,))]
    with pytest.raises(ValueError, match="mismatch"):
        pytree.tree_map(lambda x, y: x, [1, 2], [1])


def test_structure_counts_nodes_and_children() -> None:
    spec = pytree.tree_structure({"a": 1, "b": (2, 3)})
    assert (spec.num_nodes, spec.num_leaves, spec.num_children) == (5, 3, 2)


def test_paths_name_the_way_to_every_leaf() -> None:
    leaves, _ = pytree.tree_flatten_with_path({"a": [1], "p": Pair(2, 3)})
    assert [pytree.keystr(path) for path, _ in leaves] == ["['a'][0]", "['p'].x", "['p'].y"]
    tree = {"a": [1], "p": Pair(2, 3)}
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in leaves)


def test_structures_survive_serialization() -> None:
    spec = pytree.tree_structure({"a": [1, (2,)], "o": OrderedDict(x=1)})
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_registering_says_what_is_wrong_or_old() -> None:
    class Box:
        def __init__(self, value=None):
            self.value = value

    functions = (lambda box: ([box.value], None), lambda values, _: Box(*values))
    with pytest.raises(ValueError, match="Both to_dumpable_context and from_dumpable_context"):
        pytree.register_pytree_node(Box, *functions, serialized_type_name="test.Box",
                                    to_dumpable_context=str)
    with pytest.warns(FutureWarning, match="_register_pytree_node` is deprecated"):
        pytree._register_pytree_node(Box, *functions)
    with pytest.warns(UserWarning, match="already registered as pytree node. Overwriting"):
        pytree._register_pytree_node(Box, *functions)
    with pytest.raises(NotImplementedError, match="No registered serialization name for"):
        pytree.treespec_dumps(pytree.tree_structure(Box(1)))
    pytree._deregister_pytree_node(Box)
    with pytest.raises(NotImplementedError, match="Serializing .* in pytree is not registered"):
        pytree.treespec_dumps(pytree.TreeSpec(Box, None, []))


def test_named_tuples_have_names_in_written_specifications() -> None:
    point = namedtuple("point", "x y")
    spec = pytree.tree_structure([point(1, 2)])
    with pytest.raises(NotImplementedError, match="register using `_register_namedtuple`"):
        pytree.treespec_dumps(spec)
    pytree._register_namedtuple(point, serialized_type_name="test.point")
    assert pytree.tree_structure([point(1, 2)]) == spec
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    pytree._deregister_pytree_node(point)
