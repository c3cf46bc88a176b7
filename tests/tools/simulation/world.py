"""The cluster around the reconciler: what users, drivers, schedulers and other allocators do to it."""

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from random import Random

from reconciler.api.validation.served_kinds import CLAIM, POD
from tests.tools.simulation import demand
from tests.tools.simulation.audit.claims import claims_of
from tests.tools.simulation.evictions import of_group, teamed
from tests.tools.simulation.fleet import Object
from tests.tools.simulation.gangs import Gangs
from tests.tools.simulation.ground import Ground
from tests.tools.simulation.replicas import Replicas
from tests.tools.simulation.supply import Supply
from tests.tools.simulation.tampering import Tampering

FIRST = 14
"""Things of a world with teams that are made before pods that may preempt"""


class World:
    """A server with a fleet, and everybody else who writes to it."""

    def __init__(
        self, random: Random, true_time: Callable[[], float], count: Counter[str], kinds: Collection[str] = ()
    ) -> None:
        self.random = random
        self.count = count
        self.ground = Ground(random, true_time, count)
        self.api = self.ground.api
        self._supply = Supply(self.ground, partitions="moves" in kinds)
        self.claims = Tampering(self.ground, self._supply.drivers)
        self.ganged = "gangs" in kinds
        self.teams = "evictions" in kinds or "moves" in kinds
        """Whether pods are of teams with budgets, and some of them may preempt"""
        self._bursts = "bursts" in kinds
        self.controllers = random.random() < 0.6 or self.ganged or self.teams
        """Whether there are pods, and the control plane that runs them"""
        self.turmoil = random.choice((0.0, 0.0, 0.15, 0.4))
        """How much of what happens concerns slices and nodes"""
        of_gangs = Random(random.random()) if self.ganged else random
        self.gangs = Gangs(self.api, of_gangs, true_time, count, self.claims.given_away)
        self.ground.disturbed = self.gangs.disturbed
        self._supply.publish()
        self.replicas = Replicas(self.api, Random(random.random())) if "moves" in kinds else None
        self.templates = [f"t{n}" for n in range(3)]
        if self.controllers:
            self.templates_made()

    def templates_made(self) -> None:
        """Publish the templates from which pods have claims made."""
        made = demand.plain_spec if self.teams or self._bursts else demand.claim_spec
        made = made if self.replicas is None else demand.small_spec
        specs = ((name, made(self._supply.drivers, self.random)) for name in self.templates)
        self.api.load(demand.template(name, spec) for name, spec in specs)

    def act(self) -> None:
        """Something happens."""
        supply = self.random.random() < self.turmoil
        acts = self._supply.acts() if supply else self._of_demand()
        self.ground.do(self.random.choice(acts))

    def demand(self) -> None:
        """Somebody wants devices."""
        if self.ganged and self.random.random() < 0.5:
            self.ground.do(lambda: self.gangs.new(self.templates))
            return
        if self._bursts and self.random.random() < 0.7:
            self.ground.do(self.new_burst)
            return
        likely = 0.5 if self.replicas is None else 0.9
        self.ground.do(self.new_pod if self.controllers and self.random.random() < likely else self.new_claim)

    def meddle(self, path: str) -> None:
        """Something happens to the claim or pod at a path, or to the devices it may be about to get."""
        name = path.removesuffix("/status").rpartition("/")[2]
        kind = POD if "/pods/" in path else CLAIM
        record = self.api.store[kind].get(f"default/{name}")
        acts: list[Callable[[], None]] = [self._meddle_with_supply] if self.turmoil else []
        if record is not None and kind is CLAIM:
            claims = self.claims
            some = (
                claims.touch, claims.drop, claims.drop, claims.give_away, claims.clear, claims.remake,
                claims.reserve,
            )  # fmt: skip
            acts += [partial(act, record.object) for act in some]
        if record is not None and kind is POD:
            acts += [
                partial(self.claims.touch, record.object, POD),
                partial(self.ground.delete, POD, record.object),
            ]
        if acts:
            self.ground.do(self.random.choice(acts))

    def supplant(self, path: str) -> None:
        """Somebody else comes to want what a claim is about to get, while it may become unwanted, untouched.

        A late allocation then takes what others were given, unless it is fenced off.
        """
        name = path.removesuffix("/status").rpartition("/")[2]
        record = self.api.store[CLAIM].get(f"default/{name}") if "/resourceclaims/" in path else None
        if record is None:
            return
        for _ in range(self.random.choice((1, 2))):
            self.count["claims"] += 1
            self.ground.do(
                lambda: self.api.load([demand.claim(self.ground.name("c"), record.object["spec"])])
            )
        for pod in self.ground.all(POD):
            if f"default/{name}" in claims_of(pod) and self.random.random() < 0.5:
                self.ground.do(lambda pod=pod: self.ground.delete(POD, pod))  # type: ignore[misc]

    def _meddle_with_supply(self) -> None:
        self.random.choice(self._supply.acts())()

    def _of_demand(self) -> list[Callable[[], None]]:
        claims = self.claims
        on_one = (
            claims.drop, claims.touch, claims.clear, claims.give_away, claims.remake, claims.relabel,
            claims.reserve, claims.unreserve,
        )  # fmt: skip
        some = [self.new_claim] * 3 + [partial(self._with_one, act) for act in on_one] + [self.compact]
        if self.controllers:
            some += [self.new_pod, self.new_pod, self.new_pod, self.drop_pod, self.drop_pod]
        if self.teams:
            some += [self.new_pod] * 9
        if self._bursts:
            some += [self.new_burst] * 6 + [self.end_burst] * 4
        if self.ganged:
            some += [lambda: self.gangs.new(self.templates)] * 5
            some += [self.gangs.complete, self.gangs.complete, self.gangs.drop]
        return some

    def _with_one(self, act: Callable[[Object], None]) -> None:
        claims = list(self.ground.loose())
        if claims:
            act(self.random.choice(claims))

    def new_claim(self) -> None:
        self.count["claims"] += 1
        spec = demand.claim_spec(self._supply.drivers, self.random)
        managed = self.random.random() < 0.8
        self.api.load([demand.claim(self.ground.name("c"), spec, managed=managed)])

    def new_pod(self) -> None:
        self.count["pods"] += 1
        names = [claim["metadata"]["name"] for claim in self.ground.loose()]
        claims = self.random.sample(names, min(len(names), self.random.choice((0, 0, 1, 2))))
        templates = self.random.choices(self.templates, k=self.random.choice((0, 1, 1, 2)))
        if self.teams and self.random.random() < 0.9:
            claims, templates = [], [self.random.choice(self.templates)]
        zone = self.random.choice((None, None, "a", "b"))
        priority = self.random.randint(0, 2)
        if (self.teams and self.ground.made < FIRST) or self.replicas is not None:
            priority, zone = priority if self.ground.made >= FIRST else 0, None
        made = demand.pod(self.ground.name("p"), claims, templates, zone=zone, priority=priority)
        made = teamed(made, self.random) if self.teams else made
        if self.teams and self.replicas is None:
            self.api.load(of_group(made))
            return
        self.api.load([made if self.replicas is None or claims else self.replicas.adopted(made)])

    def new_burst(self) -> None:
        """Several claims of equal specs, or pods of one template."""
        size = self.random.randint(3, 8)
        self.count["bursts"] += 1
        if self.controllers and self.random.random() < 0.5:
            self.count["pods"] += size
            template, priority = self.random.choice(self.templates), self.random.randint(0, 1)
            names = [self.ground.name("p") for _ in range(size)]
            self.api.load([demand.pod(name, [], [template], zone=None, priority=priority) for name in names])
            return
        self.count["claims"] += size
        spec = demand.plain_spec(self._supply.drivers, self.random)
        self.api.load([demand.claim(self.ground.name("c"), spec) for _ in range(size)])

    def end_burst(self) -> None:
        """Several claims or pods go."""
        if self.controllers and self.random.random() < 0.5:
            pods = self.ground.all(POD)
            for pod in self.random.sample(pods, min(len(pods), 6)):
                self.ground.do(lambda pod=pod: self.ground.delete(POD, pod))  # type: ignore[misc]
            return
        claims = list(self.ground.loose())
        for claim in self.random.sample(claims, min(len(claims), 8)):
            self.ground.do(lambda claim=claim: self.claims.drop(claim))  # type: ignore[misc]

    def drop_pod(self) -> None:
        pods = self.ground.all(POD)
        if pods:
            self.ground.delete(POD, self.random.choice(pods))

    def compact(self) -> None:
        self.count["history forgotten"] += 1
        self.api.store.compact()

    def thin(self) -> None:
        """Much of what is there ends, in no order."""
        assert self.replicas is not None
        self.replicas.thin()
        for claim in self.ground.loose():
            self.ground.do(lambda claim=claim: self.ground.delete(CLAIM, claim))  # type: ignore[misc]

    def mend(self) -> None:
        """Everything that was lost comes back, so that there is something to decide in the end."""
        self._supply.mend()
        if self.turmoil and self.random.random() < 0.5:
            self._supply.renew_pool()

    def let_go(self) -> None:
        """Everybody ends: pods go, reservations of others end, claims are deleted."""
        if self.replicas is not None:
            self.replicas.end()
        for pod in self.ground.all(POD):
            self.ground.delete(POD, pod)
        self.gangs.let_go()
        for claim in self.ground.all(CLAIM):
            if claim.get("status", {}).get("reservedFor"):
                self.ground.do(lambda claim=claim: self.claims.unreserve(claim))  # type: ignore[misc]
        for claim in self.ground.all(CLAIM):
            if "deletionTimestamp" not in claim["metadata"]:
                self.ground.do(lambda claim=claim: self.ground.delete(CLAIM, claim))  # type: ignore[misc]
