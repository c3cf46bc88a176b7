"""The objects of a cluster, for commands that read it once."""

from collections.abc import Collection
from typing import Any

from reconciler.cli.common.connection import Connection

WITHOUT_CLAIMS = frozenset({"Node", "Pod", "Device"})
"""Kinds that can be listed on servers without resource.k8s.io"""


async def list_objects(kinds: Collection[str], connection: Connection) -> list[dict[str, Any]]:
    """Return all objects of those kinds that the server serves, as JSON with kind and apiVersion.

    Raises ReconcilerError or OSError if the server cannot be read.
    """
    # Late imports: the client library takes longer to import than these commands take for files.
    from reconciler.cluster.client import Client  # noqa: PLC0415
    from reconciler.cluster.decoding import decode  # noqa: PLC0415
    from reconciler.cluster.discovery import discover, discover_at_least_pods  # noqa: PLC0415
    from reconciler.cluster.http import connect  # noqa: PLC0415
    from reconciler.cluster.koordinator import DEVICE, with_devices  # noqa: PLC0415

    async with connect(**connection.arguments()) as transport:
        connection.announce(transport.target)
        client = Client(transport)
        without_claims = WITHOUT_CLAIMS.issuperset(kinds)
        served = await (discover_at_least_pods(client) if without_claims else discover(client, also=kinds))
        if DEVICE.kind in kinds:
            served = await with_devices(client, served)
        return [
            {**decode(item)[0], "kind": kind, "apiVersion": served[kind].api_version}
            for kind in kinds
            if kind in served
            async for page in client.list_pages(served[kind], limit=served[kind].page)
            for item in page.items
        ]
