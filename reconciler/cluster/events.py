"""Writes Events, events.k8s.io/v1."""

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client, Raw
from reconciler.cluster.kinds import Resource

EVENT = Resource("Event", "events.k8s.io", "v1", "events", namespaced=True)


class EventWriter:
    """Creates Events and counts repetitions. Raises the errors of `Client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, event: Raw) -> None:
        """Write a new Event."""
        await self._client.create(EVENT, event)

    async def repeat(self, key: ObjectKey, series: Raw) -> None:
        """Count another occurrence of an Event. Raises Gone if the server has deleted it."""
        await self._client.patch(EVENT, key, {"series": series})
