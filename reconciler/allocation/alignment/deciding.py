"""Decides claims with preferences: calls the allocator repeatedly with plain claims."""

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_plan
from functools import partial
from itertools import product
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.allocation.alignment import partitions, preferences
from reconciler.allocation.alignment.preferences import alignments
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget
from reconciler.allocation.dra.charging import Charging, Companions
from reconciler.allocation.dra.constraints import ANY_DOMAIN
from reconciler.allocation.dra.preferred import preferred_places
from reconciler.allocation.dra.refusal_counts import count_gates, reach_of
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.policies.policy import PodRoom, Policy
from reconciler.api.objects import claims as api
from reconciler.api.objects.plan import Gate, Granted, Plan, Reason, RequestCount, Unsatisfied
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot import Snapshot

_T = TypeVar("_T", api.DeviceConstraint, api.DeviceConfig)
MARK = "~"
"""Between the name of a request and the number of its device; the API does not allow it in names"""


class SplitClaim(Struct, frozen=True):
    """A claim as the allocator gets it, with requests split."""

    claim: api.ResourceClaim
    parts: Mapping[str, tuple[str, ...]]
    """Request -> its parts, for requests that are split"""
    alignments: tuple[preferences.Alignment, ...]
    """Without `pairs`, over requests of `claim`"""

    def parts_of(self, request: str) -> tuple[str, ...]:
        """The requests of `claim` that stand for an original request."""
        return self.parts.get(request, (request,))

    def restored(self, plan: Plan) -> Plan:
        """A plan with the original names of requests."""
        if not self.parts:
            return plan
        devices = plan.allocation.devices
        results = tuple(
            part.model_copy(update={"request": original_request(part.request)}) for part in devices.results
        )
        config = tuple(_once(_restored(part) for part in devices.config))
        given = api.DeviceAllocation(results=results, config=config)
        return replace_plan(plan, allocation=plan.allocation.model_copy(update={"devices": given}))


def split_claim(claim: api.ResourceClaim, alignments: Sequence[preferences.Alignment]) -> SplitClaim:
    """A claim with its requests split as alignments in pairs need it."""
    devices = claim.spec.devices
    names = [request.name for request in devices.requests]
    paired = {name for alignment in alignments if alignment.pairs for name in alignment.requests or names}
    parts = {
        request.name: tuple(f"{request.name}{MARK}{number}" for number in range(asked.wanted))
        for request in devices.requests
        if request.name in paired and (asked := preferences.exact(request)) is not None and asked.wanted > 1
    }
    aligned = tuple(_aligned(alignments, names, parts))
    if not parts:
        return SplitClaim(claim, {}, aligned)
    split = devices.model_copy(
        update={
            "requests": tuple(_split(devices.requests, parts)),
            "constraints": tuple(_widened(part, parts) for part in devices.constraints),
            "config": tuple(_widened(part, parts) for part in devices.config),
        }
    )
    return SplitClaim(claim.replacing("spec", devices=split), parts, aligned)


def _aligned(
    alignments: Iterable[preferences.Alignment], names: Sequence[str], parts: Mapping[str, tuple[str, ...]]
) -> Iterator[preferences.Alignment]:
    for alignment in alignments:
        requests = alignment.requests or tuple(names)
        pieces = [parts.get(name, (name,)) for name in requests]
        alone = (
            zip(*pieces, strict=True) if alignment.pairs else [[part for piece in pieces for part in piece]]
        )
        for together in alone:
            yield alignment.model_copy(update={"requests": tuple(together), "pairs": False})


def _split(
    requests: Iterable[api.DeviceRequest], parts: Mapping[str, tuple[str, ...]]
) -> Iterator[api.DeviceRequest]:
    for request in requests:
        if request.name not in parts or request.exactly is None:
            yield request
            continue
        part = request.exactly.model_copy(update={"count": 1})
        for name in parts[request.name]:
            yield request.model_copy(update={"name": name, "exactly": part})


def _widened(limited: _T, parts: Mapping[str, tuple[str, ...]]) -> _T:
    """A constraint or configuration of requests, over their parts. No names mean all requests, as before."""
    if not limited.requests:
        return limited
    requests = tuple(part for name in limited.requests for part in parts.get(name, (name,)))
    return limited.model_copy(update={"requests": requests})


