"""A plugin for pytest: each test of `noticed_by.TESTS` runs with the protection broken that it stands for."""

from collections.abc import Iterator

import pytest

from tests.tools.simulation.mutants import EVERY
from tests.tools.simulation.noticed_by import TESTS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Break it only while the test itself runs."""
    (name,) = (name for name, test in TESTS.items() if test == item.nodeid)
    with EVERY[name]():
        return (yield)
