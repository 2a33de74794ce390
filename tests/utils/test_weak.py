"""torch.utils.weak: references and dictionaries by identity."""

from __future__ import annotations

import copy
import gc
import importlib

import pytest


@pytest.fixture
def weak(torch):
    return importlib.import_module(f"{torch.__name__}.utils.weak")


def test_references_compare_by_identity(torch, weak):
    x, y = torch.ones(2), torch.ones(2)
    ref = weak.WeakIdRef
    assert ref(x) == ref(x)
    assert (ref(x) == ref(y)) is False
    assert hash(ref(x)) == id(x)
    gone = ref(torch.ones(2))
    gc.collect()
    assert gone() is None
    assert (gone == ref(x)) is False
    assert weak.TensorWeakRef(x)() is x
    with pytest.raises(AssertionError, match=r"expected torch\.Tensor"):
        weak.TensorWeakRef(3)


def test_entries_go_with_their_keys(torch, weak):
    x, y = torch.ones(2), torch.ones(2)
    names = weak.WeakTensorKeyDictionary({x: "x"})
    names[y] = "y"
    assert (names[x], names[y], len(names)) == ("x", "y", 2)
    assert torch.ones(2) not in names
    del x
    gc.collect()
    assert list(names.items()) == [(y, "y")]
    del y
    gc.collect()
    assert len(names) == 0
    y = torch.ones(2)
    with pytest.raises(KeyError):
        names[y]


def test_it_is_a_mapping(torch, weak):
    x, y = torch.ones(2), torch.zeros(2)
    a, b = weak.WeakIdKeyDictionary({x: [1]}), weak.WeakIdKeyDictionary({y: [2]})
    assert dict(a | b) == {x: [1], y: [2]}
    assert a != b
    assert a == {x: [1]}
    deep = copy.deepcopy(a)
    assert deep[x] == [1]
    assert deep[x] is not a[x]
    assert a.copy()[x] is a[x]
    assert a.setdefault(y, 3) == 3
    assert a.pop(y) == 3
    assert a.get(y) is None
    assert a.popitem() == (x, [1])
    with pytest.raises(KeyError):
        a.popitem()
