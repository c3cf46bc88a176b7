"""Points of places. The property test of the preferences of pods compares them with a slow twin."""

import numpy as np

from kernels.domains import Crowd, below_greatest, between, of_greatest, uncrowded

ALL = np.ones(3, dtype=np.bool_)


def test_points_are_shares_of_the_greatest():
    raw = np.array([0, 1, 3])
    assert of_greatest(raw, ALL).tolist() == [0, 33, 100]
    assert below_greatest(raw, ALL).tolist() == [100, 67, 0]
    assert of_greatest(raw, np.array([True, True, False])).tolist()[:2] == [0, 100]
    assert below_greatest(np.zeros(3, dtype=np.int64), ALL).tolist() == [100, 100, 100]


def test_points_between_the_least_and_the_greatest():
    assert between(np.array([-100, -71, 0]), ALL).tolist() == [0, 28, 100]  # 100 x 0.29 is less than 29
    assert between(np.array([5, 5, 5]), ALL).tolist() == [0, 0, 0]
    assert between(np.array([5, 5, 9]), np.zeros(3, dtype=np.bool_)).tolist() == [0, 0, 0]


def test_crowds_count_more_over_many_domains():
    """2 x ln 5 is 3.2, 2 x ln 4 is 2.8: both are rounded to 3, and then compared."""
    each = Crowd(np.array([2, 0, 0]), np.array([1, 2, 3], dtype=np.int32), 0)
    pairs = Crowd(np.array([0, 0, 2]), np.array([1, 1, 2], dtype=np.int32), 0)
    assert uncrowded([each], ALL, ALL).tolist() == [0, 100, 100]
    assert uncrowded([each, pairs], ALL, ALL).tolist() == [0, 100, 0]
    wide = each._replace(allowance=3)
    assert uncrowded([wide], ALL, ALL).tolist() == [50, 100, 100]
    some = np.array([True, True, False])
    assert uncrowded([each], some, ALL).tolist() == [0, 100, 0]
    assert uncrowded([each], np.zeros(3, dtype=np.bool_), ALL).tolist() == [0, 0, 0]
    empty = each._replace(counts=np.zeros(3, dtype=np.int64))
    assert uncrowded([empty], some, ALL).tolist() == [100, 100, 0]
