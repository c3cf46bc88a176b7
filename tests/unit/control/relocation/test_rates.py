"""How many evictions are allowed in a minute and in an hour, compared with counting all of them."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.control.relocation.evictor import HOUR, MINUTE, Rates


@given(st.lists(st.floats(0, 900), max_size=40), st.integers(1, 4), st.integers(1, 8))
def test_no_minute_and_no_hour_has_more_than_is_allowed(gaps: list[float], minute: int, hour: int):
    rates, now = Rates(minute, hour), 0.0
    granted: list[float] = []
    for gap in gaps:
        now += gap
        wait = rates.wait(now)
        lately = [len([at for at in granted if now - span < at]) for span in (MINUTE, HOUR)]
        assert (wait <= 0) == (lately[0] < minute and lately[1] < hour)
        if wait <= 0:
            rates.count(now)
            granted.append(now)


def test_it_says_how_long_to_wait():
    rates = Rates(2, 3)
    for now in (0.0, 10.0):
        rates.count(now)
    assert rates.wait(20.0) == 40.0
    assert rates.wait(60.0) == 0.0
    rates.count(60.0)
    assert rates.wait(70.0) == 3530.0
