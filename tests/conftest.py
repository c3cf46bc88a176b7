"""The clock of every test, virtual unless the test is marked `loopback`; how properties are searched; and
that what the process asks of servers, in any test, is granted by the roles of `deploy`.
"""

import asyncio
import os
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, settings

from tests.rights.session import plugin
from tests.virtual_time import VirtualLoop

# On busy machines a deadline fails by chance. `ci` is hypothesis' own: the same examples every time.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(plugin(), "rights")


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("loopback"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
