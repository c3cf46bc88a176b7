"""What is made for every claim: equal by fields or only to itself, without room for more."""

import weakref
from dataclasses import replace

import pytest

from reconciler.api.objects.value import value


@value()
class Point:
    x: int
    y: int = 0


@value(eq=False, weakref_slot=True)
class Picture:
    x: int


def test_equal_fields_are_equal_and_hash_alike():
    assert Point(1) == Point(1, 0) != Point(1, 1)
    assert len({Point(1), Point(1, 0), replace(Point(2), x=1)}) == 1


def test_without_comparing_each_is_equal_to_itself_alone():
    one = Picture(1)
    assert one == one != Picture(1)
    assert weakref.ref(one)() is one


def test_there_is_room_for_its_fields_only():
    with pytest.raises(AttributeError):
        Point(1).z = 2  # type: ignore[attr-defined]
