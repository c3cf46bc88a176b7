"""The clock of every test, virtual unless the test is marked `loopback`; and how properties are searched."""

import asyncio
import os
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, settings

from tests.virtual_time import VirtualLoop

# On busy machines a deadline fails by chance. `ci` is hypothesis' own: the same examples every time.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("loopback"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
