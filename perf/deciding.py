"""One store and the time that each decision against it takes."""

import gc
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter, thread_time

from perf.fleets.objects import Json
from perf.workload import Figure, one_by_one
from reconciler.aio.tasks import COLLECTIONS
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.allocation.policies.policy import Policy
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import Device, ResourceSliceSpec
from reconciler.api.versions.reading import read
from reconciler.state.store import Store
from reconciler.state.trial import store_of


class Wrong(Exception):
    """A workload came to another answer than it must; its times mean nothing."""


def read_claim(raw: Json) -> ResourceClaim:
    """A claim from JSON."""
    thing = read(raw)
    assert isinstance(thing, ResourceClaim)
    return thing


@dataclass(slots=True)
class Decider:
    """Decides claims one after the other, as a controller does: picture, answer, assumption."""

    store: Store
    load_seconds: float
    """From typed objects to the first picture"""
    seconds: list[float] = field(default_factory=list)
    """Of each decision"""
    processor: float = 0.0
    """Seconds of processor time of all decisions: what is left of them on a machine that others use too"""
    outcomes: list[Granted | Unsatisfied] = field(default_factory=list)
    policy: Policy | None = None
    """None is first fit"""

    @classmethod
    def over(cls, fleet: Iterable[Json], policy: Policy | None = None) -> "Decider":
        """A decider over a fleet that is listed completely. Reading JSON is not counted.

        What a process does once, such as building the parser of selectors, is done.
        """
        objects = list(map(read, fleet))
        warm_up()
        began = perf_counter()
        store = store_of(objects, Semantics())
        store.snapshot()
        seconds = perf_counter() - began
        # As the controller does once everything is listed.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTIONS)
        return cls(store, seconds, policy=policy)

    def decide(self, *claims: ResourceClaim) -> Granted | Unsatisfied:
        """Decide claims together; from the picture to the assumed plan is timed."""
        store = self.store
        busy, began = thread_time(), perf_counter()
        outcome = allocate(claims, store.snapshot(), policy=self.policy)
        if isinstance(outcome, Granted):
            for plan in outcome.plans:
                store.assume(plan)
        self.seconds.append(perf_counter() - began)
        self.processor += thread_time() - busy
        self.outcomes.append(outcome)
        return outcome

    def grant(self, *claims: ResourceClaim) -> Granted:
        """Decide claims that must get their devices. Raises Wrong if they do not."""
        outcome = self.decide(*claims)
        if isinstance(outcome, Unsatisfied):
            raise Wrong(f"{claims[0].key} must fit: {outcome.message}")
        return outcome

    def refuse(self, *claims: ResourceClaim) -> Unsatisfied:
        """Decide claims that cannot get devices. Raises Wrong if they do."""
        outcome = self.decide(*claims)
        if isinstance(outcome, Granted):
            raise Wrong(f"{claims[0].key} must not fit, but got {devices_of(outcome)}")
        return outcome

    def confirm(self, claim: ResourceClaim, plan: Plan) -> None:
        """Let the watch tell that a plan was written."""
        status = claim.status.model_copy(update={"allocation": plan.allocation})
        self.store.apply(Changed("ResourceClaim", claim.model_copy(update={"status": status})))

    def remove(self, claim: ResourceClaim) -> None:
        """Let the watch tell that a claim is gone."""
        self.store.apply(Removed("ResourceClaim", claim.key))

    def figures(self) -> list[Figure]:
        """What is told of every row of decisions."""
        return [
            *one_by_one(self.seconds),
            Figure("claims/s of processor time", len(self.seconds) / self.processor, "/s", "more"),
            Figure("granted", len(self.granted), "claims", ""),
            Figure("refused", self.refused, "claims", ""),
            Figure("load", self.load_seconds, "s"),
        ]

    @property
    def granted(self) -> list[Granted]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Granted)]

    @property
    def refused(self) -> int:
        return len(self.outcomes) - len(self.granted)


def devices_of(granted: Granted) -> list[str]:
    """The devices of a decision, as `driver/pool/device`."""
    return [str(one.id) for plan in granted.plans for one in plan.allocation.devices.results]


def audit(store: Store, granted: Iterable[Granted]) -> None:
    """Raise Wrong if plans that are held together give out a device twice, or more than its counters hold.

    Looks at the published objects only, none of the engine's columns. Shared devices are left out.
    """
    devices: dict[str, tuple[ResourceSliceSpec, Device]] = {}
    left: Counter[tuple[str, str, str, str]] = Counter()
    for spec in (source.spec for source in store.supply.slices):
        for counters in spec.shared_counters:
            for name, counter in counters.counters.items():
                left[spec.driver, spec.pool.name, counters.name, name] += counter["value"].nanos
        for device in spec.devices:
            devices[f"{spec.driver}/{spec.pool.name}/{device.name}"] = spec, device
    held: set[str] = set()
    for taken in (device for outcome in granted for device in devices_of(outcome)):
        spec, device = devices[taken]
        if device.allow_multiple_allocations:
            continue
        if taken in held:
            raise Wrong(f"{taken} is given out twice")
        held.add(taken)
        for draw in device.consumes_counters:
            for name, counter in draw.counters.items():
                key = spec.driver, spec.pool.name, draw.counter_set, name
                left[key] -= counter["value"].nanos
                if left[key] < 0:
                    raise Wrong(f"{taken} overdraws counter {name} of {draw.counter_set}")
