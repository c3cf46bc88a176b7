"""Leases of one namespace on the wire: read all, take, renew and give up one. coordination.k8s.io/v1.

Every change is a PATCH that names the version it was decided from. A PUT could be sent twice by the
connection pool, and be answered with the conflict that the second had with the first.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from typing import Any

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client, Raw
from reconciler.cluster.kinds import Resource
from reconciler.errors import Retry, Undecided
from reconciler.ha.elector import Bid, Elector
from reconciler.ha.lease_reading import SHARD, WAIT, WRITE, is_ours, record
from reconciler.ha.record import Record, Terms

KIND = Resource("Lease", "coordination.k8s.io", "v1", "leases", namespaced=True)
NUMBER = "dra-reconciler.io/renewal"
"""Annotation: another at each write. One that changed nothing would make no version, and nobody would see it:
the time of day may stand still."""


class Leases:
    """Reads and writes for one candidate. Raises the errors of `Client`; a cancelled write may be applied."""

    def __init__(self, client: Client, namespace: str, *, now: Callable[[], datetime]) -> None:
        """`now` gives the time of day with its zone, which is written down for people alone."""
        self._client = client
        self._namespace = namespace
        self._now = now
        self._written = 0

    async def all(self, terms: Terms) -> list[Record]:
        """All Leases of ours as the server has them now. What one does not say is taken from `terms`."""
        found = await self._client.fetch(KIND.within(self._namespace))
        try:
            return [record(raw, terms) for raw in found["items"] if is_ours(raw)]
        except (KeyError, TypeError) as exc:
            raise Retry(f"Leases in namespace {self._namespace}: the answer is no list of them") from exc

    async def bid(self, elector: Elector, bid: Bid) -> str:
        """Become or stay the holder. Returns the version that this made. Raises Conflict, or Gone."""
        stamp = _stamp(self._now())
        spec = {
            "holderIdentity": elector.identity,
            "leaseDurationSeconds": ceil(elector.terms.lease),
            "renewTime": stamp,
            "leaseTransitions": bid.transitions,
        }
        if elector.holder != elector.identity:
            spec["acquireTime"] = stamp
        return await self._write(elector, bid, spec)

    async def give_up(self, elector: Elector, bid: Bid) -> None:
        """Let others have it at once, or when `bid.wait` is over."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _stamp(self._now())}
        await self._write(elector, bid, spec)

    async def _write(self, elector: Elector, bid: Bid, spec: dict[str, Any]) -> str:
        key = ObjectKey(self._namespace, elector.shard.lease)
        self._written += 1
        notes = {
            SHARD: str(elector.shard),
            WRITE: f"{elector.terms.write:g}",
            WAIT: f"{bid.wait:.3f}",
            NUMBER: str(self._written),
        }
        metadata: Raw = {"annotations": notes}
        if bid.version is None:
            metadata |= {"name": key.name, "namespace": key.namespace}
            body = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": spec}
            written = await self._client.create(KIND, body)
        else:
            metadata["resourceVersion"] = bid.version
            written = await self._client.patch(KIND, key, {"metadata": metadata, "spec": spec})
        try:
            return str(written["metadata"]["resourceVersion"])
        except (KeyError, TypeError) as exc:
            raise Undecided(f"Lease {key}: the answer to a write is no Lease") from exc


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