def original_request(request: str) -> str:
    """The request of the claim that a part belongs to."""
    return request.partition(MARK)[0]


def _restored(config: api.AllocatedConfig) -> api.AllocatedConfig:
    if not config.requests:  # unset fields must stay unset: they are not written
        return config
    return config.model_copy(
        update={"requests": tuple(dict.fromkeys(map(original_request, config.requests)))}
    )


def _once(found: Iterable[api.AllocatedConfig]) -> Iterator[api.AllocatedConfig]:
    seen: list[api.AllocatedConfig] = []
    for config in found:
        if config not in seen:
            seen.append(config)
            yield config


ALIGNED = "are near enough to each other"
PARTITIONED = "are a partition that may be given"
NodeNames = Collection[str] | None


def misaligned(
    claims: Sequence[api.ResourceClaim],
    alignments: Sequence[tuple[int, preferences.Alignment]],
    nodes: NodeNames,
    snapshot: Snapshot,
) -> Unsatisfied:
    """No node has devices near enough. `alignments` are those that require a tier, by claim."""
    concerned = {
        (at, original_request(name)): None
        for at, alignment in alignments
        for name in alignment.requests or [request.name for request in claims[at].spec.devices.requests]
    }
    names = ", ".join(f"{claims[at].key} {name}" for at, name in concerned)
    tiers = ", ".join(dict.fromkeys(alignment.required for _, alignment in alignments))
    message = f"no node has devices for {names} that share {tiers}, which joint allocation requires"
    keys = tuple(claim.key for claim in claims)
    refused = Unsatisfied(keys, Reason.ALIGNMENT, message)
    return _counted(refused, claims, concerned, ALIGNED, nodes, snapshot)


def unpartitioned(
    refused: Unsatisfied,
    claims: Sequence[api.ResourceClaim],
    partitioned: Iterable[partitions.PartitionedRequest],
    nodes: NodeNames,
    snapshot: Snapshot,
) -> Unsatisfied:
    """`refused` with counts."""
    concerned = {one.at for one in partitioned if one.honored}
    return _counted(refused, claims, concerned, PARTITIONED, nodes, snapshot)


def _counted(
    refused: Unsatisfied,
    claims: Sequence[api.ResourceClaim],
    concerned: Collection[tuple[int, str]],
    name: str,
    nodes: NodeNames,
    snapshot: Snapshot,
) -> Unsatisfied:
    """With the counts of the tests for single devices; the last gate, `name`, leaves none."""
    reach = reach_of(snapshot.topology, nodes)
    counts = []
    for slot in read_claims(claims, snapshot.classes, snapshot.rules).slots:
        for option in slot.options:
            gates = count_gates(option, snapshot, reach).gates
            if (option.claim, option.request) in concerned:
                gates = (*gates, Gate(name, 0))
            wanted = None if option.all else option.source.wanted
            counts.append(RequestCount(claims[option.claim].key, option.name, wanted, gates))
    return replace(refused, nodes=len(reach.names), counts=tuple(counts))


MAX_COMBINATIONS = 27
"""Combinations of tiers that are tried where the loosest does not fit: three alignments of three tiers."""

_PART = re.compile(re.escape(MARK) + r"[0-9]+")
_REPEATED = re.compile(r"\b(\S+ \S+?)(?:, \1)+\b")
"""A request that a message names once for each of its parts"""

NodeChoices = Iterable[str] | None
Levels = tuple[int, ...]
"""For each alignment, in order, the index of a tier"""
PreferenceKey = tuple[int, int | str]
"""Position of the claim, and the number of an alignment or the name of a request with a partition"""


