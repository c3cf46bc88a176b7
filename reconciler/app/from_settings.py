"""What settings and the discovery of the API say: which kinds to watch, which credentials to use."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple

import structlog
from msgspec import Struct
from msgspec.structs import replace

from reconciler.allocation.policies.demand import NO_DEMAND, ReadDemand
from reconciler.allocation.policies.names import Weighing
from reconciler.allocation.policies.selection import Policies
from reconciler.analysis.relocation.goals import Target, parse_goal
from reconciler.api.objects.semantics import Semantics, with_gates
from reconciler.api.plugins import PLUGINS
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, missing_gates, unserved
from reconciler.cluster.kinds import Resource, Served
from reconciler.control.demand import read_demand_file
from reconciler.control.ownership import Ownership
from reconciler.errors import Malformed, Rejected
from reconciler.ha.elector import LONGEST, Terms
from reconciler.ha.shard import Shard, parse_shard
from reconciler.settings import Settings


def check(settings: Settings) -> None:
    """Raise Rejected for invalid settings, before anything is started or requested."""
    for plugin in PLUGINS:
        plugin.check(settings)
    ownership(settings)
    rules(settings)
    shard_of(settings)
    terms_of(settings)
    policies(settings)
    goals(settings)


def goals(settings: Settings) -> tuple[Target, ...]:
    """The standing goals of rebalancing. Raises Rejected for one that cannot be read."""
    try:
        return tuple(parse_goal(text.strip()) for text in settings.rebalance_goals.split(","))
    except Rejected as exc:
        raise Rejected(f"setting rebalance_goals: {exc}") from exc


def ownership(settings: Settings) -> Ownership:
    """What this controller owns. Raises Rejected if that is nothing on a live cluster."""
    ours = Ownership(
        all_claims=settings.all_claims,
        drivers=settings.own_drivers,
        classes=settings.own_classes,
        alone=settings.embedded,
        shard=shard_of(settings),
    )
    if settings.mode == "shadow" and not ours.writes:  # nothing is written, so nothing must be owned
        return replace(ours, alone=True)
    if not ours.writes and not settings.koordinator:
        raise Rejected(
            "no driver or class is owned, so nothing may be written: the API does not protect a device "
            "from two allocators. Set --own-driver or --own-class to devices that only this controller "
            "allocates, or --koordinator if it alone allocates Koordinator's devices"
        )
    return ours


def rules(settings: Settings, *, lacking: frozenset[str] = frozenset()) -> Semantics:
    """The rules to follow. Raises Rejected for an unknown feature gate."""
    gates = with_gates(settings.feature_gates, lacking=lacking)
    modes, scopes = settings.group_modes.items(), settings.exclusion_scopes.items()
    return Semantics(settings.semantics, gates, frozenset(modes), frozenset(scopes))


def policies(settings: Settings) -> tuple[Policies, tuple[Malformed, ...]]:
    """The placement policies, and what of the demand file is left out. Raises Malformed for other files."""
    read = ReadDemand(NO_DEMAND) if settings.demand is None else read_demand_file(settings.demand)
    names = tuple(sorted(settings.policy.items()))
    preferences = None if settings.preferences is None else Weighing(settings.preferences)
    return Policies(names, read.demand, preferences=preferences), read.refused


def elects(settings: Settings) -> bool:
    """Whether a Lease decides who may write. In shadow mode nobody writes."""
    return settings.leader_elect and settings.mode != "shadow"


def shard_of(settings: Settings) -> Shard:
    """The shard of this process. Raises Rejected if other settings exclude it."""
    shard = parse_shard(settings.shard)
    if shard.whole:
        return shard
    if not elects(settings):
        raise Rejected("--shard needs Leases to exclude other processes: add --leader-elect, or drop --shard")
    return shard


def terms_of(settings: Settings) -> Terms:
    """The durations of the Lease. Raises Rejected for those with which no process could ever write."""
    terms = Terms(
        settings.lease_seconds, settings.renew_seconds, settings.retry_seconds, settings.write_seconds
    )
    ordered: Iterable[tuple[str, float, str, float]] = (
        ("lease_seconds", terms.lease, "renew_seconds", terms.renew),
        ("renew_seconds", terms.renew, "retry_seconds", terms.retry),
        ("lease_seconds", terms.lease, "write_seconds and retry_seconds together", terms.write + terms.retry),
    )
    for name, more, than, less in ordered:
        if more <= less:
            raise Rejected(f"setting {name}: must be more than {than}, {less:g}, got {more:g}")
    if elects(settings) and terms.lease > LONGEST:  # other replicas would ignore a longer Lease
        raise Rejected(f"setting lease_seconds: must be {LONGEST:g} at most, got {terms.lease:g}")
    return terms


log = structlog.get_logger()


class Found(Struct, frozen=True):
    """The kinds that the server serves, and the feature gates that it lacks."""

    served: Served
    off: frozenset[str]


async def discovered(client: Client, settings: Settings) -> Found:
    """Ask the server. Raises Rejected if it does not serve the kinds that the settings need."""
    resources: dict[str, Resource] = {}
    for plugin in PLUGINS:
        if (more := await plugin.discover(client, settings)) is not None:
            resources |= more.resources
    served = Served(resources) if resources else await discover(client)
    return Found(served, await missing_gates(client, served))


def log_lacks(found: Found) -> None:
    """Log kinds and gates that the server lacks."""
    missing = unserved(found.served)
    if "ResourceClaim" not in found.served:
        log.info("ResourceClaims are not served", not_served=missing, gates=sorted(found.off))
    elif missing or found.off:
        log.info("API server lacks kinds or feature gates", not_served=missing, gates=sorted(found.off))


Work = Callable[[], Coroutine[Any, Any, object]]


class Job(NamedTuple):
    """The name of the task and its function, which runs until cancelled."""

    name: str
    run: Work
    finish: Work | None = None
    """Called after `run` has ended and the last write is done, at an ordinary stop. Must not take long"""
