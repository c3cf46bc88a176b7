"""The cluster that a command reads: which one, its objects listed once or watched, and the room held there.

The leader writes held room to a ConfigMap; commands hold it in the state that they have read.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import random
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reconciler.api.objects.changes import Change, Listed, Notice, Replaced
from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.gangs import COSCHEDULING_LABEL, CompositePodGroup, CoschedulingPodGroup, PodGroup
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated
from reconciler.api.plugins import plugin_of
from reconciler.api.versions.reading import loaded
from reconciler.cli.connection import HELD_ROOM, Connection
from reconciler.cli.exits import Unreachable, errors_as
from reconciler.cli.output import Console, print_line, remark
from reconciler.cluster import kinds as cluster_kinds
from reconciler.errors import Gone, Malformed, Rejected, Retry

# Imported late: what talks to a cluster, and what reads held room. It takes as long to import as everything
# else that a command on a small file does. The state needs numpy, which commands that only rewrite do not.
if TYPE_CHECKING:
    from reconciler.cluster.client import Client
    from reconciler.cluster.http import HttpTransport
    from reconciler.state.nominations import Nomination
    from reconciler.state.store import Store

T = TypeVar("T")
KINDS = ("Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "Pod")
"""The kinds that a placement depends on, in the order in which a store receives them"""


def from_cluster(asked: Coroutine[Any, Any, T]) -> T:
    """The answer of a cluster. Raises Unreachable if it gives none."""
    with errors_as(Unreachable):
        return asyncio.run(asked)


@asynccontextmanager
async def connected(connection: Connection, *, announced: bool = True) -> AsyncIterator["Client"]:
    """A client of the cluster, as `reached`."""
    from reconciler.cluster.client import Client  # noqa: PLC0415 - as in `reached`

    async with reached(connection, announced=announced) as transport:
        yield Client(transport)


@asynccontextmanager
async def reached(connection: Connection, *, announced: bool = True) -> AsyncIterator["HttpTransport"]:
    """The way to the cluster. Which one it is goes to standard error: it may be another than expected.

    Raises ReconcilerError or OSError if there is none, or if it cannot be reached.
    """
    # Late import: the client library takes longer to import than commands take for files.
    from reconciler.cluster.http import connect  # noqa: PLC0415

    chosen = connect(
        server=connection.server,
        kubeconfig=connection.kubeconfig,
        context=connection.context,
        insecure=connection.insecure,
    )
    async with chosen as transport:
        if announced and not connection.quiet:
            print_line(Console(sys.stderr), f"cluster: {transport.target}")  # it names the context itself
        yield transport


WITHOUT_CLAIMS = frozenset({"Node", "Pod"})
"""Kinds that can be listed on servers without resource.k8s.io"""


async def list_objects(
    kinds: Collection[str],
    connection: Connection,
    *,
    volumes: bool = False,
    asked: Iterable[Mapping[str, Any]] = (),
    budgets: bool = False,
    leniently: bool = False,
) -> list[dict[str, Any]]:
    """Return all objects of those kinds that the server serves, as JSON with kind and apiVersion.

    With `volumes`, also the storage objects, if a pod without a node names a claim of a volume. Pods are
    returned without volumes if these cannot be listed. `asked` are pods that are not on the cluster; what
    they need is listed, too. `budgets` adds PodDisruptionBudgets, and `connection.held_room` the ConfigMaps
    that say which room is held. With `leniently`, kinds of plugins may be missing or forbidden, and
    claims may be missing where those are served.

    Raises ReconcilerError or OSError if the server cannot be read.
    """
    from reconciler.cluster.discovery import negotiate  # noqa: PLC0415 - as in `connected`

    async with connected(connection) as client:
        served = await _served(client, kinds, leniently=leniently)

        async def listed(resource: cluster_kinds.Resource) -> list[dict[str, Any]]:
            return [
                {**loaded(item)[0], "kind": resource.kind, "apiVersion": resource.api_version}
                async for page in client.list_pages(resource, limit=resource.page)
                for item in page.items
            ]

        async def noted(resource: cluster_kinds.Resource, without: str) -> list[dict[str, Any]]:
            try:
                return await listed(resource)
            except (Gone, Rejected) as exc:
                remark(f"note: {resource.full_name} {without}: {exc}")
                return []

        found: list[dict[str, Any]] = []
        for kind in kinds:
            if leniently and plugin_of(kind) is not None and kind in served:
                found += await noted(served[kind], "are not considered")
            elif kind in served:
                found += await listed(served[kind])
        pods = [raw for raw in found if raw["kind"] == cluster_kinds.POD.kind] + list(asked)
        if any(map(_selects_namespaces, pods)):
            found += await noted(cluster_kinds.NAMESPACE, "cannot be listed")
        for name in _groups_of(found):
            try:
                found += await listed(await negotiate(client, name))
            except (Gone, Rejected) as exc:
                remark(f"note: {cluster_kinds.resource_of(name).full_name} cannot be listed: {exc}")
        if budgets:
            found += await noted(cluster_kinds.BUDGET, "are not considered")
        if volumes and any(map(waits_for_volumes, pods)):
            try:
                found += [raw for resource in cluster_kinds.STORAGE for raw in await listed(resource)]
            except Rejected as exc:
                remark(f"note: volumes are not considered: {exc}")
                _remove_volumes(found)
        return found + await list_held_room(client, connection.held_room)


async def list_held_room(client: "Client", names: Iterable[str]) -> list[dict[str, Any]]:
    """The ConfigMaps of held room that exist, as `list_objects`. A note says which cannot be read.

    Raises OSError or Retry if the server cannot be reached.
    """
    found = []
    for name in names:
        try:
            found.append(await read_held_room(client, name))
        except (Gone, Rejected) as exc:
            note_unread(name, exc, remark)
    return found


async def read_held_room(client: "Client", name: str) -> dict[str, Any]:
    """One of them. Raises ReconcilerError or OSError."""
    namespace, slash, last = name.partition("/")
    if not slash or not namespace or not last:
        raise click.UsageError(f"--held-room {name}: write NAMESPACE/NAME of a ConfigMap.")
    key = ObjectKey(namespace, last)
    return {**await client.get(cluster_kinds.config_map(key), key), "kind": "ConfigMap", "apiVersion": "v1"}


def note_unread(name: str, why: Gone | Rejected, say: Callable[[str], None]) -> None:
    """Note that a ConfigMap cannot be read. It may be missing if nobody named it."""
    if not (isinstance(why, Gone) and name == HELD_ROOM):
        say(f"note: held room is not considered: {why}")


async def _served(client: "Client", kinds: Collection[str], *, leniently: bool) -> cluster_kinds.Served:
    """What the server has of these kinds. Raises Rejected if it lacks one that it must have."""
    from reconciler.cluster.discovery import discover, discover_at_least_pods  # noqa: PLC0415

    lacking: Rejected | None = None
    try:
        without_claims = all(kind in WITHOUT_CLAIMS or plugin_of(kind) is not None for kind in kinds)
        served = await (discover_at_least_pods(client) if without_claims else discover(client, also=kinds))
    except Rejected as exc:
        if not leniently:
            raise
        lacking, served = exc, await discover_at_least_pods(client)
    plugins = [plugin for kind in kinds if (plugin := plugin_of(kind)) is not None]
    try:
        for plugin in plugins:
            served = await plugin.with_kinds(client, served)
    except Rejected as exc:
        if lacking is not None or not leniently:
            raise lacking or exc from None
    return served


def _groups_of(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The kinds of PodGroups that pods name."""
    pods = [raw for raw in found if raw["kind"] == "Pod"]
    if any(raw.get("spec", {}).get("schedulingGroup") for raw in pods):
        yield PodGroup.__name__
        yield CompositePodGroup.__name__
    if any(COSCHEDULING_LABEL in (raw["metadata"].get("labels") or {}) for raw in pods):
        yield CoschedulingPodGroup.__name__