def decide(
    claims: Sequence[api.ResourceClaim],
    snapshot: Snapshot,
    *,
    nodes: NodeChoices = None,
    steps: int = STEPS,
    budget: Budget = UNLIMITED,
    without: Collection[PreferenceKey] = (),
    companions: Companions | None = None,
    charging: Charging | None = None,
    only: partitions.Only | None = None,
    policy: Policy | None = None,
    pod: PodRoom | None = None,
) -> Granted | Unsatisfied:
    """Devices for all claims together on one node, or why there are none. As `allocate`, with preferences.

    Alignments are met from first to last: the first gets the nearest tier that leaves all others possible
    at their loosest tiers, then the second, and so on. A nearer tier is more important than an earlier node.
    Invalid preferences refuse the claims. Preferences in `without` are ignored. `only` restricts requests to
    some devices. A refusal says what would be missing without any preference; if nothing would, it names
    alignment or partitions. `companions` are pods that use the claims, too: without nodes for all of them,
    the claims are refused. `charging`, `policy` and `pod` are those of `allocate`: the policy chooses among
    equal tiers.
    """
    allocate_on = partial(
        allocate,
        steps=steps,
        budget=budget,
        companions=companions,
        charging=charging,
        policy=policy,
        pod=pod,
    )
    prefer = preferred_places(claims, snapshot, policy, pod)
    outcome = _decide(claims, snapshot, nodes, without, only, prefer, allocate_on)
    if companions is None or isinstance(outcome, Granted) or outcome.reason.is_error:
        return outcome
    alone = _decide(claims, snapshot, nodes, without, only, prefer, partial(allocate_on, companions=None))
    if isinstance(alone, Unsatisfied):
        return alone
    return replace(outcome, reason=Reason.PODS_COMPETE, message=companions.refusal())


def _decide(
    claims: Sequence[api.ResourceClaim],
    snapshot: Snapshot,
    nodes: NodeChoices,
    without: Collection[PreferenceKey],
    only: partitions.Only | None,
    prefer: partitions.InOrder | None,
    allocate_on: Callable[..., Granted | Unsatisfied],
) -> Granted | Unsatisfied:
    if not preferences.has_preferences(claims, snapshot.classes):
        return allocate_on(claims, snapshot, nodes=nodes, only=only)
    try:
        splits = [
            split_claim(claim, [alignment for n, alignment in numbered if (at, n) not in without])
            for at, claim in enumerate(claims)
            for numbered in [list(enumerate(alignments(claim, snapshot.classes)))]
        ]
        partitioned = [
            one for one in partitions.partitioned_requests(claims, snapshot) if one.at not in without
        ]
    except Malformed as exc:
        return Unsatisfied(tuple(claim.key for claim in claims), Reason.PREFERENCES_INVALID, str(exc))
    considered = None if nodes is None else tuple(nodes)
    return _Decision(
        claims, splits, partitioned, considered, snapshot, allocate_on, only or {}, prefer
    ).decide()


