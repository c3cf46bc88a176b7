"""The part of a control plane that makes a demo whole: claims from templates, pods that run, claims freed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reconciler.embedded.api import ApiServer
from reconciler.embedded.controllers.claims import Claims
from reconciler.embedded.controllers.following import running
from reconciler.embedded.controllers.pods import Pods
from reconciler.embedded.controllers.templates import Templates


@asynccontextmanager
async def run_controllers(api: ApiServer) -> AsyncIterator[None]:
    """Run the controllers beside the block; leaving it stops them."""
    pods = Pods(api)
    try:
        async with running(api, [Templates(api), pods, Claims(api)]):
            yield
    finally:
        pods.stop()
