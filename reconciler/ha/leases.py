"""Reads the Leases of a namespace, and takes, renews and releases one. coordination.k8s.io/v1.

Every change is a PATCH that names the version it was decided from. The connection pool may send a PUT twice,
and the second one would get a conflict with the first.
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
"""Annotation: changes with each write. A write without a change makes no version, so others would not see it:
the time of day may be the same."""


class Leases:
    """Reads and writes for one candidate. Raises the errors of `Client`. A cancelled write may be applied."""

    def __init__(self, client: Client, namespace: str, *, now: Callable[[], datetime]) -> None:
        """`now` returns the time of day with its zone, which is written only for people."""
        self._client = client
        self._namespace = namespace
        self._now = now
        self._written = 0

    async def all(self, terms: Terms) -> list[Record]:
        """All our Leases as the server has them now. Missing values are taken from `terms`."""
        found = await self._client.fetch(KIND.within(self._namespace))
        try:
            return [record(raw, terms) for raw in found["items"] if is_ours(raw)]
        except (KeyError, TypeError) as exc:
            raise Retry(
                f"Leases in namespace {self._namespace}: the response is not a list of Leases"
            ) from exc

    async def bid(self, elector: Elector, bid: Bid) -> str:
        """Become or stay the holder. Returns the new version. Raises Conflict or Gone."""
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
        """Release the Lease for others, at once or after `bid.wait`."""
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
            raise Undecided(f"Lease {key}: the response to a write is not a Lease") from exc


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
