"""Sets of labels by number: what a selector said once holds, and new sets are asked about."""

from reconciler.api.koordinator.selectors import LabelSelector
from reconciler.state.koordinator.labels import KEPT, LabelCodes


def selecting(value: str) -> LabelSelector:
    return LabelSelector(match_labels={"t": value})


def test_sets_that_come_later_are_asked_about_too():
    codes = LabelCodes()
    assert codes.matching(selecting("x")).tolist() == []
    assert [codes.code({"t": "x"}), codes.code({"t": "y"}), codes.code({"t": "x"})] == [0, 1, 0]
    assert codes.matching(selecting("x")).tolist() == [True, False]
    codes.code({"t": "x", "u": "1"})
    assert codes.matching(selecting("x")).tolist() == [True, False, True]
    assert codes.matching(selecting("y")).tolist() == [False, True, False]


def test_only_so_many_selectors_are_kept():
    codes = LabelCodes()
    codes.code({"t": "0"})
    for number in range(2 * KEPT):
        assert codes.matching(selecting(str(number))).tolist() == [number == 0]
    assert len(codes._answers) == KEPT