class _Decision(Struct, eq=False):
    """One decision about claims with preferences."""

    _claims: Sequence[api.ResourceClaim]
    _splits: Sequence[SplitClaim]
    _partitioned: Sequence[partitions.PartitionedRequest]
    _nodes: tuple[str, ...] | None
    _snapshot: Snapshot
    _allocate: Callable[..., Granted | Unsatisfied]
    _only: partitions.Only
    _prefer: partitions.InOrder | None
    _steps: int = 0

    @property
    def _alignments(self) -> list[tuple[int, preferences.Alignment]]:
        return [(at, alignment) for at, one in enumerate(self._splits) for alignment in one.alignments]

    def decide(self) -> Granted | Unsatisfied:
        """Devices at the best levels that fit, or a refusal."""
        best: Levels = tuple(0 for _ in self._alignments)
        loosest: Levels = tuple(len(alignment.accepted) - 1 for _, alignment in self._alignments)
        outcome = self._at(best)
        if isinstance(outcome, Granted) or best == loosest:
            return self._answer(outcome, best)
        outcome, levels = self._at(loosest), loosest
        if isinstance(outcome, Granted):
            return self._answer(*self._improve(outcome, levels))
        return self._answer(*self._try_all(outcome, loosest))

    def _improve(self, outcome: Granted, levels: Levels) -> tuple[Granted, Levels]:
        """Move each alignment, in order, to the nearest tier that still fits with the others."""
        for number in range(len(levels)):
            for level in range(levels[number]):
                nearer = (*levels[:number], level, *levels[number + 1 :])
                found = self._at(nearer)
                if isinstance(found, Granted):
                    outcome, levels = found, nearer
                    break
        return outcome, levels

    def _try_all(self, outcome: Unsatisfied, loosest: Levels) -> tuple[Granted | Unsatisfied, Levels]:
        """The first combination of tiers that fits, if there are few combinations.

        Normally devices that share a nearer tier share the farther ones: a PCIe root is on one NUMA node.
        Where devices say otherwise, a near tier may fit although the loosest does not.
        """
        combinations = math.prod(level + 1 for level in loosest)
        if combinations <= MAX_COMBINATIONS and outcome.reason is not Reason.GAVE_UP:
            for levels in product(*(range(level + 1) for level in loosest)):
                found = self._at(levels) if any(levels) and levels != loosest else outcome
                if isinstance(found, Granted):
                    return found, levels
                if found.reason is Reason.PARTITION:  # it fits with the alignments
                    outcome = found
        return outcome, loosest

    def _at(self, levels: Levels) -> Granted | Unsatisfied:
        """The answer with each alignment at the given tier."""
        limits: dict[int, list[api.DeviceConstraint]] = {}
        for (at, alignment), level in zip(self._alignments, levels, strict=True):
            tier = alignment.accepted[level]
            if tier != preferences.NODE:
                limits.setdefault(at, []).append(preferences.limit(tier, alignment.requests))
        claims = [_limited(one.claim, limits.get(at, ())) for at, one in enumerate(self._splits)]

        def allocate_on(only: partitions.Only, nodes: NodeChoices) -> Granted | Unsatisfied:
            both = {
                key: rows & self._only[key] if key in self._only else rows
                for key, rows in {**self._only, **only}.items()
            }
            narrow = {
                (at, part): rows
                for (at, request), rows in both.items()
                for part in self._splits[at].parts_of(request)
            }
            outcome = self._allocate(claims, self._snapshot, nodes=nodes, only=narrow)
            self._steps += outcome.steps
            return outcome

        if not self._partitioned:
            return allocate_on({}, self._nodes)
        return partitions.decide_partitioned(
            self._partitioned, self._nodes, self._snapshot, allocate_on, self._prefer
        )

    def _answer(self, outcome: Granted | Unsatisfied, levels: Levels) -> Granted | Unsatisfied:
        """The answer with the original request names and the tiers that were reached."""
        if isinstance(outcome, Unsatisfied):
            return replace(self._refused(outcome), steps=self._steps)
        reached: dict[int, list[str]] = {}
        for (at, alignment), level in zip(self._alignments, levels, strict=True):
            reached.setdefault(at, []).append(alignment.accepted[level])
        plans = tuple(
            self._annotated(one.restored(plan), reached.get(at, ()))
            for at, (one, plan) in enumerate(zip(self._splits, outcome.plans, strict=True))
        )
        return dataclasses.replace(outcome, plans=plans, steps=self._steps)

    def _refused(self, outcome: Unsatisfied) -> Unsatisfied:
        """Why the claims do not fit without preferences; if they do, which preferences refuse them."""
        plain = self._allocate(self._claims, self._snapshot, nodes=self._nodes, only=self._only)
        self._steps += plain.steps
        if isinstance(plain, Unsatisfied) and plain.reason is not Reason.GAVE_UP:
            return plain
        if outcome.reason is Reason.PARTITION:
            return unpartitioned(outcome, self._claims, self._partitioned, self._nodes, self._snapshot)
        alignments = [
            (at, alignment) for at, alignment in self._alignments if alignment.required != preferences.NODE
        ]
        if not alignments or outcome.reason is Reason.GAVE_UP:
            return replace(outcome, message=_original_names(outcome.message))
        return misaligned(self._claims, alignments, self._nodes, self._snapshot)

    @staticmethod
    def _annotated(plan: Plan, tiers: Sequence[str]) -> Plan:
        return dataclasses.replace(plan, annotations=((api.TIERS, ",".join(tiers)),)) if tiers else plan


def _limited(claim: api.ResourceClaim, limits: Sequence[api.DeviceConstraint]) -> api.ResourceClaim:
    if not limits:
        return claim
    devices = claim.spec.devices
    more = devices.model_copy(update={"constraints": (*devices.constraints, *limits)})
    return claim.replacing("spec", devices=more)


def _original_names(message: str) -> str:
    """A message of the allocator with the original names of requests and attributes."""
    original_request = _PART.sub("", message).replace(f"{ANY_DOMAIN}/", "")
    return _REPEATED.sub(r"\1", original_request)
