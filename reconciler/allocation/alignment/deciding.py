"""Decides claims that have wishes, by asking the allocator one plain question after another."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from reconciler.allocation.alignment.pairs import MARK, Spread, spread
from reconciler.allocation.alignment.partitions import (
    Only,
    PartitionedRequest,
    decide_partitioned,
    partitioned_requests,
)
from reconciler.allocation.alignment.preferences import NODE, Alignment, alignments, has_preferences, limit
from reconciler.allocation.alignment.refusing import misaligned, unpartitioned
from reconciler.allocation.dra import allocate
from reconciler.allocation.dra.allocate import DEFAULT_STEPS
from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.dra.constraints import ANY_DOMAIN
from reconciler.allocation.dra.node_attempt import random_share
from reconciler.api.objects.claims import TIERS, ResourceClaim
from reconciler.api.objects.plan import Granted, Plan, Reason, Unsatisfied
from reconciler.api.objects.requests import DeviceConstraint
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot.snapshot import Snapshot

MAX_COMBINATIONS = 27
"""Of tiers that are tried where the loosest cannot be had, each with a search: three alignments of three."""

_PART = re.compile(re.escape(MARK) + r"[0-9]+")
_REPEATED = re.compile(r"\b(\S+ \S+?)(?:, \1)+\b")
"""A request that is named once for each of its parts"""

Nodes = Iterable[str] | None
Levels = tuple[int, ...]
"""For each alignment, in order, which of its tiers is asked for"""
PreferenceKey = tuple[int, int | str]
"""A wish: position of the claim, and the number of an alignment or the name of a request with a partition"""


def decide(
    claims: Sequence[ResourceClaim],
    snapshot: Snapshot,
    *,
    nodes: Nodes = None,
    steps: int = DEFAULT_STEPS,
    new_share: Callable[[], str] = random_share,
    budget: Budget = UNLIMITED,
    without: Collection[PreferenceKey] = (),
) -> Granted | Unsatisfied:
    """Devices for all claims together, on one node; or why not. As `allocate`, with wishes met.

    Alignments are met from first to last: the first gets the nearest tier at which all others can still be
    had at their loosest, then the second, and so on. A nearer tier counts for more than an earlier node.
    Wishes that cannot be understood refuse the claims. Those in `without` are not looked at. A refusal says
    what would be missing without any wish; only if nothing would, that alignment or partitions refuse.
    """
    allocate_on = partial(allocate, steps=steps, new_share=new_share, budget=budget)
    if not has_preferences(claims, snapshot.classes):
        return allocate_on(claims, snapshot, nodes=nodes)
    try:
        spreads = [
            spread(claim, [alignment for n, alignment in numbered if (at, n) not in without])
            for at, claim in enumerate(claims)
            for numbered in [list(enumerate(alignments(claim, snapshot.classes)))]
        ]
        partitioned = [one for one in partitioned_requests(claims, snapshot) if one.at not in without]
    except Malformed as exc:
        return Unsatisfied(tuple(claim.key for claim in claims), Reason.PREFERENCES_INVALID, str(exc))
    among = None if nodes is None else tuple(nodes)
    return _Decision(claims, spreads, partitioned, among, snapshot, allocate_on).decide()


class _Decision:
    """One decision: what is wished, and how to ask for a part of it."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        spreads: Sequence[Spread],
        partitioned: Sequence[PartitionedRequest],
        nodes: tuple[str, ...] | None,
        snapshot: Snapshot,
        allocate_on: Callable[..., Granted | Unsatisfied],
    ) -> None:
        self._claims = claims
        self._spreads = spreads
        self._partitioned = partitioned
        self._nodes = nodes
        self._snapshot = snapshot
        self._ask = allocate_on
        self._alignments: list[tuple[int, Alignment]] = [
            (at, alignment) for at, one in enumerate(spreads) for alignment in one.alignments
        ]
        self._steps = 0

    def decide(self) -> Granted | Unsatisfied:
        """The best levels at which everything can be had, and the devices at those."""
        best: Levels = tuple(0 for _ in self._alignments)
        loosest: Levels = tuple(len(alignment.accepted) - 1 for _, alignment in self._alignments)
        outcome = self._at(best)
        if isinstance(outcome, Granted) or best == loosest:
            return self._told(outcome, best)
        outcome, levels = self._at(loosest), loosest
        if isinstance(outcome, Granted):
            return self._told(*self._nearer(outcome, levels))
        return self._told(*self._any(outcome, loosest))

    def _nearer(self, outcome: Granted, levels: Levels) -> tuple[Granted, Levels]:
        """One alignment after the other, in order, at the nearest tier that the others still allow."""
        for number in range(len(levels)):
            for level in range(levels[number]):
                nearer = (*levels[:number], level, *levels[number + 1 :])
                found = self._at(nearer)
                if isinstance(found, Granted):
                    outcome, levels = found, nearer
                    break
        return outcome, levels

    def _any(self, outcome: Unsatisfied, loosest: Levels) -> tuple[Granted | Unsatisfied, Levels]:
        """The first that can be had of all combinations of tiers, if they are few.

        What shares a nearer tier shares the farther ones, one would think: a PCIe root is on one NUMA node.
        Where the devices say otherwise, a near tier may be had although the loosest cannot.
        """
        combinations = math.prod(level + 1 for level in loosest)
        if combinations <= MAX_COMBINATIONS and outcome.reason is not Reason.GAVE_UP:
            for levels in product(*(range(level + 1) for level in loosest)):
                found = self._at(levels) if any(levels) and levels != loosest else outcome
                if isinstance(found, Granted):
                    return found, levels
                if found.reason is Reason.PARTITION:  # aligned it could be had
                    outcome = found
        return outcome, loosest

    def _at(self, levels: Levels) -> Granted | Unsatisfied:
        """The claims, each alignment at the given tier, and partitions as they come."""
        limits: dict[int, list[DeviceConstraint]] = {}
        for (at, alignment), level in zip(self._alignments, levels, strict=True):
            tier = alignment.accepted[level]
            if tier != NODE:
                limits.setdefault(at, []).append(limit(tier, alignment.requests))
        claims = [_limited(one.claim, limits.get(at, ())) for at, one in enumerate(self._spreads)]

        def allocate_on(only: Only, nodes: Nodes) -> Granted | Unsatisfied:
            narrow = {
                (at, part): rows
                for (at, request), rows in only.items()
                for part in self._spreads[at].named(request)
            }
            outcome = self._ask(claims, self._snapshot, nodes=nodes, only=narrow)
            self._steps += outcome.steps
            return outcome

        if not self._partitioned:
            return allocate_on({}, self._nodes)
        return decide_partitioned(self._partitioned, self._nodes, self._snapshot, allocate_on)

    def _told(self, outcome: Granted | Unsatisfied, levels: Levels) -> Granted | Unsatisfied:
        """The answer in the names of the claims, with the tiers that were reached."""
        if isinstance(outcome, Unsatisfied):
            return replace(self._refused(outcome), steps=self._steps)
        reached: dict[int, list[str]] = {}
        for (at, alignment), level in zip(self._alignments, levels, strict=True):
            reached.setdefault(at, []).append(alignment.accepted[level])
        plans = tuple(
            self._noted(one.restored(plan), reached.get(at, ()))
            for at, (one, plan) in enumerate(zip(self._spreads, outcome.plans, strict=True))
        )
        return replace(outcome, plans=plans, steps=self._steps)

    def _refused(self, outcome: Unsatisfied) -> Unsatisfied:
        """What lacks without any wish; if nothing does, which wish it is."""
        plain = self._ask(self._claims, self._snapshot, nodes=self._nodes)
        self._steps += plain.steps
        if isinstance(plain, Unsatisfied) and plain.reason is not Reason.GAVE_UP:
            return plain
        match outcome.reason:
            case Reason.PARTITION:
                return unpartitioned(outcome, self._claims, self._partitioned, self._nodes, self._snapshot)
        alignments = [(at, alignment) for at, alignment in self._alignments if alignment.required != NODE]
        if not alignments or outcome.reason is Reason.GAVE_UP:
            return replace(outcome, message=_whole_names(outcome.message))
        return misaligned(self._claims, alignments, self._nodes, self._snapshot)

    @staticmethod
    def _noted(plan: Plan, tiers: Sequence[str]) -> Plan:
        return replace(plan, annotations=((TIERS, ",".join(tiers)),)) if tiers else plan


def _limited(claim: ResourceClaim, limits: Sequence[DeviceConstraint]) -> ResourceClaim:
    if not limits:
        return claim
    devices = claim.spec.devices
    more = devices.model_copy(update={"constraints": (*devices.constraints, *limits)})
    return claim.model_copy(update={"spec": claim.spec.model_copy(update={"devices": more})})


def _whole_names(message: str) -> str:
    """A message of the allocator, in names that the claim and its wishes have."""
    whole = _PART.sub("", message).replace(f"{ANY_DOMAIN}/", "")
    return _REPEATED.sub(r"\1", whole)
