"""Numbered sets of labels: results of selectors are cached, and new sets are matched."""

from reconciler.plugins.koordinator.columns import MOST_SELECTORS, LabelCodes
from reconciler.plugins.koordinator.objects import LabelSelector


def selecting(value: str) -> LabelSelector:
    return LabelSelector(match_labels={"t": value})


def test_new_label_sets_are_matched_too():
    codes = LabelCodes()
    assert codes.matching(selecting("x")).tolist() == []
    assert [codes.code({"t": "x"}), codes.code({"t": "y"}), codes.code({"t": "x"})] == [0, 1, 0]
    assert codes.matching(selecting("x")).tolist() == [True, False]
    codes.code({"t": "x", "u": "1"})
    assert codes.matching(selecting("x")).tolist() == [True, False, True]
    assert codes.matching(selecting("y")).tolist() == [False, True, False]


def test_the_number_of_cached_selectors_is_bounded():
    codes = LabelCodes()
    codes.code({"t": "0"})
    for number in range(2 * MOST_SELECTORS):
        assert codes.matching(selecting(str(number))).tolist() == [number == 0]
    assert len(codes._answers) == MOST_SELECTORS
