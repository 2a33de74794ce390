"""Arguments in memory that a step reaches otherwise are calls of another kind, while it lives."""

import weakref

import numpy as np

from flambeau.compiler.driver.specialization_key import describe_overlap
from flambeau.tensor.tensor import wrap


def test_only_living_memory_counts():
    array, other = np.zeros(3), np.zeros(3)
    call = ((wrap(array),), {})
    assert describe_overlap(call, {id(array): weakref.ref(array)}) == ((0, id(array)),)
    assert describe_overlap(call, {id(array): weakref.ref(other)}) == ()
    gone = weakref.ref(np.zeros(1))
    assert gone() is None and describe_overlap(call, {id(array): gone}) == ()
