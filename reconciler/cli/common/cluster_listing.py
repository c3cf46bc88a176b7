"""The objects of a cluster, for commands that read it once."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.common.connection import Connection
from reconciler.cli.common.plain_text import plain
from reconciler.errors import Rejected

if TYPE_CHECKING:
    from reconciler.cluster.kinds import Resource


async def list_objects(kinds: Collection[str], connection: Connection) -> list[dict[str, Any]]:
    """Return all objects of those kinds that the server serves, as JSON with kind and apiVersion.

    Raises ReconcilerError or OSError if the server cannot be read.
    """
    # Late imports: the client library takes longer to import than these commands take for files.
    from reconciler.cluster.client import Client  # noqa: PLC0415
    from reconciler.cluster.decoding import decode  # noqa: PLC0415
    from reconciler.cluster.discovery import discover  # noqa: PLC0415
    from reconciler.cluster.http import connect  # noqa: PLC0415
    from reconciler.cluster.kinds import NAMESPACE, POD  # noqa: PLC0415

    async with connect(**connection.arguments()) as transport:
        client = Client(transport)
        served = await discover(client, also=kinds)

        async def listed(resource: "Resource") -> list[dict[str, Any]]:
            return [
                {**decode(item)[0], "kind": resource.kind, "apiVersion": resource.api_version}
                async for page in client.list_pages(resource, limit=resource.page)
                for item in page.items
            ]

        found = [raw for kind in kinds if kind in served for raw in await listed(served[kind])]
        if any(raw["kind"] == POD.kind and _selects_namespaces(raw) for raw in found):
            try:
                found += await listed(NAMESPACE)
            except Rejected as exc:
                click.echo(plain(f"note: namespaces cannot be listed: {exc}"), err=True)
        return found


def _selects_namespaces(pod: Mapping[str, Any]) -> bool:
    """Whether a required affinity term of a pod selects namespaces by labels."""
    affinity = pod.get("spec", {}).get("affinity") or {}
    return any(
        term.get("namespaceSelector")
        for kind in ("podAffinity", "podAntiAffinity")
        for term in (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    )
