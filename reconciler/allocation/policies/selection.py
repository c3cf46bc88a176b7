"""Which policy decides which claims: by DeviceClass, by driver, or for all others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.groups import distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.budget import UNLIMITED, Budget, Fatal, SelectorsNotRun
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.request_options import ParsedClaims, RequestKey, RequestOption, Slot
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.allocation.policies.demand import NO_DEMAND, Demand
from reconciler.allocation.policies.expected_fill import ExpectedFill
from reconciler.allocation.policies.fragmentation import Fgd
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.names import FIRST_FIT, POLICIES, Weighing
from reconciler.allocation.policies.policy import BEST_FIT, SPREAD, Policy, PolicyQuestion, SetJudge
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.similar_names import instead
from reconciler.errors import Rejected
from reconciler.state.caches import Cache
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, View

_MADE: Mapping[str, Callable[[Demand, int], Policy | None]] = {
    FIRST_FIT: lambda _demand, _seed: None,
    BEST_FIT.name: lambda _demand, _seed: BEST_FIT,
    SPREAD.name: lambda _demand, _seed: SPREAD,
    "least-loss": lambda demand, _seed: LeastLoss(demand, guarded=True),
    "fgd": lambda demand, _seed: Fgd(demand),
    "expected-fill": ExpectedFill,
}


def policy_named(name: str, demand: Demand, *, seed: int = 0) -> Policy | None:
    """A policy with the demand that it keeps room for; None for first fit. `name` is one of `POLICIES`."""
    return _MADE[name](demand, seed)


OTHERS = "*"
"""Stands for all claims that no other entry names"""
CLASS = "class:"
"""Starts an entry that names a DeviceClass; other entries name drivers"""
OF_PODS = ("fgd", "expected-fill")
"""Policies that look at the CPU of pods"""
OF_DEMAND = ("least-loss", *OF_PODS)
"""Policies that keep room for a demand"""


def parse_policies(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """`NAME` for all, `DRIVER=NAME` and `class:CLASS=NAME`; the last of each counts.

    Returns what each entry applies to, and the name of its policy. Raises Rejected for an unknown policy.
    """
    found: dict[str, str] = {}
    for text in texts:
        target, equals, name = text.strip().rpartition("=")
        if (equals and not target) or target == CLASS:
            raise Rejected(f"policy {text!r}: write NAME, DRIVER=NAME or {CLASS}CLASS=NAME")
        if name not in POLICIES:
            raise Rejected(
                f"policy {text!r}: there is no policy {name!r}{instead(name, POLICIES, 'policies')}"
            )
        found[target or OTHERS] = name
    return tuple(sorted(found.items()))


class Policies(Struct, frozen=True, dict=True):
    """The policies of one configuration, with the demand that they keep room for. Immutable."""

    names: tuple[tuple[str, str], ...] = ()
    """Of `parse_policies`; empty is first fit for all claims"""
    demand: Demand = NO_DEMAND
    seed: int = 0
    preferences: Weighing | None = None
    """When the preferences of pods count; None for the default"""

    @property
    def weighing(self) -> Weighing:
        """When the preferences of pods count: by default after the policy, and not under first fit."""
        if self.preferences is not None:
            return self.preferences
        return Weighing.OFF if self.first_fit else Weighing.LAST

    @cached_property
    def first_fit(self) -> bool:
        """Whether first fit decides all claims."""
        return all(name == FIRST_FIT for _, name in self.names)

    @property
    def order_nothing(self) -> bool:
        """Whether nodes are tried by name, and devices in first-fit order, whatever the pod."""
        return self.first_fit and self.weighing is Weighing.OFF

    @cached_property
    def looks_at_pods(self) -> bool:
        """Whether a policy uses the CPU that pods need and nodes have."""
        return any(name in OF_PODS for _, name in self.names)

    @cached_property
    def uses_demand(self) -> bool:
        """Whether a policy keeps room for a demand."""
        return any(name in OF_DEMAND for _, name in self.names)

    @cached_property
    def _by_target(self) -> Mapping[str, Policy | None]:
        made = {name: policy_named(name, self.demand, seed=self.seed) for _, name in self.names}
        return {target: made[name] for target, name in self.names}

    def of(
        self, claims: Sequence[ResourceClaim], snapshot: Snapshot, budget: Budget = UNLIMITED
    ) -> Policy | None:
        """The policy that decides claims together; None for first fit.

        None also where the decision ends without a search: as invalid, or because `budget` does not allow the
        selectors to run. Raises SelectorsNotRun if it does not allow those of the demand.
        """
        if self.first_fit:
            return None
        targets = self._by_target
        if budget.skips_slow_selectors and self.uses_demand and not self.demand.is_ready(snapshot):
            raise SelectorsNotRun("the selectors of the demand must run on the fleet first")
        if targets.keys() == {OTHERS}:
            return targets[OTHERS]
        try:
            shape = claim_shape(claims, snapshot)
        except Fatal:
            return None
        if (budget.skips_slow_selectors and not shape.quick(snapshot)) or shape.overspent(snapshot):
            return None
        return self.of_slots(shape.parsed.slots, snapshot)

    def of_slots(self, slots: Sequence[Slot], snapshot: Snapshot) -> Policy | None:
        """The policy for several requests: their common one, or each its own. None for first fit."""
        by_slot = [self.of_option(slot.options[0], snapshot) for slot in slots]
        used: list[Policy] = []
        for one in by_slot:
            if one is not None and all(one is not other for other in used):
                used.append(one)
        if not used:
            return None
        return used[0] if all(one is used[0] for one in by_slot) else ByRequest(self, tuple(used))

    def of_option(self, option: RequestOption, snapshot: Snapshot) -> Policy | None:
        """The policy of one request: that of its class, or of the driver of devices that suit it."""
        targets = self._by_target
        own = CLASS + option.device_class.key.name
        if own in targets:
            return targets[own]
        for driver in _drivers(option, snapshot):
            if driver in targets:
                return targets[driver]
        return targets.get(OTHERS)


class ByRequest(Struct, frozen=True, eq=False):
    """Requests of one decision with different policies. The first policy chooses the node, for its requests.

    Inside the node, each request gets its devices in the order of its own policy.
    """

    policies: Policies
    used: tuple[Policy, ...]
    """All but first fit, in the order of the requests"""

    @property
    def name(self) -> str:
        """The names of all, in the order of the requests."""
        return "+".join(one.name for one in self.used)

    @property
    def seed(self) -> int:
        """See `Policy.seed`."""
        return self.policies.seed

    @property
    def digest(self) -> str:
        """See `Policy.digest`."""
        return self.policies.demand.digest

    def nodes(self, question: PolicyQuestion, among: Mask) -> Amounts | None:
        """See `Policy.nodes`."""
        leading, snapshot = self.used[0], question.snapshot
        slots = tuple(
            slot
            for slot in question.parsed.slots
            if self.policies.of_option(slot.options[0], snapshot) is leading
        )
        own = replace(question, parsed=ParsedClaims(question.parsed.claims, slots))
        return leading.nodes(own, among)

    def devices(self, question: PolicyQuestion, candidates: Candidates, view: View) -> Rows | None:
        """See `Policy.devices`."""
        policy = self.policies.of_option(candidates.option, question.snapshot)
        return None if policy is None else policy.devices(question, candidates, view)

    def sets(self, _question: PolicyQuestion, _view: View) -> SetJudge | None:
        """See `Policy.sets`. Keys of different policies cannot be compared."""
        return None


_DRIVERS: Cache[Fleet, dict[RequestKey, tuple[str, ...]]] = Cache(lambda _: {}, on_fork=dict.copy)


def _drivers(option: RequestOption, snapshot: Snapshot) -> tuple[str, ...]:
    """The drivers with devices that suit a request, sorted. Cached by fleet."""
    fleet = snapshot.fleet
    known = _DRIVERS.of(fleet)
    if option.key not in known:
        rows = np.flatnonzero(match_in_fleet(option, snapshot).suitable)
        pools = distinct(fleet.pool_of[rows]).tolist()
        known[option.key] = tuple(sorted({fleet.pools[at].id.driver for at in pools}))
    return known[option.key]


PLAIN = Policies()
"""First fit for all claims: what Kubernetes' own allocator does"""