def _remove_volumes(found: Iterable[dict[str, Any]]) -> None:
    for raw in found:
        if raw["kind"] == "Pod":
            raw["spec"] = {**raw["spec"], "volumes": None}


def waits_for_volumes(pod: Mapping[str, Any]) -> bool:
    """Whether a pod without a node names a claim of a volume."""
    spec = pod.get("spec") or {}
    volumes = spec.get("volumes") or ()
    return not spec.get("nodeName") and any(
        "persistentVolumeClaim" in one or "ephemeral" in one for one in volumes
    )


def _selects_namespaces(pod: Mapping[str, Any]) -> bool:
    """Whether an affinity term of a pod, required or preferred, selects namespaces by labels."""
    affinity = pod.get("spec", {}).get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        of_kind = affinity.get(kind) or {}
        preferred = of_kind.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        required = of_kind.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        terms = [*required, *(one.get("podAffinityTerm") or {} for one in preferred)]
        if any(term.get("namespaceSelector") for term in terms):
            return True
    return False


@asynccontextmanager
async def following(
    client: "Client",
    served: cluster_kinds.Served,
    kinds: Iterable[str],
    on_change: Callable[[Change], object],
) -> AsyncIterator[None]:
    """Watch some kinds and call `on_change`; the block starts when all are listed."""
    from reconciler.cluster.watch import follow  # noqa: PLC0415 - slow, and only for this

    unlisted, listed = set(kinds), asyncio.Event()

    def receive(change: Notice) -> None:
        if not isinstance(change, Listed):
            on_change(change)
        if isinstance(change, Replaced | Listed):
            unlisted.discard(change.kind)
            if not unlisted:
                listed.set()

    async with asyncio.TaskGroup() as group:
        watches = [
            group.create_task(follow(client, served[kind], sink=receive, random=random), name=f"watch {kind}")
            for kind in kinds
        ]
        await listed.wait()
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()


