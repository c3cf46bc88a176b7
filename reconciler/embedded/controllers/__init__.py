"""Controllers for demos: claims from templates, running pods, deallocated claims, ready nodes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reconciler.embedded.controllers.claims import ClaimController
from reconciler.embedded.controllers.groups import PodGroupController
from reconciler.embedded.controllers.pods import PodController
from reconciler.embedded.controllers.readiness import NodeController
from reconciler.embedded.controllers.running import Controller, running
from reconciler.embedded.controllers.templates import TemplateController
from reconciler.embedded.server.api import ApiServer


@asynccontextmanager
async def run_controllers(api: ApiServer) -> AsyncIterator[None]:
    """Run the controllers during the block."""
    pods = PodController(api)
    try:
        controllers: list[Controller] = [
            PodGroupController(api),
            TemplateController(api),
            pods,
            ClaimController(api),
            NodeController(api),
        ]
        async with running(api, controllers):
            yield
    finally:
        pods.stop()
