"""The version numbers of classes tell of changes to them and to their bases."""

from __future__ import annotations

from flambeau.native.foundation.class_versions import ClassVersions


def test_changes_take_the_number_away() -> None:
    class Base:
        pass

    class Derived(Base):
        pass

    class Other:
        pass

    versions = ClassVersions()
    for kind in (Derived, Other):
        versions.add(kind)
    first = versions.assign()
    assert first is not None and versions.read() == first
    assert Derived().__class__ is Derived and versions.read() == first
    Base.value = 1  # type: ignore[attr-defined]
    assert versions.read() == [0, first[1]]
    second = versions.assign()
    assert second is not None and second[0] not in (0, first[0]) and second[1] == first[1]
    Derived.__bases__ = (Other,)
    Other.value = 2  # type: ignore[attr-defined]
    assert versions.read() == [0, 0]


def test_no_classes_have_no_numbers() -> None:
    versions = ClassVersions()
    assert versions.read() == [] and versions.assign() is None
