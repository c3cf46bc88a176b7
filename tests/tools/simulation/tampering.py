"""What users, schedulers and other allocators do to claims that are there."""

from reconciler.api.objects.claims import FINALIZER
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import CLAIM, POD, SLICE
from reconciler.control.ownership import MANAGED
from tests.tools.simulation import demand
from tests.tools.simulation.audit.claims import claims_of
from tests.tools.simulation.audit.history import STALE
from tests.tools.simulation.fleet import FOREIGN, Object
from tests.tools.simulation.ground import Ground


class Tampering:
    """Changes to single claims, and what became of them."""

    def __init__(self, ground: Ground, drivers: frozenset[str]) -> None:
        self._ground = ground
        self._drivers = drivers
        self.given_away: set[str] = set()
        """Uids of claims that somebody else allocated"""
        self.cleared: dict[str, frozenset[str]] = {}
        """Uid of a claim whose allocation by us somebody else removed -> uids of the pods that named it then,
        or lost their gate before the removal could be known"""
        self._cleared_at: dict[str, float] = {}

    def drop(self, claim: Object) -> None:
        self._ground.count["claims deleted"] += 1
        self._ground.delete(CLAIM, claim)

    def touch(self, thing: Object, kind: ServedKind = CLAIM) -> None:
        self._ground.count["objects edited"] += 1

        def changed(shown: Object) -> Object:
            metadata = shown["metadata"]
            notes = {**metadata.get("annotations", {}), "touched": self._ground.name("")}
            return {**shown, "metadata": {**metadata, "annotations": notes}}

        self._ground.update(kind, thing, changed)

    def relabel(self, claim: Object) -> None:
        """Ours becomes nobody's, or the other way round."""

        def changed(shown: Object) -> Object:
            labels = dict(shown["metadata"].get("labels", {}))
            labels[MANAGED] = "false" if labels.get(MANAGED) == "true" else "true"
            return {**shown, "metadata": {**shown["metadata"], "labels": labels}}

        self._ground.update(CLAIM, claim, changed)

    def clear(self, claim: Object) -> None:
        """As kube-scheduler may do with an allocation that is not reserved."""
        record = self._ground.api.store[CLAIM].get(f"default/{claim['metadata']['name']}")
        found = record.object.get("status", {}) if record else {}
        if "allocation" not in found or found.get("reservedFor"):
            return
        self._ground.count["claims deallocated by others"] += 1
        self._ground.disturbed(claim["metadata"]["name"])
        self._ground.update(CLAIM, claim, lambda shown: {**shown, "status": {}}, status=True)
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
                pod["metadata"]["uid"] for pod in self._ground.all(POD) if key in claims_of(pod)
            )
            self._cleared_at[uid] = self._ground.now()

    def ungated(self, path: str) -> None:
        """The gate of the pod at a path was removed, perhaps before the sender saw what was cleared."""
        record = self._ground.api.store[POD].get(f"default/{path.rpartition('/')[2]}")
        if record is None:
            return
        for key in claims_of(record.object):
            claim = self._ground.api.store[CLAIM].get(key) if key is not None else None
            uid = claim.object["metadata"]["uid"] if claim is not None else ""
            if uid in self.cleared and self._ground.now() - self._cleared_at[uid] < STALE:
                self.cleared[uid] |= {record.object["metadata"]["uid"]}

    def give_away(self, claim: Object) -> None:
        """Somebody else allocates a claim, with a device that we do not own."""
        if FOREIGN not in self._drivers:
            return
        taken = {
            (result["pool"], result["device"])
            for one in self._ground.all(CLAIM)
            for result in one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            if result["driver"] == FOREIGN
        }
        free = [
            (one["spec"]["pool"]["name"], device["name"])
            for one in self._ground.all(SLICE)
            if one["spec"]["driver"] == FOREIGN
            for device in one["spec"]["devices"]
            if (one["spec"]["pool"]["name"], device["name"]) not in taken
        ]
        record = self._ground.api.store[CLAIM].get(f"default/{claim['metadata']['name']}")
        if not free or record is None or "allocation" in record.object.get("status", {}):
            return
        self._ground.count["claims allocated by others"] += 1
        pool, device = self._ground.random.choice(free)
        wanted = record.object["spec"]["devices"]["requests"][0]
        request = wanted["name"] + (
            f"/{wanted['firstAvailable'][0]['name']}" if "exactly" not in wanted else ""
        )
        result = {"request": request, "driver": FOREIGN, "pool": pool, "device": device}
        on = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
        allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [on]}}
        if self._ground.random.random() < 0.5:
            self._ground.update(CLAIM, claim, _with_finalizer)
        self.given_away.add(record.object["metadata"]["uid"])
        self._ground.update(
            CLAIM, claim, lambda shown: {**shown, "status": {"allocation": allocation}}, status=True
        )

    def remake(self, claim: Object) -> None:
        """Delete a claim and create another of the same name, where no finalizer is in the way."""
        if claim["metadata"].get("finalizers") or claim["metadata"].get("ownerReferences"):
            return
        self._ground.count["claims made anew"] += 1
        self._ground.delete(CLAIM, claim)
        labels = claim["metadata"].get("labels", {})
        spec = demand.claim_spec(self._drivers, self._ground.random)
        self._ground.api.load(
            [demand.claim(claim["metadata"]["name"], spec, managed=labels.get(MANAGED) == "true")]
        )

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

        self._ground.update(CLAIM, claim, reserved, status=True)


def _with_finalizer(shown: Object) -> Object:
    kept = shown["metadata"].get("finalizers", [])
    return {**shown, "metadata": {**shown["metadata"], "finalizers": [*kept, FINALIZER]}}
