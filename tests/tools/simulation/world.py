"""The cluster around the reconciler: what users, drivers, schedulers and other allocators do to it."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from reconciler.api.objects.claims import FINALIZER
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import CLAIM, DEVICE_CLASS, NODE, POD, SLICE
from reconciler.api.validation.status import Refusal
from reconciler.control.ownership import MANAGED
from reconciler.embedded import ApiServer
from tests.tools.simulation import demand, fleet
from tests.tools.simulation.audit.claims import claims_of
from tests.tools.simulation.audit.history import STALE
from tests.tools.simulation.evictions import teamed
from tests.tools.simulation.fleet import FOREIGN, NODES, Object
from tests.tools.simulation.gangs import Gangs
from tests.tools.simulation.replicas import Replicas

FIRST = 14
"""Things of a world with teams that are made before pods that may preempt"""
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A server with a fleet, and everybody else who writes to it."""

    def __init__(
        self,
        random: Random,
        true_time: Callable[[], float],
        count: Counter[str],
        *,
        gangs: bool = False,
        teams: bool = False,
        bursts: bool = False,
        moves: bool = False,
    ) -> None:
        """`teams`: pods are of teams with budgets, and some of them may preempt. `bursts`: several claims or
        pods of one template come, and go, at once. `moves`: many pods have a controller that replaces them.
        """
        self.random = random
        self.count = count
        self._now = true_time
        self.api = ApiServer(
            now=lambda: EPOCH + timedelta(seconds=true_time()), random=Random(random.random())
        )
        self.pools = list(fleet.pools(random))
        if moves:  # there must be something to gain
            self.pools = [(fleet.PART, name) for name in NODES]
        self.drivers = frozenset(driver for driver, _ in self.pools)
        self.ganged = gangs
        self._teams = teams
        self._bursts = bursts
        self.controllers = random.random() < 0.6 or gangs or teams
        """Whether there are pods, and the control plane that runs them"""
        self.generation = 1
        self.made = 0
        self.given_away: set[str] = set()
        """Uids of claims that somebody else allocated"""
        self.cleared: dict[str, frozenset[str]] = {}
        """Uid of a claim whose allocation by us somebody else removed -> uids of the pods that named it then,
        or lost their gate before the removal could be known"""
        self._cleared_at: dict[str, float] = {}
        self.turmoil = random.choice((0.0, 0.0, 0.15, 0.4))
        """How much of what happens concerns slices and nodes"""
        of_gangs = Random(random.random()) if gangs else random
        self.gangs = Gangs(self.api, of_gangs, true_time, count, self.given_away)
        self.api.load(map(fleet.device_class, fleet.CLASSES))
        self.api.load(map(fleet.node, NODES))
        for driver, pool in self.pools:
            self.api.load(fleet.slices(driver, pool, 1, random))
        self.replicas = Replicas(self.api, Random(random.random())) if moves else None
        self.templates = [f"t{n}" for n in range(3)]
        if self.controllers:
            self.templates_made()

    def templates_made(self) -> None:
        """Publish the templates from which pods have claims made."""
        made = demand.plain_spec if self._teams or self._bursts else demand.claim_spec
        made = made if self.replicas is None else demand.small_spec
        specs = ((name, made(self.drivers, self.random)) for name in self.templates)
        self.api.load(demand.template(name, spec) for name, spec in specs)

    # -- looking

    def all(self, kind: ServedKind) -> list[Any]:
        return [record.object for record in self.api.store[kind].scan("")]

    def loose(self) -> Iterator[Object]:
        """Claims made on their own, not being deleted."""
        for claim in self.all(CLAIM):
            metadata = claim["metadata"]
            if "ownerReferences" not in metadata and "deletionTimestamp" not in metadata:
                yield claim

    # -- acting

    def act(self) -> None:
        """Something happens."""
        supply = self.random.random() < self.turmoil
        acts = self._of_supply() if supply else self._of_demand()
        self._do(self.random.choice(acts))

    def demand(self) -> None:
        """Somebody wants devices."""
        if self.ganged and self.random.random() < 0.5:
            self._do(lambda: self.gangs.new(self.templates))
            return
        if self._bursts and self.random.random() < 0.7:
            self._do(self.new_burst)
            return
        likely = 0.5 if self.replicas is None else 0.9
        self._do(self.new_pod if self.controllers and self.random.random() < likely else self.new_claim)

    def meddle(self, path: str) -> None:
        """Something happens to the claim or pod at a path, or to the devices it may be about to get."""
        name = path.removesuffix("/status").rpartition("/")[2]
        kind = POD if "/pods/" in path else CLAIM
        record = self.api.store[kind].get(f"default/{name}")
        acts: list[Callable[[], None]] = [self.meddle_with_supply] if self.turmoil else []
        if record is not None and kind is CLAIM:
            claim = record.object
            acts += [
                lambda: self.touch(claim), lambda: self.drop(claim), lambda: self.drop(claim),
                lambda: self.give_away(claim), lambda: self.clear(claim), lambda: self.remake(claim),
                lambda: self.reserve(claim),
            ]  # fmt: skip
        if record is not None and kind is POD:
            pod = record.object
            acts += [lambda: self.touch(pod, POD), lambda: self._delete(POD, pod)]
        if acts:
            self._do(self.random.choice(acts))

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
            self._do(lambda: self.api.load([demand.claim(self._name("c"), record.object["spec"])]))
        for pod in self.all(POD):
            if f"default/{name}" in claims_of(pod) and self.random.random() < 0.5:
                self._do(lambda pod=pod: self._delete(POD, pod))  # type: ignore[misc]

    def meddle_with_supply(self) -> None:
        self.random.choice(self._of_supply())()

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Refusal:
            self.count["act refused by the server"] += 1

    def _of_demand(self) -> list[Callable[[], None]]:
        some: list[Callable[[], None]] = [
            self.new_claim, self.new_claim, self.new_claim,
            lambda: self._with_one(self.drop), lambda: self._with_one(self.touch),
            lambda: self._with_one(self.clear), lambda: self._with_one(self.give_away),
            lambda: self._with_one(self.remake), lambda: self._with_one(self.relabel),
            lambda: self._with_one(self.reserve), lambda: self._with_one(self.unreserve), self.compact,
        ]  # fmt: skip
        if self.controllers:
            some += [self.new_pod, self.new_pod, self.new_pod, self.drop_pod, self.drop_pod]
        if self._teams:
            some += [self.new_pod] * 9
        if self._bursts:
            some += [self.new_burst] * 6 + [self.end_burst] * 4
        if self.ganged:
            some += [lambda: self.gangs.new(self.templates)] * 5
            some += [self.gangs.complete, self.gangs.complete, self.gangs.drop]
        return some

    def _of_supply(self) -> list[Callable[[], None]]:
        return [
            self.renew_pool, self.renew_pool, self.renew_in_place, self.lose_slice, self.lose_slice,
            self.cordon, self.lose_node, self.lose_class,
        ]  # fmt: skip

    def _with_one(self, act: Callable[[Object], None]) -> None:
        claims = list(self.loose())
        if claims:
            act(self.random.choice(claims))

    def _name(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    # -- demand

    def new_claim(self) -> None:
        self.count["claims"] += 1
        spec = demand.claim_spec(self.drivers, self.random)
        managed = self.random.random() < 0.8
        self.api.load([demand.claim(self._name("c"), spec, managed=managed)])

    def new_pod(self) -> None:
        self.count["pods"] += 1
        names = [claim["metadata"]["name"] for claim in self.loose()]
        claims = self.random.sample(names, min(len(names), self.random.choice((0, 0, 1, 2))))
        templates = self.random.choices(self.templates, k=self.random.choice((0, 1, 1, 2)))
        if self._teams and self.random.random() < 0.9:
            claims, templates = [], [self.random.choice(self.templates)]
        zone = self.random.choice((None, None, "a", "b"))
        priority = self.random.randint(0, 2)
        if (self._teams and self.made < FIRST) or self.replicas is not None:
            priority, zone = priority if self.made >= FIRST else 0, None
        made = demand.pod(self._name("p"), claims, templates, zone=zone, priority=priority)
        made = teamed(made, self.random) if self._teams else made
        self.api.load([made if self.replicas is None or claims else self.replicas.adopted(made)])

    def new_burst(self) -> None:
        """Several claims of equal specs, or pods of one template."""
        size = self.random.randint(3, 8)
        self.count["bursts"] += 1
        if self.controllers and self.random.random() < 0.5:
            self.count["pods"] += size
            template, priority = self.random.choice(self.templates), self.random.randint(0, 1)
            names = [self._name("p") for _ in range(size)]
            self.api.load([demand.pod(name, [], [template], zone=None, priority=priority) for name in names])
            return
        self.count["claims"] += size
        spec = demand.plain_spec(self.drivers, self.random)
        self.api.load([demand.claim(self._name("c"), spec) for _ in range(size)])

    def end_burst(self) -> None:
        """Several claims or pods go."""
        if self.controllers and self.random.random() < 0.5:
            pods = self.all(POD)
            for pod in self.random.sample(pods, min(len(pods), 6)):
                self._do(lambda pod=pod: self._delete(POD, pod))  # type: ignore[misc]
            return
        claims = list(self.loose())
        for claim in self.random.sample(claims, min(len(claims), 8)):
            self._do(lambda claim=claim: self.drop(claim))  # type: ignore[misc]

    def drop_pod(self) -> None:
        pods = self.all(POD)
        if pods:
            self._delete(POD, self.random.choice(pods))

    def drop(self, claim: Object) -> None:
        self.count["claims deleted"] += 1
        self._delete(CLAIM, claim)

    def touch(self, thing: Object, kind: ServedKind = CLAIM) -> None:
        self.count["objects edited"] += 1

        def changed(shown: Object) -> Object:
            metadata = shown["metadata"]
            notes = {**metadata.get("annotations", {}), "touched": self._name("")}
            return {**shown, "metadata": {**metadata, "annotations": notes}}

        self._update(kind, thing, changed)

    def relabel(self, claim: Object) -> None:
        """Ours becomes nobody's, or the other way round."""

        def changed(shown: Object) -> Object:
            labels = dict(shown["metadata"].get("labels", {}))
            labels[MANAGED] = "false" if labels.get(MANAGED) == "true" else "true"
            return {**shown, "metadata": {**shown["metadata"], "labels": labels}}

        self._update(CLAIM, claim, changed)

    def clear(self, claim: Object) -> None:
        """As kube-scheduler may do with an allocation that is not reserved."""
        record = self.api.store[CLAIM].get(f"default/{claim['metadata']['name']}")
        found = record.object.get("status", {}) if record else {}
        if "allocation" not in found or found.get("reservedFor"):
            return
        self.count["claims deallocated by others"] += 1
        self.gangs.disturbed(claim["metadata"]["name"])
        self._update(CLAIM, claim, lambda shown: {**shown, "status": {}}, status=True)
        self._leave(claim)

    def freed(self, claim: Object) -> None:
        """The claim's last user ended, and the resourceclaim controller freed it. For another pod that lost
        its gate while it was in use, kube-scheduler decides.
        """
        self._leave(claim)

    def _leave(self, claim: Object) -> None:
        if (uid := claim["metadata"]["uid"]) not in self.given_away:
            key = f"default/{claim['metadata']['name']}"
            self.cleared[uid] = frozenset(
                pod["metadata"]["uid"] for pod in self.all(POD) if key in claims_of(pod)
            )
            self._cleared_at[uid] = self._now()

    def ungated(self, path: str) -> None:
        """The gate of the pod at a path was removed, perhaps before the sender saw what was cleared."""
        record = self.api.store[POD].get(f"default/{path.rpartition('/')[2]}")
        if record is None:
            return
        for key in claims_of(record.object):
            claim = self.api.store[CLAIM].get(key) if key is not None else None
            uid = claim.object["metadata"]["uid"] if claim is not None else ""
            if uid in self.cleared and self._now() - self._cleared_at[uid] < STALE:
                self.cleared[uid] |= {record.object["metadata"]["uid"]}

    def give_away(self, claim: Object) -> None:
        """Somebody else allocates a claim, with a device that we do not own."""
        if FOREIGN not in self.drivers:
            return
        taken = {
            (result["pool"], result["device"])
            for one in self.all(CLAIM)
            for result in one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            if result["driver"] == FOREIGN
        }
        free = [
            (one["spec"]["pool"]["name"], device["name"])
            for one in self.all(SLICE)
            if one["spec"]["driver"] == FOREIGN
            for device in one["spec"]["devices"]
            if (one["spec"]["pool"]["name"], device["name"]) not in taken
        ]
        record = self.api.store[CLAIM].get(f"default/{claim['metadata']['name']}")
        if not free or record is None or "allocation" in record.object.get("status", {}):
            return
        self.count["claims allocated by others"] += 1
        pool, device = self.random.choice(free)
        wanted = record.object["spec"]["devices"]["requests"][0]
        request = wanted["name"] + (
            f"/{wanted['firstAvailable'][0]['name']}" if "exactly" not in wanted else ""
        )
        result = {"request": request, "driver": FOREIGN, "pool": pool, "device": device}
        on = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
        allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [on]}}
        if self.random.random() < 0.5:
            self._update(CLAIM, claim, _with_finalizer)
        self.given_away.add(record.object["metadata"]["uid"])
        self._update(CLAIM, claim, lambda shown: {**shown, "status": {"allocation": allocation}}, status=True)

    def remake(self, claim: Object) -> None:
        """Delete a claim and create another of the same name, where no finalizer is in the way."""
        if claim["metadata"].get("finalizers") or claim["metadata"].get("ownerReferences"):
            return
        self.count["claims made anew"] += 1
        self._delete(CLAIM, claim)
        labels = claim["metadata"].get("labels", {})
        spec = demand.claim_spec(self.drivers, self.random)
        self.api.load([demand.claim(claim["metadata"]["name"], spec, managed=labels.get(MANAGED) == "true")])

    def reserve(self, claim: Object) -> None:
        """Something that is no pod begins to use the claim."""
        if not claim.get("status", {}).get("allocation"):
            return
        user = {"apiGroup": "example.com", "resource": "jobs", "name": "job", "uid": "1"}
        self._reserve(claim, [user])

    def unreserve(self, claim: Object) -> None:
        users = claim.get("status", {}).get("reservedFor", [])
        self._reserve(claim, [user for user in users if user["resource"] == "pods"])

    def _reserve(self, claim: Object, users: list[Object]) -> None:
        def reserved(shown: Object) -> Object:
            return {**shown, "status": {**shown.get("status", {}), "reservedFor": users}}

        self._update(CLAIM, claim, reserved, status=True)

    def compact(self) -> None:
        self.count["history forgotten"] += 1
        self.api.compact()

    # -- supply

    def renew_pool(self) -> None:
        """A driver publishes another generation, and takes the old slices back or forgets to."""
        driver, pool = self.random.choice(self.pools)
        self.count["pools published anew"] += 1
        old = [one for one in self.all(SLICE) if _pool(one) == (driver, pool)]
        self.generation += 1
        new = fleet.slices(driver, pool, self.generation, self.random)
        if self.random.random() < 0.5:
            old, new = [], [*new]  # stays incomplete or beside the old one for a while
        self.api.load(new)
        for one in old:
            self._delete(SLICE, one)

    def renew_in_place(self) -> None:
        """A driver publishes other contents under the names of its old slices."""
        driver, pool = self.random.choice(self.pools)
        old = [one for one in self.all(SLICE) if _pool(one) == (driver, pool)]
        self.count["slices edited"] += 1
        self.generation += 1
        new = fleet.slices(driver, pool, self.generation, self.random)
        for before, after in zip(old, new, strict=False):
            spec = after["spec"]
            self._update(SLICE, before, lambda shown, spec=spec: {**shown, "spec": spec})  # type: ignore[misc]
        for one in old[len(new) :]:
            self._delete(SLICE, one)
        self.api.load(new[len(old) :])

    def lose_slice(self) -> None:
        """A slice vanishes, whether or not its devices are held."""
        slices = self.all(SLICE)
        if slices:
            self.count["slices lost"] += 1
            self._delete(SLICE, self.random.choice(slices))

    def cordon(self) -> None:
        names = [one["metadata"]["name"] for one in self.all(NODE)]
        if names:
            name = self.random.choice(names)

            def turned(shown: Object) -> Object:
                cordoned = not shown.get("spec", {}).get("unschedulable", False)
                return {**shown, "spec": {"unschedulable": True} if cordoned else {}}

            self.count["nodes cordoned or opened"] += 1
            self.api.update(NODE, "", name, turned)

    def lose_node(self) -> None:
        """A node goes, or one that went comes back."""
        name = self.random.choice(sorted(NODES))
        self.count["nodes lost or back"] += 1
        if self.api.store[NODE].get(name) is None:
            self.api.load([fleet.node(name)])
        else:
            self.api.delete(NODE, "", name)

    def lose_class(self) -> None:
        """A class goes, or one that went comes back."""
        name = self.random.choice(sorted(fleet.CLASSES))
        self.count["classes lost or back"] += 1
        if self.api.store[DEVICE_CLASS].get(name) is None:
            self.api.load([fleet.device_class(name)])
        else:
            self.api.delete(DEVICE_CLASS, "", name)

    # -- the end

    def thin(self) -> None:
        """Much of what is there ends, in no order."""
        assert self.replicas is not None
        self.replicas.thin()
        for claim in self.loose():
            self._do(lambda claim=claim: self._delete(CLAIM, claim))  # type: ignore[misc]

    def mend(self) -> None:
        """Everything that was lost comes back, so that there is something to decide in the end."""
        for name in NODES:
            if self.api.store[NODE].get(name) is None:
                self.api.load([fleet.node(name)])
        for name in fleet.CLASSES:
            if self.api.store[DEVICE_CLASS].get(name) is None:
                self.api.load([fleet.device_class(name)])
        if self.turmoil and self.random.random() < 0.5:
            self.renew_pool()

    def let_go(self) -> None:
        """Everybody ends: pods go, reservations of others end, claims are deleted."""
        if self.replicas is not None:
            self.replicas.end()
        for pod in self.all(POD):
            self._delete(POD, pod)
        self.gangs.let_go()
        for claim in self.all(CLAIM):
            if claim.get("status", {}).get("reservedFor"):
                self._do(lambda claim=claim: self.unreserve(claim))  # type: ignore[misc]
        for claim in self.all(CLAIM):
            if "deletionTimestamp" not in claim["metadata"]:
                self._do(lambda claim=claim: self._delete(CLAIM, claim))  # type: ignore[misc]

    def _delete(self, kind: ServedKind, thing: Object) -> None:
        metadata = thing["metadata"]
        self.gangs.disturbed(metadata["name"])
        self.api.delete(kind, metadata.get("namespace", ""), metadata["name"])

    def _update(
        self, kind: ServedKind, thing: Object, change: Callable[[Object], Object], *, status: bool = False
    ) -> None:
        metadata = thing["metadata"]
        part = "status" if status else ""
        self.api.update(kind, metadata.get("namespace", ""), metadata["name"], change, subresource=part)


def _pool(slice_: Object) -> tuple[str, str]:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _with_finalizer(shown: Object) -> Object:
    kept = shown["metadata"].get("finalizers", [])
    return {**shown, "metadata": {**shown["metadata"], "finalizers": [*kept, FINALIZER]}}
