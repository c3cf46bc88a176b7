"""Compiled selectors are found again by their text; only so many are kept."""

from threading import Barrier, Thread

import pytest

from reconciler.cel import program
from reconciler.cel.check import DEVICE_SELECTOR, Environment
from reconciler.cel.errors import CelRefused
from reconciler.cel.program import Selector, Selectors
from reconciler.cel.values import DeviceView
from tests.tools.cel_rows import rows_of

SIZE = 3


def test_the_selectors_used_last_are_kept():
    selectors = Selectors(DEVICE_SELECTOR, SIZE)
    made = {number: selectors.compile(f"{number} == 0") for number in range(SIZE)}
    assert selectors.compile("0 == 0") is made[0]
    selectors.compile("3 == 0")  # for which the one goes that was not used for longest
    assert selectors.compile("0 == 0") is made[0]
    assert selectors.compile("2 == 0") is made[2]
    assert selectors.compile("1 == 0") is not made[1]


def test_what_cannot_be_compiled_takes_no_place():
    selectors = Selectors(DEVICE_SELECTOR, 1)
    kept = selectors.compile("true")
    for _ in range(2):
        with pytest.raises(CelRefused):
            selectors.compile("true +")
    assert selectors.compile("true") is kept


def test_steps_are_known_of_selectors_that_ran_and_asking_compiles_nothing():
    selectors = Selectors(DEVICE_SELECTOR, SIZE)
    assert selectors.spent_on("true") == -1
    selector = selectors.compile("true")
    assert selectors.spent_on("true") == -1
    selector.masks(rows_of([DeviceView(driver="d.io")]))
    assert selectors.spent_on("true") == selector.spent >= 0


def test_threads_that_compile_a_text_at_once_get_the_same_selector(monkeypatch: pytest.MonkeyPatch):
    both = Barrier(2, timeout=60)

    class Slow(Selector):
        def __init__(self, expression: str, environment: Environment) -> None:
            both.wait()  # neither is known yet
            super().__init__(expression, environment)

    monkeypatch.setattr(program, "Selector", Slow)
    selectors, found = Selectors(DEVICE_SELECTOR, SIZE), list[Selector]()
    threads = [Thread(target=lambda: found.append(selectors.compile("true"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] is found[1] is selectors.compile("true")
