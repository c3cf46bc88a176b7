"""The page is made with the first request, and serves the same paths."""

import asyncio

from reconciler.operations.page.late_routes import late_page_routes
from reconciler.operations.page.routes import page_routes
from tests.tools.builders import store
from tests.tools.still_page import Still


async def test_the_paths_are_those_of_the_page():
    sources, stop = Still(store()).sources(), asyncio.Event()
    late, page = late_page_routes(sources, stop), page_routes(sources, stop)
    assert [(route.path, route.methods) for route in late] == [(route.path, route.methods) for route in page]
