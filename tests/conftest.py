"""The clock of every test: virtual, unless the test is marked `loopback`."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("loopback"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