NOTED = 5
"""At most so many lines say what is held for whom"""


def _today() -> datetime:
    return datetime.now(UTC)


def split_held_room(
    raws: Iterable[dict[str, Any]], now: Callable[[], datetime] = _today, say: Callable[[str], None] = remark
) -> tuple[list[dict[str, Any]], tuple["Nomination", ...]]:
    """What `list_objects` returned without those ConfigMaps, and the room that is held now by them.

    `say` gets notes of what cannot be read.
    """
    rest: list[dict[str, Any]] = []
    found: list[Nomination] = []
    for raw in raws:
        if raw["kind"] != "ConfigMap":
            rest.append(raw)
            continue
        from reconciler.control.held_room import read_held_room, still_held  # noqa: PLC0415

        try:
            one = validated(ConfigMap, raw)
            record = read_held_room(one.data, f"ConfigMap {one.key}")
        except Malformed as exc:
            say(f"note: held room is not considered: {exc}")
            continue
        for problem in record.refused:
            say(f"note: {problem}")
        found += [one for one, _ in still_held(record.nominations, now())]
    return rest, tuple(found)


def hold_room(found: Iterable["Nomination"], store: "Store") -> None:
    """Hold it in a state that a command has read."""
    for one in found:
        store.nominate(one)


class FollowedRoom:
    """Held room of a cluster that is shown live. It is read again each time.

    While that fails, room is held until its deadline.
    """

    def __init__(self, client: "Client", names: Iterable[str], now: Callable[[], datetime] = _today) -> None:
        self._client, self._now = client, now
        self._held: dict[str, tuple[Nomination, ...]] = dict.fromkeys(names, ())
        self._said: set[str] = set()

    async def hold(self, store: "Store") -> None:
        """Hold in a store what is held now. Notes say, each once, what cannot be read or must not be."""
        from reconciler.control.held_room import still_held  # noqa: PLC0415

        for name, before in list(self._held.items()):
            now: tuple[Nomination, ...] | None
            try:
                now = split_held_room([await read_held_room(self._client, name)], self._now, self._say)[1]
            except (Gone, Rejected) as exc:
                note_unread(name, exc, self._say)
                now = () if isinstance(exc, Gone) else None
            except (OSError, Retry):
                now = tuple(one for one, _ in still_held(before, self._now()))
            for one in before:
                store.end_nomination(one.nominee)
            if now is None:
                del self._held[name]
            else:
                hold_room(now, store)
                self._held[name] = now

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            remark(line)


def held_room_notes(found: Iterable["Nomination"]) -> list[str]:
    """What is held for whom, so that counts of what is free can be understood."""
    said = [f"note: {line}" for line in held_room_lines(found, lambda _: True)]
    more = [f"note: and room for {len(said) - NOTED} more"] if len(said) > NOTED else []
    return [*said[:NOTED], *more]


def note_held_room(found: Iterable["Nomination"]) -> None:
    """Print these notes."""
    for note in held_room_notes(found):
        remark(note)


def held_room_lines(found: Iterable["Nomination"], shown: Callable[["Nomination"], bool]) -> list[str]:
    """For people: what is held for some nominees, and until when."""
    return [
        f"room on {', '.join(dict.fromkeys(place.node for place in one.places))} is held for {one}"
        + (f": {', '.join(map(str, one.devices))}" if one.devices else "")
        for one in found
        if shown(one)
    ]
