"""The first line of `fit`: how many sets of pods fit."""

from io import StringIO

import pytest

from reconciler.analysis.fitting.question import Fit
from reconciler.cli.fit import print_fit
from tests.tools.fitting_fleet import FLEET, ask, pods


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((1,), "all pods fit: 1 pod set"),
        ((9,), "1 of 1 pod set does not fit as a whole"),
        ((1, 9), "1 of 2 pod sets does not fit as a whole"),
        ((9, 9), "2 of 2 pod sets do not fit as a whole"),
    ],
)
def test_the_verdict_is_a_sentence(counts: tuple[int, ...], said: str):
    found: Fit = ask(FLEET, *(pods(f"s{at}", count) for at, count in enumerate(counts)))
    out = StringIO()
    print_fit(found, out)
    assert out.getvalue().splitlines()[0] == said
